"""Ways to listen: coroutines and functions, one message or many, and who watches."""

import asyncio
import math
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from roquet import AsyncProducer, Message
from roquet.client.hooks import ConsumeHook, ConsumeOutcome, Consuming
from roquet.client.push import workers
from roquet.client.push.delivery import Delivery
from roquet.client.push.listeners import ConsumeHooks, Listener
from roquet.client.push.outcome import DeadLetter
from roquet.client.push.workers import TaskWorkers, ThreadWorkers
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.client.trace.tracing import SubAfterRecord, SubBeforeRecord, parse_traces
from roquet.clock import SystemClock
from roquet.net.service import Services
from roquet.protocol.names import TRACE_TOPIC
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import (
    GROUP,
    PATIENT_S,
    TOPIC,
    Inbox,
    committed,
    committed_soon,
    consumer,
    new_topic,
    numbers,
    send,
)


async def test_a_coroutine_gets_every_message_once(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, *numbers(100))
    inbox = Inbox()
    async with consumer(cluster, inbox):
        await inbox.has(100)
        await send(producer, *numbers(20, 100))
        await inbox.has(120)
    assert Counter(inbox.bodies) == Counter(numbers(120))
    assert committed(cluster) == 120


async def test_a_function_runs_in_threads(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await send(producer, *numbers(100))
    bodies: list[bytes] = []
    threads: set[int] = set()

    def listen(message: ReceivedMessage) -> None:
        threads.add(threading.get_ident())
        bodies.append(message.body)

    async with consumer(cluster, listen):
        await eventually(lambda: len(bodies) >= 100)
    assert Counter(bodies) == Counter(numbers(100))
    assert threading.get_ident() not in threads
    assert committed(cluster) == 100


async def test_functions_block_each_other_no_more_than_there_are_threads(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, *numbers(8))
    all_in = threading.Barrier(8, timeout=PATIENT_S)
    arrived: list[int] = []

    def listen(_message: ReceivedMessage) -> None:
        arrived.append(all_in.wait())

    async with consumer(cluster, listen, concurrency=8):
        await eventually(lambda: len(arrived) == 8)


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, pytest.fail.Exception])
@pytest.mark.parametrize("is_coroutine", [True, False], ids=["coroutine", "function"])
async def test_an_error_that_is_no_exception_costs_neither_worker_nor_message(
    cluster: LiveCluster,
    producer: AsyncProducer,
    kind: type[BaseException],
    is_coroutine: bool,
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(4))
    bodies: list[bytes] = []

    def listen(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        if message.body != b"3":
            raise kind("no reason")

    async def listen_async(message: ReceivedMessage) -> None:
        listen(message)

    listener: Listener = listen_async if is_coroutine else listen
    # One worker: it has to survive them all.
    async with consumer(cluster, listener, concurrency=1) as reading:
        await eventually(lambda: committed_soon(reading) == 4)
        assert "no reason" in (reading.last_error or "")
        assert reading.statistics().topics[TOPIC].failed_count == 3
    assert bodies == numbers(4)


@pytest.mark.parametrize("is_coroutine", [True, False], ids=["coroutine", "function"])
async def test_a_result_that_looks_like_a_status_is_warned_of(
    cluster: LiveCluster,
    producer: AsyncProducer,
    is_coroutine: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await send(producer, *numbers(3))

    def listen(_message: ReceivedMessage) -> str:
        return "RECONSUME_LATER"

    async def listen_async(message: ReceivedMessage) -> str:
        return listen(message)

    async with consumer(cluster, listen_async if is_coroutine else listen) as reading:
        await eventually(lambda: committed_soon(reading) == 3)
    (warning,) = [each for each in caplog.records if "listener returned" in each.message]
    assert "'RECONSUME_LATER', which is ignored" in warning.message


async def test_threads_start_when_there_is_work_for_them(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox: list[bytes] = []

    def listeners() -> int:
        return sum(thread.name.startswith("listener ") for thread in threading.enumerate())

    async with consumer(cluster, lambda message: inbox.append(message.body), concurrency=20):
        assert listeners() == 0
        await send(producer, b"1")
        await eventually(lambda: inbox == [b"1"])
        assert listeners() == 1


async def test_as_many_coroutines_run_as_may(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await send(producer, *numbers(12))
    running: set[bytes] = set()
    may_end = asyncio.Event()

    async def listen(message: ReceivedMessage) -> None:
        running.add(message.body)
        await may_end.wait()
        running.discard(message.body)

    async with consumer(cluster, listen, concurrency=5) as reading:
        await eventually(lambda: len(running) == 5)
        assert reading.statistics().running_count == 5
        may_end.set()
        await eventually(lambda: committed_soon(reading) == 12)


async def test_coroutines_that_never_wait_leave_time_for_others(
    cluster: LiveCluster, producer: AsyncProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_SLICE_S", 0.0)
    await new_topic(cluster, 1)
    await send(producer, *numbers(30))
    turns: list[int] = []

    async def tick() -> None:
        while True:
            turns.append(len(inbox.messages))
            await asyncio.sleep(0)

    inbox = Inbox()
    ticking = asyncio.create_task(tick())
    async with consumer(cluster, inbox):
        await inbox.has(30)
    ticking.cancel()
    # Others had a turn while there were more messages waiting.
    assert any(0 < turn < 30 for turn in turns)


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_a_batch_listener_gets_lists_of_one_queue(
    cluster: LiveCluster, producer: AsyncProducer, is_coroutine: bool
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(50))
    batches: list[list[ReceivedMessage]] = []

    async def listen(messages: list[ReceivedMessage]) -> None:
        batches.append(messages.copy())
        messages.clear()  # It is the listener's own list.

    def listen_in_thread(messages: list[ReceivedMessage]) -> None:
        batches.append(messages)

    listener: Listener = listen if is_coroutine else listen_in_thread
    async with consumer(cluster, listener, batch_size=8):
        await eventually(lambda: sum(map(len, batches)) >= 50)
    assert max(map(len, batches)) == 8
    assert all(len({message.queue for message in batch}) == 1 for batch in batches)
    assert committed(cluster) == 50


async def test_a_function_that_returns_something_to_await_has_failed(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    seen = threading.Event()

    def listen(_message: ReceivedMessage) -> Any:
        seen.set()
        future: asyncio.Future[None] = asyncio.Future(loop=loop)
        return future

    loop = asyncio.get_running_loop()
    async with consumer(cluster, listen, retry_count_max=0) as reading:
        await eventually(seen.is_set)
        await eventually(lambda: "async def" in (reading.statistics().last_error or ""))


# Who watches.


class Watching(ConsumeHook):
    def __init__(self) -> None:
        self.begun: list[Consuming] = []
        self.ended: list[Consuming] = []

    def before_consume(self, consuming: Consuming) -> None:
        self.begun.append(consuming)
        raise ZeroDivisionError

    def after_consume(self, consuming: Consuming) -> None:
        self.ended.append(consuming)


@pytest.mark.parametrize("way", ["coroutine", "function", "loop"])
async def test_hooks_see_each_consumption(
    cluster: LiveCluster, producer: AsyncProducer, way: str
) -> None:
    await send(producer, b"x")
    watching = Watching()
    inbox = Inbox(DeadLetter())

    def listen(_message: ReceivedMessage) -> None:
        raise DeadLetter

    listeners: dict[str, Listener | None] = {"coroutine": inbox, "function": listen, "loop": None}
    async with consumer(cluster, listeners[way], hooks=[watching]) as reading:
        if way == "loop":
            async for _message in reading:
                reading.pause()
                break
            watching.ended += watching.begun
        await eventually(lambda: watching.ended)
    (ended,) = watching.ended
    assert ended is watching.begun[0]
    assert (ended.group, ended.queue.topic) == (GROUP, TOPIC)
    assert [message.body for message in ended.messages] == [b"x"]
    if way != "loop":
        assert ended.outcome is ConsumeOutcome.FAILED
        assert isinstance(ended.error, DeadLetter)


async def test_a_listener_whose_own_task_was_cancelled_has_failed(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, *numbers(3))
    calls: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        calls.append(message.body)
        task = asyncio.create_task(asyncio.sleep(PATIENT_S))
        task.cancel()
        await task

    async with consumer(cluster, listen, concurrency=1, retry_count_max=0):
        await eventually(lambda: len(cluster.all_stored(f"%DLQ%{GROUP}")) == 3)
    assert len(calls) == 3


async def test_a_listener_that_refuses_to_be_cancelled_is_too_slow_all_the_same(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    counts: list[int] = []

    async def listen(_message: ReceivedMessage) -> None:
        task = asyncio.current_task()
        assert task is not None
        counts.append(task.cancelling())
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    reading = consumer(cluster, listen, concurrency=1, consume_timeout_s=0.05, retry_count_max=0)
    async with reading:
        await eventually(lambda: cluster.all_stored(f"%DLQ%{GROUP}"))
        await send(producer, b"y")
        await eventually(lambda: len(cluster.all_stored(f"%DLQ%{GROUP}")) == 2)
    assert counts == [0, 0]


async def test_what_becomes_of_a_message_can_be_written_down(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    receipt = await producer.send(Message(TOPIC, b"x", keys=("k",)))
    inbox = Inbox()
    async with consumer(cluster, inbox, trace=True):
        await inbox.has(1)
    traces = b"".join(each.body for each in cluster.all_stored(TRACE_TOPIC)).decode()
    before, after = parse_traces(traces)
    assert isinstance(before, SubBeforeRecord)
    assert isinstance(after, SubAfterRecord)
    assert (before.message_id, before.group, before.keys) == (receipt.message_id, GROUP, "k")
    assert (after.request_id, after.is_success) == (before.request_id, True)


class CountingFeed:
    queue = QueueRef("orders", "broker-a", 0)
    is_dropped = False

    def __init__(self) -> None:
        self.ended_count = 0

    def ended(self, _delivery: Delivery, error: BaseException | None, _duration_s: float) -> None:
        assert error is None
        self.ended_count += 1

    def all_done(self, deliveries: Sequence[Delivery], _duration_s: float) -> None:
        self.ended_count += len(deliveries)


async def test_what_a_reader_has_to_write_is_written_before_a_listener_starts() -> None:
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


@asynccontextmanager
async def workers_of_short_calls(
    listener: Callable[[Any], None], feed: CountingFeed, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ThreadWorkers]:
    """Threads that found the first call of the listener, whose argument is 0, short."""
    monkeypatch.setattr(workers, "_SHORT_CALL_S", math.inf)
    clock = SystemClock()
    hooks = ConsumeHooks((), "billing", clock)
    threads = ThreadWorkers(listener, 4, hooks, clock, is_batch=False)
    threads.put(deliveries_of(feed, 0))
    await eventually(lambda: feed.ended_count == 1)
    yield threads
    await threads.stop(PATIENT_S)


def deliveries_of(feed: CountingFeed, *messages: int) -> list[Delivery]:
    return [Delivery(feed, [each]) for each in messages]  # type: ignore[list-item]


async def test_a_function_whose_calls_are_short_is_called_by_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_WATCH_S", PATIENT_S)
    feed = CountingFeed()
    threads: list[int] = []

    def listen(_message: int) -> None:
        threads.append(threading.get_ident())

    async with workers_of_short_calls(listen, feed, monkeypatch) as pool:
        pool.put(deliveries_of(feed, *range(1, 1001)))
        await eventually(lambda: feed.ended_count == 1001)
    assert len(set(threads)) == 1


async def test_short_calls_continue_when_one_of_them_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = CountingFeed()
    may_end = threading.Event()

    def listen(message: int) -> None:
        if message in (1, 2):
            may_end.wait(PATIENT_S)

    async with workers_of_short_calls(listen, feed, monkeypatch) as pool:
        pool.put(deliveries_of(feed, *range(1, 101)))
        # All but those that hang.
        await eventually(lambda: feed.ended_count == 99)
        assert len(pool.running) == 2
        may_end.set()
        await eventually(lambda: feed.ended_count == 101)


async def test_a_thread_rests_after_a_short_call_when_another_one_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_WATCH_S", PATIENT_S)
    feed = CountingFeed()
    may_end = [threading.Event() for _ in range(5)]
    may_end[0].set()
    threads: dict[int, int] = {}

    def listen(message: int) -> None:
        threads[message] = threading.get_ident()
        if message < len(may_end):
            may_end[message].wait(PATIENT_S)

    async with workers_of_short_calls(listen, feed, monkeypatch) as pool:
        for message in (1, 2, 3):
            pool.put(deliveries_of(feed, message))
            await eventually(lambda: message in threads)  # noqa: B023
        pool.put(deliveries_of(feed, 4, 5, 6))
        # The fourth thread leads now; the others are done, and there is more to take.
        await eventually(lambda: 4 in threads)
        for each in may_end[:4]:
            each.set()
        await eventually(lambda: feed.ended_count == 4)
        may_end[4].set()
        await eventually(lambda: feed.ended_count == 7)
    assert threads[4] == threads[5] == threads[6]
