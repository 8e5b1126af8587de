"""Settings of replication that need each other."""

from pathlib import Path
from typing import Final

from roquet.broker.errors import ConfigError
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings.config import BrokerConfig, BrokerRole

SECRET_SIZE_MIN: Final = 16


def check_replication(config: BrokerConfig) -> None:
    """Raises ConfigError."""
    _check_etcd_files(config)
    _check_policy(config)
    if not config.etcd:
        return
    servers = ",".join(config.etcd)
    if config.replication_secret_file is None:
        reason = "it needs replication.secretFile, the same at all brokers of this name"
        raise ConfigError("replication.etcd", servers, reason)
    if config.replica_id == 0:
        reason = "with replication.etcd every broker of a name has a number of its own, above 0"
        raise ConfigError("brokerId", "0", reason)


def _check_policy(config: BrokerConfig) -> None:
    policy = config.ack_policy
    if policy is AckPolicy.ASYNC and config.role is BrokerRole.SYNC_MASTER:
        reason = "brokerRole=SYNC_MASTER waits for a slave: use ASYNC_MASTER, or leave this out"
        raise ConfigError("replication.acknowledge", policy.value, reason)
    if policy not in (None, AckPolicy.ASYNC) and config.replica_count == 1:
        reason = f"replication.acknowledge={policy.value} needs a second broker: at least 2"
        raise ConfigError("replication.copies", "1", reason)


def _check_etcd_files(config: BrokerConfig) -> None:
    files = {
        "replication.etcdTrustCertPath": config.etcd_trusted,
        "replication.etcdCertPath": config.etcd_certificate,
        "replication.etcdKeyPath": config.etcd_key,
    }
    for key, path in files.items():
        if path is not None and not config.etcd_is_encrypted:
            reason = "nothing is encrypted: servers in replication.etcd have to begin with https://"
            raise ConfigError(key, str(path), reason)
    if config.etcd_key is not None and config.etcd_certificate is None:
        reason = "it is the key of no certificate: name that in replication.etcdCertPath"
        raise ConfigError("replication.etcdKeyPath", str(config.etcd_key), reason)


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
