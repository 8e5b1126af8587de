"""The embedded cluster in a thread of its own, for programs that have no event loop."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self, final

from roquet.client.loop_thread import LoopThread
from roquet.testing.clock import MovableClock
from roquet.testing.cluster import Cluster


@final
class BlockingCluster:
    """`Cluster` explains the methods; any thread may call them."""

    def __init__(self, *, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self._twin = Cluster(brokers=brokers, settings=settings)
        self._thread = LoopThread("cluster")

    @property
    def clock(self) -> MovableClock:
        return self._twin.clock

    @property
    def broker_names(self) -> list[str]:
        return self._twin.broker_names

    @property
    def name_server(self) -> str:
        return self._twin.name_server

    def broker_address(self, name: str = "broker-a") -> str:
        return self._twin.broker_address(name)

    def open(self) -> None:
        self._thread.start()
        try:
            self._thread.run(self._twin.open())
        except BaseException:
            self._thread.stop()
            raise

    def close(self) -> None:
        if self._thread.is_running:
            self._thread.run(self._twin.close())
        self._thread.stop()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def new_topic(self, name: str | None = None, *, queues: int = 4) -> str:
        return self._thread.run(self._twin.new_topic(name, queues=queues))

    def restart_broker(self, name: str = "broker-a") -> None:
        self._thread.run(self._twin.restart_broker(name))

    def stop_broker(self, name: str = "broker-a") -> None:
        self._thread.run(self._twin.stop_broker(name))

    def start_broker(self, name: str = "broker-a") -> None:
        self._thread.run(self._twin.start_broker(name))

    def stop_name_server(self) -> None:
        self._thread.run(self._twin.stop_name_server())

    def start_name_server(self) -> None:
        self._thread.run(self._twin.start_name_server())
