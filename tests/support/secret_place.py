"""Brokers of one name that know a common secret, in the process of the test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings.config import BrokerConfig, BrokerRole
from roquet.broker.supervisor import BrokerSupervisor, supervised_broker
from roquet.clock import SystemClock
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from tests.support.eventually import eventually
from tests.support.quick_disk import QuickDisk
from tests.support.stores import small_config

HOST = "127.0.0.1"


class SecretPlace:
    """A directory with a name server, where such brokers live."""

    def __init__(self, directory: Path, name_server: str) -> None:
        self.directory = directory
        self.name_server = name_server
        self.secret = directory / "secret"
        self.secret.write_text("a secret of many bytes")
        self.running = AsyncExitStack()

    async def start(
        self, name: str, role: BrokerRole, broker_id: int, **settings: Any
    ) -> BrokerSupervisor:
        config = BrokerConfig(
            store=small_config(self.directory / name, commit_log_file_size=1 << 16),
            broker_name="broker-a",
            role=role,
            broker_id=0 if role is not BrokerRole.SLAVE else broker_id,
            replica_id=broker_id,
            listen_port=0,
            name_servers=(self.name_server,),
            replication_secret_file=self.secret,
            ha_heartbeat_interval_ms=50,
            ack_policy=AckPolicy.ONE,
        )
        life = supervised_broker(replace(config, **settings), SystemClock(), QuickDisk())
        return await self.running.enter_async_context(life)


@asynccontextmanager
async def secret_place(directory: Path) -> AsyncIterator[SecretPlace]:
    config = NameServerConfig(host=HOST, port=0, kv_config_path=directory / "kv.json")
    async with serve_names(config, SystemClock(), QuickDisk()) as names:
        place = SecretPlace(directory, f"{HOST}:{names.config.port}")
        async with place.running:
            yield place


def address(life: BrokerSupervisor) -> str:
    return f"{HOST}:{life.broker.config.listen_port}"


async def followed(
    place: SecretPlace, **settings: Any
) -> tuple[BrokerSupervisor, BrokerSupervisor]:
    """A master, and a slave that has copied its tables."""
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1, **settings)
    two = await place.start("two", BrokerRole.SLAVE, 2, **settings)
    await eventually(lambda: two.broker.tables.topics.version == one.broker.tables.topics.version)
    await eventually(lambda: one.broker.replication.replicas.slaves)
    return one, two
