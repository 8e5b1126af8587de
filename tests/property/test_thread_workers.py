"""Threads that call functions: whatever calls do, each delivery ends once, in what its call did."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from roquet.client.hooks import ConsumeHook
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Delivery
from roquet.client.push.feeds import ConcurrentFeed, FeedContext, QueueLimits
from roquet.client.push.listeners import ConsumeHooks
from roquet.client.push.outcome import DeadLetter, NotStarted, RetryLater
from roquet.client.push.statistics import ConsumerCounters, TopicCounts
from roquet.client.push.workers import ThreadWorkers
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from tests.support.eventually import eventually

CLOCK = SystemClock()
ERRORS: tuple[type[BaseException] | None, ...] = (None, None, RetryLater, DeadLetter, SystemExit)


class Ends:
    """A feed that writes down what became of each delivery."""

    def __init__(self, queue_id: int) -> None:
        self.queue = QueueRef("orders", "broker-a", queue_id)
        self.is_dropped = False
        self.ends: dict[int, list[type[BaseException] | None]] = {}
        self.count = 0
        self.durations_s: list[float] = []

    def ended(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        self.count += 1
        self.durations_s.append(duration_s)
        each: Any = delivery.messages[0]
        self.ends.setdefault(each, []).append(None if error is None else type(error))

    def all_done(self, deliveries: Sequence[Delivery], duration_s: float) -> None:
        for delivery in deliveries:
            self.ended(delivery, None, duration_s)


@given(
    calls=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(ERRORS), st.booleans()), max_size=60
    ),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    thread_count=st.integers(1, 4),
    has_hooks=st.booleans(),
)
def test_each_delivery_ends_once_in_what_its_call_did(
    calls: list[tuple[int, type[BaseException] | None, bool]],
    sizes: list[int],
    thread_count: int,
    has_hooks: bool,
) -> None:
    feeds = [Ends(number) for number in range(3)]
    feeds[2].is_dropped = True
    called: list[int] = []

    def listen(number: int) -> None:
        called.append(number)
        _, kind, is_long = calls[number]
        if is_long:
            # As one that waits for something: others take over.
            threading.Event().wait(0.0002)
        if kind is not None:
            raise kind

    async def work() -> None:
        hooks = ConsumeHooks([ConsumeHook()] if has_hooks else (), "billing", CLOCK)
        workers = ThreadWorkers(listen, thread_count, hooks, CLOCK, is_batch=False)
        workers.start()
        left = [
            Delivery(feeds[feed], [number])  # type: ignore[list-item]
            for number, (feed, *_) in enumerate(calls)
        ]
        turn = 0
        while left:
            size = sizes[turn % len(sizes)]
            workers.put(left[:size])
            del left[:size]
            turn += 1
            await asyncio.sleep(0)
        await eventually(lambda: sum(feed.count for feed in feeds) == len(calls))
        await workers.stop(60)

    asyncio.run(work())
    for number, (feed, kind, _) in enumerate(calls):
        assert feeds[feed].ends[number] == [NotStarted if feeds[feed].is_dropped else kind]
    assert sorted(called) == [number for number, (feed, *_) in enumerate(calls) if feed != 2]
    assert all(0 <= each < 60 for feed in feeds for each in feed.durations_s)


MESSAGE_COUNT = 30


class Kept:
    """Workers that only keep what they are given."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def put(self, deliveries: Sequence[Delivery]) -> None:
        self.deliveries.extend(deliveries)


def filled() -> tuple[ConcurrentFeed, TopicCounts, list[Delivery]]:
    """A feed, its counts and its deliveries."""
    queue = QueueRef("orders", "broker-a", 0)
    config = PushConsumerConfig(name_server="127.0.0.1:1", group="billing")
    counters, kept = ConsumerCounters(), Kept()
    context: Any = FeedContext(config, kept, None, counters, CLOCK)  # type: ignore[arg-type]
    feed = ConcurrentFeed(queue, 0, context, QueueLimits(1000, 1000, None))
    messages = [ReceivedMessage(b"", 0, 10, queue, offset) for offset in range(MESSAGE_COUNT)]
    feed.take_in(messages, MESSAGE_COUNT)
    return feed, counters.topics["orders"], kept.deliveries


@given(order=st.permutations(range(MESSAGE_COUNT)), count=st.integers(0, MESSAGE_COUNT))
def test_deliveries_that_end_together_end_as_one_by_one(order: list[int], count: int) -> None:
    one_by_one, counts, deliveries = filled()
    for number in order[:count]:
        one_by_one.ended(deliveries[number], None, 0.5)
    together, counts_together, deliveries = filled()
    together.all_done([deliveries[number] for number in order[:count]], 0.5 * count)
    assert counts_together == counts
    assert together.book.commit_offset == one_by_one.book.commit_offset
    assert together.book.count == one_by_one.book.count == MESSAGE_COUNT - count
    together.drop()
    together.all_done(deliveries, 0.5)
    assert counts_together == counts
