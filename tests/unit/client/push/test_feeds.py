"""When a consumer has enough of a queue."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from roquet import AsyncProducer, Message, QueueRef
from roquet.broker.tables.queue_locks import LockTable, QueueKey
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.topics import TopicSettings
from roquet.client.group.start_offset import StartFrom
from roquet.client.push import assignment, queue_locks
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.feeds import QueueLimits, has_room, limits_of
from roquet.client.push.listeners import Listener
from roquet.client.push.offset_book import OffsetBook
from roquet.client.push.outcome import DeadLetter, RetryLater
from roquet.client.push.statistics import PushProgress
from roquet.client.received import ReceivedMessage
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster


def config(**options: object) -> PushConsumerConfig:
    return PushConsumerConfig(name_server="127.0.0.1:1", group="g", **options)  # type: ignore[arg-type]


def test_each_queue_has_limits_of_its_own() -> None:
    assert limits_of(config(), 8) == QueueLimits(1000, 100 * 2**20, 2000)


def test_queues_share_the_limits_of_their_topic() -> None:
    shared = config(topic_count_max=100, topic_size_max=10)
    assert limits_of(shared, 0) == QueueLimits(100, 10, 2000)
    assert limits_of(shared, 8) == QueueLimits(12, 1, 2000)
    assert limits_of(shared, 1000) == QueueLimits(1, 1, 2000)


def test_in_order_the_distance_does_not_matter() -> None:
    assert limits_of(config(orderly=True), 1).span_max is None


@pytest.mark.parametrize(
    ("limits", "is_enough"),
    [
        (QueueLimits(3, 30, 20), False),
        (QueueLimits(2, 30, 20), True),
        (QueueLimits(3, 29, 20), True),
        (QueueLimits(3, 30, 19), True),
        (QueueLimits(3, 30, None), False),
    ],
)
def test_one_limit_is_enough(limits: QueueLimits, is_enough: bool) -> None:
    book = OffsetBook(0)
    for offset in (5, 6, 25):
        book.add_all([SimpleNamespace(queue_offset=offset, size=10)])
    assert has_room(book, limits) is not is_enough


TOPIC = "orders"
GROUP = "billing"
QUEUE_COUNT = 3


@pytest.fixture
async def queues(cluster: LiveCluster) -> list[QueueRef]:
    """Of a topic that has three."""
    async with AsyncAdmin(cluster.name_server) as admin:
        settings = TopicSettings(read_queue_count=QUEUE_COUNT, write_queue_count=QUEUE_COUNT)
        await admin.create_topic(TOPIC, settings)
    return [QueueRef(TOPIC, "broker-a", queue_id) for queue_id in range(QUEUE_COUNT)]


@pytest.fixture
async def producer(cluster: LiveCluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        yield producer


async def send(producer: AsyncProducer, queues: list[QueueRef], count: int, start: int = 0) -> None:
    """That many to each queue, numbered."""
    for queue in queues:
        messages = [Message(TOPIC, b"%d" % (start + number)) for number in range(count)]
        await producer.send_batch(messages, queue=queue)


def consumer(
    cluster: LiveCluster, listener: Listener | None = None, **options: Any
) -> AsyncPushConsumer:
    quick: dict[str, Any] = {
        "start_from": StartFrom.FIRST,
        "orderly": True,
        "error_pause_s": 0.05,
        "retry_pause_s": 0.01,
    }
    made = AsyncPushConsumer(cluster.name_server, GROUP, listener, **(quick | options))
    made.subscribe(TOPIC)
    return made


class Log:
    """What was delivered, by queue, and whether two were in one queue at the same time."""

    def __init__(self) -> None:
        self.numbers: defaultdict[int, list[int]] = defaultdict(list)
        self.overlaps: list[ReceivedMessage] = []
        self._inside: set[int] = set()

    def enter(self, message: ReceivedMessage) -> None:
        queue_id = message.queue.queue_id
        if queue_id in self._inside:
            self.overlaps.append(message)
        self._inside.add(queue_id)
        self.numbers[queue_id].append(int(message.body))

    def leave(self, message: ReceivedMessage) -> None:
        self._inside.discard(message.queue.queue_id)

    @property
    def count(self) -> int:
        return sum(map(len, self.numbers.values()))


def committed(cluster: LiveCluster) -> int:
    return sum(cluster.brokers["broker-a"].tables.offsets.queues(GROUP, TOPIC).values())


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_each_queue_is_delivered_in_order_and_one_at_a_time(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef], is_coroutine: bool
) -> None:
    await send(producer, queues, 40)
    log = Log()

    async def listen(message: ReceivedMessage) -> None:
        log.enter(message)
        await asyncio.sleep(0)
        log.leave(message)

    def listen_in_thread(message: ReceivedMessage) -> None:
        log.enter(message)
        log.leave(message)

    async with consumer(cluster, listen if is_coroutine else listen_in_thread):
        await eventually(lambda: log.count == 120)
    assert not log.overlaps
    assert log.numbers == {queue.queue_id: list(range(40)) for queue in queues}
    assert committed(cluster) == 120


async def test_queues_do_not_wait_for_each_other(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues, 1)
    all_in = threading.Barrier(QUEUE_COUNT, timeout=10)
    arrived: list[int] = []

    def listen(_message: ReceivedMessage) -> None:
        arrived.append(all_in.wait())

    async with consumer(cluster, listen):
        await eventually(lambda: len(arrived) == QUEUE_COUNT)


async def test_batches_are_in_order(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 10)
    batches: list[list[int]] = []

    async def listen(messages: list[ReceivedMessage]) -> None:
        batches.append([int(message.body) for message in messages])

    async with consumer(cluster, listen, batch_size=4):
        await eventually(lambda: sum(map(len, batches)) == 10)
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_what_fails_comes_again_before_what_is_behind_it(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 4)
    calls: list[tuple[int, int]] = []

    async def listen(message: ReceivedMessage) -> None:
        calls.append((int(message.body), message.retry_count))
        if message.body == b"1" and message.retry_count < 2:
            raise ZeroDivisionError

    async with consumer(cluster, listen):
        await eventually(lambda: len(calls) == 6)
    assert calls == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (3, 0)]


async def test_of_a_batch_the_rest_comes_again(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 5)
    batches: list[list[int]] = []

    async def listen(messages: list[ReceivedMessage]) -> None:
        batches.append([int(message.body) for message in messages])
        if len(batches) == 1:
            raise RetryLater(timedelta(0), done_count=2)

    async with consumer(cluster, listen, batch_size=3):
        await eventually(lambda: 4 in {number for batch in batches for number in batch})
    assert batches == [[0, 1, 2], [2, 3, 4]]
    assert committed(cluster) == 5


async def test_the_queue_continues_after_a_dead_letter(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 3)
    calls: list[int] = []

    async def listen(message: ReceivedMessage) -> None:
        calls.append(int(message.body))
        if message.body == b"0":
            raise RetryLater
        if message.body == b"1":
            raise DeadLetter("no use")

    async with consumer(cluster, listen, retry_count_max=2):
        await eventually(lambda: 2 in calls)
    assert calls == [0, 0, 0, 1, 2]
    assert [each.body for each in cluster.all_stored(f"%DLQ%{GROUP}")] == [b"0", b"1"]
    assert committed(cluster) == 3


async def test_a_dead_letter_that_no_broker_takes_holds_up_its_queue(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 2)
    calls: list[int] = []

    async def listen(message: ReceivedMessage) -> None:
        calls.append(int(message.body))
        if calls == [0]:
            await cluster.stop_broker("broker-a")
        if message.body == b"0":
            raise DeadLetter

    async with consumer(cluster, listen):
        await eventually(lambda: len(calls) > 2)
        assert set(calls) == {0}
        await cluster.start_broker("broker-a")
        await eventually(lambda: calls[-1] == 1)


async def test_a_loop_gets_messages_in_order(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues, 5)
    log = Log()

    async def read(reading: AsyncPushConsumer) -> None:
        async for message in reading:
            log.enter(message)
            await asyncio.sleep(0)
            log.leave(message)

    async with consumer(cluster) as reading:
        tasks = [asyncio.create_task(read(reading)) for _ in range(4)]
        await eventually(lambda: log.count == 15)
    await asyncio.gather(*tasks)
    assert not log.overlaps
    assert log.numbers == {queue.queue_id: list(range(5)) for queue in queues}


@pytest.mark.slow
async def test_a_queue_is_handed_over_when_its_listener_has_ended(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues, 2)
    may_end = asyncio.Event()
    first: list[ReceivedMessage] = []
    second: list[ReceivedMessage] = []

    async def listen_slowly(message: ReceivedMessage) -> None:
        first.append(message)
        await may_end.wait()

    async def listen(message: ReceivedMessage) -> None:
        second.append(message)

    locks = cluster.brokers["broker-a"].clients.locks
    async with consumer(cluster, listen_slowly) as one:
        await eventually(lambda: len(first) == QUEUE_COUNT)
        async with consumer(cluster, listen):
            await eventually(lambda: len(one.queues()) < QUEUE_COUNT)
            await asyncio.sleep(0.1)  # Time enough to take over too early, if it did.
            assert not second
            may_end.set()
            await eventually(lambda: len(first) + len(second) == 2 * QUEUE_COUNT)
    assert Counter((each.queue, each.body) for each in first + second) == {
        (queue, body): 1 for queue in queues for body in (b"0", b"1")
    }
    assert second
    for queue in queues:
        assert owner_of(locks, queue) is None


@pytest.mark.slow
async def test_a_queue_is_handed_over_while_its_member_rests(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    second: list[ReceivedMessage] = []

    async def listen(message: ReceivedMessage) -> None:
        second.append(message)

    async with consumer(cluster, listen) as one:
        one.pause()
        await send(producer, queues, 1)
        async with consumer(cluster, listen) as two:
            await eventually(lambda: len(two.queues()) >= 1)
            await eventually(lambda: second)


async def test_nothing_is_delivered_under_a_lock_that_was_lost(
    cluster: LiveCluster,
    producer: AsyncProducer,
    queues: list[QueueRef],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_locks, "_LOCK_VALID_S", 0.2)
    delivered: list[ReceivedMessage] = []

    async def listen(message: ReceivedMessage) -> None:
        delivered.append(message)

    async with consumer(cluster, listen) as reading:
        await eventually(lambda: not any(map(is_locked, reading.statistics().queues.values())))
        await send(producer, queues, 1)
        await eventually(lambda: reading.statistics().topics[TOPIC].pulled_count == QUEUE_COUNT)
    assert not delivered


def is_locked(progress: PushProgress) -> bool:
    return progress.is_locked


@pytest.mark.slow
async def test_delivery_continues_when_locks_are_renewed(
    cluster: LiveCluster,
    producer: AsyncProducer,
    queues: list[QueueRef],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_locks, "_LOCK_VALID_S", 0.2)
    monkeypatch.setattr(assignment, "RENEW_PERIOD_S", 0.5)
    delivered: list[ReceivedMessage] = []

    async def listen(message: ReceivedMessage) -> None:
        delivered.append(message)

    async with consumer(cluster, listen) as reading:
        await eventually(lambda: not any(map(is_locked, reading.statistics().queues.values())))
        await send(producer, queues, 1)
        await eventually(lambda: len(delivered) == QUEUE_COUNT)


async def test_a_queue_that_another_member_locked_is_given_up_and_taken_back_later(
    cluster: LiveCluster,
    producer: AsyncProducer,
    queues: list[QueueRef],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assignment, "RENEW_PERIOD_S", 0.05)
    locks = cluster.brokers["broker-a"].clients.locks
    key = lock_key(queues[0])
    delivered: list[ReceivedMessage] = []

    async def listen(message: ReceivedMessage) -> None:
        delivered.append(message)

    async with consumer(cluster, listen) as reading:
        owner = owner_of(locks, queues[0])
        assert owner is not None
        locks.unlock(owner, [key])
        locks.lock("somebody else", [key])
        await eventually(lambda: queues[0] not in reading.queues())
        locks.unlock("somebody else", [key])
        await eventually(lambda: queues[0] in reading.queues())
        await send(producer, queues[:1], 1)
        await eventually(lambda: len(delivered) == 1)


@pytest.mark.slow
async def test_closing_starts_nothing_more_and_leaves_what_will_not_end_locked(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues, 5)
    calls: list[ReceivedMessage] = []
    may_end = threading.Event()

    def listen(message: ReceivedMessage) -> None:
        calls.append(message)
        if message.queue == queues[0]:
            may_end.wait(10)
        elif message.body == b"1":
            asyncio.run_coroutine_threadsafe(close(), loop)
            is_closing.wait(10)

    async def close() -> None:
        closing = asyncio.create_task(reading.close())
        await asyncio.sleep(0)
        is_closing.set()
        await closing

    loop = asyncio.get_running_loop()
    is_closing = threading.Event()
    reading = consumer(cluster, listen, close_timeout_s=1)
    await reading.open()
    locks = cluster.brokers["broker-a"].clients.locks
    await eventually(lambda: owner_of(locks, queues[1]) is None)
    assert owner_of(locks, queues[0]) is not None
    assert {message.body for message in calls if message.queue != queues[0]} == {b"0", b"1"}
    may_end.set()
    await reading.close()


async def test_closing_ends_a_queue_behind_the_message_that_runs(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 5)
    calls: list[bytes] = []
    may_end = asyncio.Event()

    async def listen(message: ReceivedMessage) -> None:
        calls.append(message.body)
        await may_end.wait()

    reading = consumer(cluster, listen)
    await reading.open()
    await eventually(lambda: calls)
    closing = asyncio.create_task(reading.close())
    await asyncio.sleep(0)
    may_end.set()
    await closing
    assert calls == [b"0"]
    assert committed(cluster) == 1


@pytest.mark.slow
async def test_a_lock_that_another_has_is_waited_for(
    cluster: LiveCluster, producer: AsyncProducer, queues: list[QueueRef]
) -> None:
    await send(producer, queues[:1], 1)
    locks = cluster.brokers["broker-a"].clients.locks
    key = lock_key(queues[0])
    locks.lock("somebody else", [key])
    delivered: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        delivered.append(message.body)

    async with consumer(cluster, listen) as reading:
        assert queues[0] not in reading.queues()
        locks.unlock("somebody else", [key])
        await eventually(lambda: delivered == [b"0"])


def owner_of(locks: LockTable, queue: QueueRef) -> str | None:
    lock = locks._locks.get(lock_key(queue))
    return None if lock is None else lock.client_id


def lock_key(queue: QueueRef) -> QueueKey:
    return QueueKey(GROUP, queue.topic, queue.queue_id)
