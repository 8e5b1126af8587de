"""The embedded cluster in a thread of its own, for programs that have no event loop."""

import asyncio
from collections.abc import Mapping
from typing import final

from roquet.client.blocking.twin import BlockingTwin, described_by
from roquet.client.errors import BadArgument
from roquet.client.received import ReceivedMessage
from roquet.testing.clock import MovableClock
from roquet.testing.cluster import Cluster


@final
@described_by(Cluster)
class BlockingCluster(BlockingTwin[Cluster]):
    """`Cluster` explains the methods; any thread may call them."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        replicas: int = 0,
        failover: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        cluster = Cluster(brokers=brokers, replicas=replicas, failover=failover, settings=settings)
        super().__init__(cluster, "cluster")

    @property
    def clock(self) -> MovableClock:
        """By which messages are delayed, retried and checked; `advance` moves it."""
        return self._twin.clock

    @property
    def broker_names(self) -> list[str]:
        """ "broker-a" and so on, as many as were asked for."""
        return self._twin.broker_names

    @property
    def name_server(self) -> str:
        """What clients are given. It stays the same for as long as the cluster lives."""
        return self._twin.name_server

    def broker_address(self, name: str = "broker-a") -> str:
        return self._twin.broker_address(name)

    def new_topic(self, name: str | None = None, *, queues: int = 4) -> str:
        return self._thread.run(self._twin.new_topic(name, queues=queues))

    def received(self, topic: str) -> list[ReceivedMessage]:
        return self._thread.call(lambda: self._twin.received(topic))

    def wait_received(
        self, topic: str, count: int, *, timeout_s: float = 30.0
    ) -> list[ReceivedMessage]:
        return self._thread.run(self._twin.wait_received(topic, count, timeout_s=timeout_s))

    def consumed(
        self,
        group: str,
        *,
        timeout_s: float = 30.0,
        skip_delays: bool = False,
        allow_dead_letters: bool = False,
    ) -> None:
        """Blocks; where consumers live in an event loop, `await asyncio.to_thread` calls it.

        Raises as the one of `Cluster`, and BadArgument inside of a loop, which would wait for
        itself.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._thread.run(
                self._twin.consumed(
                    group,
                    timeout_s=timeout_s,
                    skip_delays=skip_delays,
                    allow_dead_letters=allow_dead_letters,
                )
            )
        else:
            raise BadArgument(
                "`consumed` blocks, and would stop the event loop it is called in: "
                "use `await asyncio.to_thread(cluster.consumed, group)`"
            )

    def copied(self, *, timeout_s: float = 30.0) -> None:
        self._thread.run(self._twin.copied(timeout_s=timeout_s))

    def kill_master(self, name: str = "broker-a") -> str:
        return self._thread.run(self._twin.kill_master(name))

    def elected(self, name: str = "broker-a", *, timeout_s: float = 60.0) -> str:
        return self._thread.run(self._twin.elected(name, timeout_s=timeout_s))

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
