"""What an embedded cluster with failover needs besides its brokers: an etcd, and a secret."""

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from roquet.broker.replication.failover.own_etcd import PEERS_DISTANCE, own_etcd_words
from roquet.errors import RoquetError
from roquet.net.listening import free_port
from roquet.protocol.host import Address

_HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.02
_LOG_TAIL_SIZE: Final = 1000
_SECRET_SIZE: Final = 32


class EtcdEnded(RoquetError):
    """The etcd of a cluster did not start to serve; `log_tail` is the end of its log."""

    def __init__(self, log_tail: str) -> None:
        super().__init__(f"the etcd of the cluster has not started: {log_tail}")
        self.log_tail = log_tail


@asynccontextmanager
async def own_etcd(directory: Path) -> AsyncIterator[str]:
    """Its address, while the block runs. Raises EtcdMissing, EtcdEnded and OSError."""
    port = free_port(_HOST, PEERS_DISTANCE)
    words = own_etcd_words(_HOST, port, directory / "data")
    log_path = directory / "etcd.log"
    process = _started(words, log_path)
    try:
        if not await _comes_to_serve(process, port):
            raise EtcdEnded(log_path.read_bytes()[-_LOG_TAIL_SIZE:].decode(errors="replace"))
        yield str(Address(_HOST, port))
    finally:
        # Its data is not needed afterwards.
        process.kill()
        await asyncio.to_thread(process.wait, _STOP_TIMEOUT_S)


def failover_settings(directory: Path, etcd: str, broker_count: int) -> dict[str, str]:
    """Of brokers of one name that step in for each other."""
    secret = directory / "replication.secret"
    secret.write_text(secrets.token_hex(_SECRET_SIZE))
    return {
        "replication.secretFile": str(secret),
        "replication.acknowledge": "quorum",
        "replication.copies": str(broker_count),
        "replication.etcd": etcd,
    }


def _started(words: list[str], log_path: Path) -> subprocess.Popen[bytes]:
    """Not by asyncio: its loop may be one of a thread that hears of no process that ends."""
    log_path.parent.mkdir()
    with log_path.open("wb") as log_file:
        return subprocess.Popen(  # noqa: S603  It is etcd, as this machine has it.
            words, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file
        )


async def _comes_to_serve(process: subprocess.Popen[bytes], port: int) -> bool:
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            while process.poll() is None:
                try:
                    _, writer = await asyncio.open_connection(_HOST, port)
                except OSError:
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    continue
                writer.close()
                return True
    except TimeoutError:
        pass
    return False
