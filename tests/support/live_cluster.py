"""A name server and brokers of ours inside the test's own process, which come and go on demand."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.server import serve_broker
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import SystemClock
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.namesrv.state import NameServer
from roquet.protocol.messages.message import StoredMessage
from tests.support.quick_disk import QuickDisk
from tests.support.stores import messages, small_config

MEGABYTE = 1 << 20


class LiveCluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = AsyncExitStack()
        self._running: dict[str, AsyncExitStack] = {}
        self._name_port = 0
        self.brokers: dict[str, Broker] = {}
        self.names: NameServer

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self._name_port}"

    async def start_names(self) -> None:
        """Works again after `stop_names`, at the same address."""
        config = NameServerConfig(port=self._name_port, kv_config_path=self._directory / "kv.json")
        serving = serve_names(config, SystemClock(), QuickDisk())
        self.names = await self._names.enter_async_context(serving)
        self._name_port = self.names.config.port

    async def stop_names(self) -> None:
        await self._names.aclose()

    async def start_broker(self, name: str, **settings: Any) -> Broker:
        """Works again after `stop_broker`, at the same address. Settings are of BrokerConfig."""
        before = self.brokers.get(name)
        store = small_config(
            self._directory / name, commit_log_file_size=8 * MEGABYTE, queue_file_size=20_000
        )
        config = BrokerConfig(
            store=store,
            broker_name=name,
            name_servers=(self.name_server,),
            listen_port=0 if before is None else before.config.listen_port,
        )
        stack = self._running[name] = AsyncExitStack()
        serving = serve_broker(replace(config, **settings), SystemClock(), QuickDisk())
        broker = self.brokers[name] = await stack.enter_async_context(serving)
        return broker

    async def stop_broker(self, name: str) -> None:
        await self._running.pop(name).aclose()

    async def stop(self) -> None:
        for name in list(self._running):
            await self.stop_broker(name)
        await self.stop_names()

    def stored(
        self, topic: str, queue_id: int = 0, broker: str = "broker-a"
    ) -> list[StoredMessage]:
        """All messages of a queue, in their order."""
        return messages(self.brokers[broker].store, topic, queue_id)

    def all_stored(self, topic: str) -> list[StoredMessage]:
        """The messages of all queues of all brokers that run."""
        found: list[StoredMessage] = []
        for name in self._running:
            config = self.brokers[name].tables.topics.find(topic)
            for queue_id in range(0 if config is None else config.write_queue_nums):
                found += self.stored(topic, queue_id, name)
        return found


@asynccontextmanager
async def live_cluster(directory: Path) -> AsyncIterator[LiveCluster]:
    cluster = LiveCluster(directory)
    await cluster.start_names()
    try:
        yield cluster
    finally:
        await cluster.stop()
