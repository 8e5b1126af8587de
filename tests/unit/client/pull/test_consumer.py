"""The pull consumer against live brokers of ours."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.topics import TopicSettings
from roquet.client.cluster.pulling import PullStatus
from roquet.client.errors import (
    BadArgument,
    NotOpen,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.group.start_offset import StartFrom
from roquet.client.pull import member
from roquet.client.pull.consumer import AsyncPullConsumer
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises

TOPIC = "orders"
GROUP = "billing"
QUEUES = [QueueRef(TOPIC, "broker-a", queue_id) for queue_id in range(4)]
QUEUE = QUEUES[0]
SOON_S = 0.05


@pytest.fixture
async def admin(cluster: LiveCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.name_server) as admin:
        yield admin


@pytest.fixture(autouse=True)
async def topic(admin: AsyncAdmin) -> str:
    await admin.create_topic(TOPIC, TopicSettings(read_queue_count=4, write_queue_count=4))
    return TOPIC


def new_consumer(cluster: LiveCluster, **options: Any) -> AsyncPullConsumer:
    quick: dict[str, Any] = {"start_from": StartFrom.FIRST, "error_pause_s": 0.01}
    return AsyncPullConsumer(cluster.name_server, GROUP, **(quick | options))


def subscriber(cluster: LiveCluster, **options: Any) -> AsyncPullConsumer:
    consumer = new_consumer(cluster, **options)
    consumer.subscribe(TOPIC)
    return consumer


def reader(cluster: LiveCluster, *queues: QueueRef, **options: Any) -> AsyncPullConsumer:
    consumer = new_consumer(cluster, **options)
    consumer.assign(queues or [QUEUE])
    return consumer


def put(cluster: LiveCluster, bodies: Iterable[bytes], queue_id: int = 0, **members: Any) -> None:
    broker = cluster.brokers["broker-a"]
    for body in bodies:
        broker.store.append(draft(body, topic=TOPIC, queue_id=queue_id, **members))
    broker.messages.long_polls.announce(TOPIC, queue_id)


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


async def polled(consumer: AsyncPullConsumer, count: int) -> list[bytes]:
    """So many bodies, or more if they come together."""
    messages: list[ReceivedMessage] = []
    async with asyncio.timeout(10):
        while len(messages) < count:
            messages += await consumer.poll(timeout_s=10)
    return [message.body for message in messages]


def kept(cluster: LiveCluster, queue_id: int = 0) -> int | None:
    return cluster.brokers["broker-a"].tables.offsets.find(GROUP, TOPIC, queue_id)


# Reading.


async def test_a_subscriber_gets_the_messages_of_all_queues(cluster: LiveCluster) -> None:
    for queue in QUEUES:
        put(cluster, numbers(3, 10 * queue.queue_id), queue.queue_id)
    async with subscriber(cluster) as consumer:
        assert consumer.assignment() == QUEUES
        bodies = await polled(consumer, 12)
    assert sorted(map(int, bodies)) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]


async def test_messages_of_a_queue_come_in_their_order(cluster: LiveCluster) -> None:
    put(cluster, numbers(500))
    async with reader(cluster) as consumer:
        assert await polled(consumer, 500) == numbers(500)


async def test_a_poll_waits_for_a_message(cluster: LiveCluster) -> None:
    async with subscriber(cluster) as consumer:
        assert await consumer.poll(timeout_s=SOON_S) == []
        waiting = asyncio.create_task(consumer.poll(timeout_s=10))
        await asyncio.sleep(0)
        put(cluster, [b"late"])
        assert [message.body for message in await waiting] == [b"late"]


async def test_a_poll_takes_whole_pulls(cluster: LiveCluster) -> None:
    put(cluster, numbers(100))
    async with reader(cluster, poll_count=40, pull_count=32) as consumer:
        await eventually(lambda: consumer.statistics().cached_count == 100)
        assert [len(await consumer.poll()) for _ in range(2)] == [64, 36]
        assert consumer.statistics().polled_count == 100


async def test_a_pull_brings_as_many_messages_as_the_program_wants(cluster: LiveCluster) -> None:
    put(cluster, numbers(100))
    async with reader(cluster, poll_count=1, pull_count=100) as consumer:
        assert [message.body for message in await consumer.poll()] == numbers(100)


async def test_polls_at_the_same_time_share_messages(cluster: LiveCluster) -> None:
    async with reader(cluster) as consumer:
        polls = [asyncio.create_task(consumer.poll(timeout_s=10)) for _ in range(3)]
        await asyncio.sleep(0)
        for count, body in enumerate((b"one", b"two", b"three"), 1):
            put(cluster, [body])
            await eventually(lambda: sum(poll.done() for poll in polls) == count)  # noqa: B023
        results = [message.body for poll in polls for message in await poll]
    assert sorted(results) == [b"one", b"three", b"two"]


async def test_only_wanted_tags_are_polled(cluster: LiveCluster) -> None:
    put(cluster, [b"r1"], properties={"TAGS": "red"})
    put(cluster, [b"b1"], properties={"TAGS": "blue"})
    put(cluster, [b"r2"], properties={"TAGS": "red"})
    consumer = new_consumer(cluster)
    consumer.subscribe(TOPIC, tags="red || green")
    async with consumer:
        assert await polled(consumer, 2) == [b"r1", b"r2"]


async def test_a_filter_that_no_broker_has_is_refused(cluster: LiveCluster) -> None:
    consumer = new_consumer(cluster)
    consumer.subscribe(TOPIC, sql="price > 1")
    with pytest.raises(RequestRefused):
        await consumer.open()
    with pytest.raises(NotOpen):
        await consumer.poll()
    consumer.subscribe(TOPIC)
    async with consumer:
        put(cluster, numbers(1))
        assert await polled(consumer, 1) == [b"0"]


async def test_what_a_filter_of_the_program_drops_is_passed_by_commits(
    cluster: LiveCluster,
) -> None:
    put(cluster, numbers(6))
    async with reader(
        cluster, message_filter=lambda message: message.body == b"2", auto_commit=False
    ) as reading:
        assert await polled(reading, 1) == [b"2"]
        await eventually(lambda: reading.position(QUEUE) == 6)
        await reading.commit()
    assert kept(cluster) == 6


async def test_what_is_not_wanted_is_passed_by_commits(cluster: LiveCluster) -> None:
    put(cluster, [b"r"], properties={"TAGS": "red"})
    put(cluster, numbers(3), properties={"TAGS": "blue"})
    consumer = new_consumer(cluster, auto_commit=False)
    consumer.subscribe(TOPIC, tags="red")
    async with consumer:
        await polled(consumer, 1)
        await eventually(lambda: consumer.position(QUEUE) == 4)
        await consumer.commit()
        assert kept(cluster) == 4


async def test_a_group_continues_where_it_was(cluster: LiveCluster) -> None:
    put(cluster, numbers(3))
    cluster.brokers["broker-a"].tables.offsets.commit(GROUP, TOPIC, 0, 2)
    async with reader(cluster, start_from=StartFrom.LAST) as consumer:
        assert await polled(consumer, 1) == [b"2"]


# Offsets.


async def test_the_next_poll_says_that_the_last_one_is_done(cluster: LiveCluster) -> None:
    put(cluster, numbers(3))
    async with reader(cluster, commit_interval_s=0.01) as consumer:
        await polled(consumer, 3)
        await asyncio.sleep(SOON_S)
        assert kept(cluster) is None
        await consumer.poll(timeout_s=0)
        await eventually(lambda: kept(cluster) == 3)


async def test_closing_keeps_what_is_committed_and_no_more(cluster: LiveCluster) -> None:
    put(cluster, numbers(2))
    async with reader(cluster) as consumer:
        await polled(consumer, 2)
        await consumer.poll(timeout_s=0)
        put(cluster, numbers(1, 2))
        await polled(consumer, 1)
    assert kept(cluster) == 2
    async with reader(cluster) as consumer:
        assert await polled(consumer, 1) == [b"2"]


async def test_without_auto_commit_only_commit_commits(cluster: LiveCluster) -> None:
    put(cluster, numbers(5))
    async with reader(cluster, auto_commit=False, pull_count=2, poll_count=1) as consumer:
        assert await polled(consumer, 4) == numbers(4)
        assert kept(cluster) is None
        await consumer.commit()
        assert kept(cluster) == await consumer.committed(QUEUE) == 4
        await consumer.commit({QUEUE: 1})
        assert kept(cluster) == 1
    assert kept(cluster) == 1


async def test_a_commit_that_fails_says_so_and_can_be_tried_again(cluster: LiveCluster) -> None:
    put(cluster, numbers(1))
    async with reader(cluster, auto_commit=False) as consumer:
        await polled(consumer, 1)
        await cluster.stop_broker("broker-a")
        with pytest.raises(Unreachable):
            await consumer.commit()
        await cluster.start_broker("broker-a")
        await consumer.commit()
        assert kept(cluster) == 1


async def test_broadcasting_members_keep_their_own_offsets(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    options = {"broadcasting": True, "offsets_directory": tmp_path, "auto_commit": False}
    put(cluster, numbers(3))
    async with AsyncExitStack() as stack:
        for name in ("m1", "m2"):
            consumer = subscriber(cluster, instance_name=name, **options)
            await stack.enter_async_context(consumer)
            assert len(await polled(consumer, 3)) == 3
            await consumer.commit()
    assert kept(cluster) is None
    put(cluster, [b"new"])
    async with subscriber(cluster, instance_name="m1", **options) as consumer:
        assert await polled(consumer, 1) == [b"new"]


# Seeking.


async def test_a_seek_continues_elsewhere(cluster: LiveCluster) -> None:
    put(cluster, numbers(100))
    async with reader(cluster, auto_commit=False) as consumer:
        await polled(consumer, 100)
        await consumer.seek(QUEUE, 95)
        assert consumer.position(QUEUE) == 95
        assert await polled(consumer, 5) == numbers(5, 95)
        await consumer.seek_to_begin(QUEUE)
        assert (await polled(consumer, 1))[0] == b"0"
        await consumer.seek_to_end(QUEUE)
        assert await consumer.poll(timeout_s=SOON_S) == []
        await consumer.seek(QUEUE, 7)
        await consumer.commit()
        assert kept(cluster) == 7


async def test_a_seek_beyond_the_ends_or_elsewhere_is_refused(cluster: LiveCluster) -> None:
    put(cluster, numbers(3))
    async with reader(cluster) as consumer:
        with raises(BadArgument, argument="offset"):
            await consumer.seek(QUEUE, 4)
        with raises(BadArgument, argument="offset"):
            await consumer.seek(QUEUE, -1)
        for call in (consumer.seek_to_begin, consumer.seek_to_end):
            with raises(BadArgument, argument="queue"):
                await call(QUEUES[1])
        with raises(BadArgument, argument="queue"):
            consumer.pause([QUEUES[1]])


async def test_offsets_are_found_by_time_and_at_the_ends(cluster: LiveCluster) -> None:
    put(cluster, numbers(3))
    now = datetime.now(UTC)
    async with new_consumer(cluster) as consumer:
        assert await consumer.offset_for_time(QUEUE, now - timedelta(hours=1)) == 0
        assert await consumer.offset_for_time(QUEUE, now + timedelta(hours=1)) == 3
        assert await consumer.begin_offset(QUEUE) == 0
        assert await consumer.end_offset(QUEUE) == 3


# Flow control.


@pytest.mark.parametrize(
    "options", [{"queue_count_max": 50}, {"queue_size_max": 5000}, {"cached_count_max": 50}]
)
async def test_no_more_is_read_ahead_than_there_is_room_for(
    cluster: LiveCluster, options: dict[str, int]
) -> None:
    put(cluster, numbers(1000))
    async with reader(cluster, pull_count=32, **options) as consumer:
        await eventually(lambda: consumer.statistics().cached_count > 30)
        await asyncio.sleep(SOON_S)
        assert consumer.statistics().cached_count < 100
        assert await polled(consumer, 1000) == numbers(1000)


@pytest.mark.slow
async def test_a_paused_queue_rests_and_others_continue(cluster: LiveCluster) -> None:
    async with reader(cluster, *QUEUES[:2], suspend_s=0.05) as consumer:
        consumer.pause([QUEUE])
        # The pull that waits now is the last one, and its time is over long before.
        await asyncio.sleep(20 * SOON_S)
        put(cluster, [b"rests"])
        put(cluster, [b"goes on"], 1)
        assert await polled(consumer, 1) == [b"goes on"]
        assert await consumer.poll(timeout_s=2 * SOON_S) == []
        assert consumer.statistics().queues[QUEUE].is_paused
        consumer.resume([QUEUE])
        assert await polled(consumer, 1) == [b"rests"]


# Sharing and assigning.


async def test_members_share_queues_and_take_over(cluster: LiveCluster) -> None:
    changes: list[Sequence[QueueRef]] = []
    async with subscriber(cluster, on_queues=changes.append) as first:
        assert first.assignment() == QUEUES
        async with subscriber(cluster) as second:
            await eventually(
                lambda: (
                    (first.assignment() + second.assignment()).sort() is None
                    and sorted(first.assignment() + second.assignment()) == QUEUES
                    and len(first.assignment()) == 2
                )
            )
        await eventually(lambda: first.assignment() == QUEUES)
    assert [len(change) for change in changes] == [4, 2, 4]


async def test_a_lost_queue_is_not_polled_any_more(cluster: LiveCluster) -> None:
    put(cluster, numbers(10))
    async with reader(cluster, *QUEUES[:2]) as consumer:
        await eventually(lambda: consumer.statistics().cached_count == 10)
        consumer.assign([QUEUES[1]])
        await eventually(lambda: consumer.assignment() == [QUEUES[1]])
        assert await consumer.poll(timeout_s=SOON_S) == []
        consumer.assign([QUEUE])
        assert await polled(consumer, 10) == numbers(10)


async def test_topics_come_and_go(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    await admin.create_topic("bills", TopicSettings(read_queue_count=1, write_queue_count=1))
    async with subscriber(cluster) as consumer:
        consumer.subscribe("bills")
        await eventually(lambda: {each.topic for each in consumer.assignment()} == {TOPIC, "bills"})
        consumer.unsubscribe(TOPIC)
        await eventually(lambda: consumer.assignment() == [QueueRef("bills", "broker-a", 0)])


async def test_a_consumer_shares_or_is_assigned_to_but_not_both(cluster: LiveCluster) -> None:
    with pytest.raises(BadArgument, match="cannot also subscribe"):
        reader(cluster).subscribe(TOPIC)
    with pytest.raises(BadArgument, match="cannot also assign"):
        subscriber(cluster).assign([QUEUE])


async def test_brokers_know_a_reader_by_what_it_does(
    cluster: LiveCluster, admin: AsyncAdmin
) -> None:
    async with subscriber(cluster) as consumer:
        members = await admin.members(GROUP)
        assert (members.consume_type, members.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")
        assert members.subscriptions == {TOPIC: "*"}
        info = await admin.running_info(GROUP, members.client_ids[0])
        assert len(info.queues) == len(consumer.assignment())
    assert (await admin.members(GROUP)).connections == ()


async def test_a_client_that_only_pulls_is_no_member(
    cluster: LiveCluster, admin: AsyncAdmin
) -> None:
    async with new_consumer(cluster) as consumer:
        await consumer.pull(QUEUE, 0)
        assert (await admin.members(GROUP)).connections == ()


async def test_a_consumer_follows_an_operator(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    put(cluster, numbers(3))
    async with subscriber(cluster, suspend_s=0.1) as consumer:
        await polled(consumer, 3)
        await consumer.poll(timeout_s=0)
        await consumer.commit({queue: await consumer.end_offset(queue) for queue in QUEUES})
        plan = await admin.plan_reset(GROUP, TOPIC, StartFrom.FIRST)
        await admin.apply_reset(plan)
        assert await polled(consumer, 3) == numbers(3)


async def test_names_are_those_of_the_namespace(cluster: LiveCluster) -> None:
    async with AsyncAdmin(cluster.name_server, namespace="east") as admin:
        await admin.create_topic(TOPIC, TopicSettings(read_queue_count=1, write_queue_count=1))
    cluster.brokers["broker-a"].store.append(draft(b"there", topic=f"east%{TOPIC}"))
    async with subscriber(cluster, namespace="east", auto_commit=False) as consumer:
        assert consumer.assignment() == [QUEUE]
        (message,) = await consumer.poll(timeout_s=10)
        assert (message.topic, message.body) == (TOPIC, b"there")
        await consumer.commit()
        assert await consumer.committed(QUEUE) == 1
        await consumer.seek(message.queue, 0)
        assert await polled(consumer, 1) == [b"there"]


# Plain pulls.


async def test_a_pull_asks_once(cluster: LiveCluster) -> None:
    put(cluster, numbers(5))
    async with new_consumer(cluster) as consumer:
        assert await consumer.queues(TOPIC) == QUEUES
        pulled = await consumer.pull(QUEUE, 1, count_max=2)
        assert pulled.status is PullStatus.FOUND
        assert [message.body for message in pulled.messages] == [b"1", b"2"]
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 5)
        assert (await consumer.pull(QUEUE, 5)).status is PullStatus.NOTHING_NEW
        assert (await consumer.pull(QUEUE, 9)).status is PullStatus.OUT_OF_RANGE
        no_match = await consumer.pull(QUEUE, 0, tags="red")
        assert (no_match.status, no_match.next_offset) == (PullStatus.NOTHING_MATCHED, 5)
        waiting = asyncio.create_task(consumer.pull(QUEUE, 5, wait_s=10))
        await asyncio.sleep(0)
        put(cluster, [b"late"])
        assert [message.body for message in (await waiting).messages] == [b"late"]
        assert await consumer.poll(timeout_s=0) == []


async def test_a_pull_of_nonsense_is_refused(cluster: LiveCluster) -> None:
    async with new_consumer(cluster) as consumer:
        with pytest.raises(BadArgument):
            await consumer.pull(QUEUE, -1)
        with pytest.raises(BadArgument):
            await consumer.pull(QUEUE, 0, count_max=0)
        with pytest.raises(BadArgument):
            await consumer.pull(QUEUE, 0, wait_s=-1)
        with pytest.raises(TopicNotFound):
            await consumer.pull(QueueRef("absent", "broker-a", 0), 0)
        with pytest.raises(TopicNotFound):
            await consumer.queues("absent")


# Schedules.


async def test_a_schedule_works_on_each_queue_while_it_is_assigned(cluster: LiveCluster) -> None:
    put(cluster, numbers(3))
    taken: list[bytes] = []
    calls: Counter[QueueRef] = Counter()
    async with subscriber(cluster, prefetch=False) as consumer:

        async def work(queue: QueueRef) -> float | None:
            calls[queue] += 1
            pulled = await consumer.pull(queue, await consumer.committed(queue) or 0, count_max=1)
            taken.extend(message.body for message in pulled.messages)
            await consumer.commit({queue: pulled.next_offset})
            return 0 if pulled.messages else None

        consumer.schedule(work, delay_s=0.01)
        await eventually(lambda: len(taken) == 3 and min(calls[each] for each in QUEUES) > 1)
        assert taken == numbers(3)
        async with subscriber(cluster, prefetch=False):
            await eventually(lambda: len(consumer.assignment()) == 2)
            kept_queue = consumer.assignment()[0]
            (lost_queue, *_) = set(QUEUES).difference(consumer.assignment())
            seen = calls.copy()
            await eventually(lambda: calls[kept_queue] > seen[kept_queue] + 5)
            assert calls[lost_queue] == seen[lost_queue]


async def test_a_schedule_continues_when_work_fails(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "_ERROR_DELAY_S", 0.01)
    calls: list[QueueRef] = []

    def work(queue: QueueRef) -> float:
        """Not a coroutine, so it runs in a thread."""
        calls.append(queue)
        if len(calls) == 1:
            raise ZeroDivisionError
        return 0.01

    async with reader(cluster, prefetch=False) as consumer:
        consumer.schedule(work)
        await eventually(lambda: len(calls) > 2)
        with raises(BadArgument, argument=None):
            consumer.schedule(work)
    assert "ZeroDivisionError" in caplog.text


async def test_a_schedule_needs_a_consumer_that_does_not_read_ahead(cluster: LiveCluster) -> None:
    async with subscriber(cluster) as consumer:
        with raises(BadArgument, argument="prefetch"):
            consumer.schedule(lambda _queue: None)


# Faults and life.


async def test_a_consumer_continues_when_its_broker_returns(cluster: LiveCluster) -> None:
    put(cluster, numbers(3))
    async with reader(cluster) as consumer:
        await polled(consumer, 3)
        await cluster.stop_broker("broker-a")
        await eventually(lambda: consumer.statistics().last_error)
        await cluster.start_broker("broker-a")
        put(cluster, numbers(3, 3))
        assert await polled(consumer, 3) == numbers(3, 3)


async def test_a_consumer_waits_for_a_topic(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    consumer = new_consumer(cluster, balance_interval_s=0.05)
    consumer.subscribe("unborn")
    async with consumer:
        assert await consumer.poll(timeout_s=0) == []
        await admin.create_topic("unborn", TopicSettings(read_queue_count=1, write_queue_count=1))
        await eventually(lambda: consumer.assignment() == [QueueRef("unborn", "broker-a", 0)])


async def test_a_consumer_is_used_between_open_and_close(cluster: LiveCluster) -> None:
    consumer = subscriber(cluster)
    with raises(NotOpen, what="pull consumer", was_open=False):
        await consumer.poll()
    assert consumer.statistics().queues == {}
    await consumer.open()
    await consumer.open()
    assert consumer.statistics().queues.keys() == set(QUEUES)
    await consumer.close()
    await consumer.close()
    with raises(NotOpen, what="pull consumer", was_open=True):
        await consumer.poll()
    with raises(NotOpen, what="pull consumer", was_open=True):
        await consumer.open()


@pytest.mark.parametrize(
    "options",
    [{"pull_count": 0}, {"suspend_s": 0}, {"start_from": datetime(2020, 1, 1)}],  # noqa: DTZ001
)
def test_invalid_values_are_refused_at_once(options: dict[str, Any]) -> None:
    with raises(BadArgument, argument=next(iter(options))):
        AsyncPullConsumer("127.0.0.1:1", GROUP, **options)
