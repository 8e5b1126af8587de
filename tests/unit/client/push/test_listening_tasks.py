"""When coroutine listeners get their turn."""

import asyncio
from typing import Any

from roquet.client.push.delivery import Delivery
from roquet.client.push.listener_calls import ConsumeHooks
from roquet.client.push.listening_tasks import TaskWorkers
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.service import Services
from tests.support.eventually import eventually


class CountingFeed:
    queue = QueueRef("orders", "broker-a", 0)
    is_dropped = False

    def __init__(self) -> None:
        self.ended_count = 0

    def ended(self, _delivery: Delivery, error: BaseException | None, _duration_s: float) -> None:
        assert error is None
        self.ended_count += 1


async def test_what_a_reader_has_to_write_is_written_before_a_listener_begins() -> None:
    entries: list[str] = []
    feed = CountingFeed()
    clock = SystemClock()

    async def listen(message: Any) -> None:
        entries.append(message)

    async with Services("test") as services:
        hooks = ConsumeHooks((), "billing", clock)
        workers = TaskWorkers(listen, 2, hooks, clock, services, is_batch=False)
        workers.start()
        await asyncio.sleep(0)  # They rest now.
        deliveries: list[Any] = [Delivery(feed, [each]) for each in ("first", "second")]  # type: ignore[list-item]
        workers.put(deliveries)
        # As a connection does with what was sent in this turn of the loop.
        asyncio.get_running_loop().call_soon(entries.append, "written")
        await eventually(lambda: feed.ended_count == 2)
    assert entries == ["written", "first", "second"]
