"""Settings of replication that need each other."""

from pathlib import Path
from typing import Final

from roquet.broker.errors import ConfigError
from roquet.broker.settings.config import BrokerConfig

SECRET_SIZE_MIN: Final = 16


def check_replication(config: BrokerConfig) -> None:
    """Raises ConfigError."""
    if not config.etcd:
        return
    servers = ",".join(config.etcd)
    if config.replication_secret_file is None:
        reason = "it needs replication.secretFile, the same at all brokers of this name"
        raise ConfigError("replication.etcd", servers, reason)
    if config.replica_id == 0:
        reason = "with replication.etcd every broker of a name has a number of its own, above 0"
        raise ConfigError("brokerId", "0", reason)


def read_secret(path: Path) -> bytes:
    """Raises ConfigError."""
    key = "replication.secretFile"
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(key, str(path), f"cannot be read: {error.strerror}") from None
    if len(secret) < SECRET_SIZE_MIN:
        reason = f"has {len(secret)} bytes, and {SECRET_SIZE_MIN} are needed: openssl rand -hex 32"
        raise ConfigError(key, str(path), reason)
    return secret
