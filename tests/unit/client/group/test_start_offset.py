"""Where a group starts that was never there, in topics that are young, old or not there yet."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet import AsyncProducer, AsyncPullConsumer, AsyncPushConsumer, Message, StartFrom
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.group.start_offset import Start, start_offset
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.address_server import read_source
from roquet.protocol.bodies.clients import Heartbeat
from roquet.testing import Cluster
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.inner_parts import broker_of, member_of, queues_of
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import (
    GROUP,
    TOPIC,
    Inbox,
    committed,
    consumer,
    new_topic,
    numbers,
    send,
)


async def test_last_leaves_out_what_a_young_topic_has_already(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(5))
    inbox = Inbox()
    async with consumer(cluster, inbox, start_from=StartFrom.LAST):
        await send(producer, b"new")
        await inbox.has(1)
    assert inbox.bodies == [b"new"]


async def test_auto_takes_everything_of_a_young_topic(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(5))
    inbox = Inbox()
    async with consumer(cluster, inbox, start_from=StartFrom.AUTO):
        await inbox.has(5)


async def test_auto_leaves_out_what_an_old_topic_has_already(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    store = cluster.brokers["broker-a"].config.store
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a", store=replace(store, memory_size=0))
    await new_topic(cluster, 1)
    await send(producer, *numbers(5))
    inbox = Inbox()
    async with consumer(cluster, inbox, start_from=StartFrom.AUTO):
        await send(producer, b"new")
        await inbox.has(1)
    assert inbox.bodies == [b"new"]


async def test_last_misses_nothing_of_a_topic_that_comes_later(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    async with consumer(
        cluster, inbox, start_from=StartFrom.LAST, balance_interval_s=0.05, error_pause_s=0.01
    ) as reading:
        assert reading.queues() == []
        await send(producer, *numbers(3))
        await inbox.has(3)


async def test_a_group_that_dies_before_its_first_commit_continues_where_it_started(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(3))
    async with consumer(cluster, Inbox(), start_from=StartFrom.LAST, commit_interval_s=600):
        # Whatever happens to it now.
        await eventually(lambda: committed(cluster) == 3)
    assert cluster.brokers["broker-a"].tables.offsets.find(GROUP, TOPIC, 0) == 3


async def test_what_was_never_committed_is_not_taken_for_0(
    cluster: LiveCluster, producer: AsyncProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(4))
    # A broker of ours that looks like a 4.9, which does not know how to say "never".
    monkeypatch.setattr("roquet.client.cluster.brokers.OUR_LANGUAGE", "ESPERANTO")
    cluster.brokers["broker-a"].tables.offsets.commit(GROUP, TOPIC, 0, 0)
    async with consumer(cluster, Inbox(), start_from=StartFrom.LAST) as reading:
        brokers = member_of(reading).membership.brokers
        assert await brokers.committed(GROUP, QueueRef(TOPIC, "broker-a", 0)) is not None
        assert await brokers.committed("other", QueueRef(TOPIC, "broker-a", 0)) is None


# Queues that are not young: their first messages are gone.

FIRST_LEFT = 2
OLD_COUNT = 6
MODES = [{"broadcasting": False}, {"broadcasting": True}]


@pytest.fixture
async def old_cluster(cluster: LiveCluster, producer: AsyncProducer) -> LiveCluster:
    """Its topic has one queue, whose first messages were deleted."""
    await new_topic(cluster, 1)
    await send(producer, *numbers(OLD_COUNT))
    queue = queues_of(cluster.brokers["broker-a"].store).find(TOPIC.encode(), 0)
    assert queue is not None
    queue.min_offset = FIRST_LEFT
    return cluster


def begin_of(start: Start) -> int:
    return FIRST_LEFT if start is StartFrom.FIRST else OLD_COUNT


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("start", StartFrom)
async def test_a_group_starts_in_an_old_queue_where_it_wants_to(
    old_cluster: LiveCluster,
    producer: AsyncProducer,
    tmp_path: Path,
    mode: dict[str, Any],
    start: Start,
) -> None:
    inbox = Inbox()
    async with consumer(
        old_cluster, inbox, start_from=start, offsets_directory=tmp_path, concurrency=1, **mode
    ):
        await send(producer, b"new")
        await eventually(lambda: b"new" in inbox.bodies)
    assert inbox.bodies == [*numbers(OLD_COUNT)[begin_of(start) :], b"new"]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("start", StartFrom)
async def test_a_pull_consumer_starts_in_an_old_queue_where_it_wants_to(
    old_cluster: LiveCluster,
    producer: AsyncProducer,
    tmp_path: Path,
    mode: dict[str, Any],
    start: Start,
) -> None:
    pulling = AsyncPullConsumer(
        old_cluster.name_server, GROUP, start_from=start, offsets_directory=tmp_path, **mode
    )
    pulling.subscribe(TOPIC)
    bodies: list[bytes] = []
    async with pulling:
        queue = QueueRef(TOPIC, "broker-a", 0)
        await eventually(lambda: pulling.position(queue) is not None)
        await send(producer, b"new")
        async with asyncio.timeout(10):
            while b"new" not in bodies:
                bodies += [message.body for message in await pulling.poll()]
    assert bodies == [*numbers(OLD_COUNT)[begin_of(start) :], b"new"]


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_a_group_starts_in_an_old_queue_at_a_moment(
    old_cluster: LiveCluster, producer: AsyncProducer, tmp_path: Path, mode: dict[str, Any]
) -> None:
    moment = datetime.now(UTC) + timedelta(milliseconds=2)
    await eventually(lambda: datetime.now(UTC) >= moment)
    await send(producer, *numbers(2, OLD_COUNT))
    inbox = Inbox()
    async with consumer(old_cluster, inbox, start_from=moment, offsets_directory=tmp_path, **mode):
        await inbox.has(2)
    assert sorted(inbox.bodies) == numbers(2, OLD_COUNT)


@pytest.mark.parametrize("start", [*StartFrom, datetime(2020, 1, 1, tzinfo=UTC)])
async def test_retries_are_read_from_the_first(old_cluster: LiveCluster, start: Start) -> None:
    """Whatever the group wants: they were its own all the time."""
    retries = f"%RETRY%{GROUP}"
    await new_topic(old_cluster, 1, retries)
    store = old_cluster.brokers["broker-a"].store
    for body in (b"gone", b"again"):
        store.append(draft(body, topic=retries, queue_id=0))
    queue = queues_of(store).find(retries.encode(), 0)
    assert queue is not None
    queue.min_offset = 1
    inbox = Inbox()
    async with consumer(old_cluster, inbox, start_from=start):
        await eventually(lambda: b"again" in inbox.bodies)


@pytest.mark.parametrize("is_from_first", [True, False])
@pytest.mark.parametrize("broadcasting", [False, True])
async def test_a_queue_that_was_added_later_starts_as_the_option_says(
    old_cluster: LiveCluster,
    producer: AsyncProducer,
    tmp_path: Path,
    is_from_first: bool,
    broadcasting: bool,
) -> None:
    options: dict[str, Any] = {
        "start_from": StartFrom.LAST,
        "new_queues_from_first": is_from_first,
        "broadcasting": broadcasting,
        "offsets_directory": tmp_path,
    }
    before = Inbox()
    async with consumer(old_cluster, before, **options):
        await send(producer, b"known")
        await before.has(1)
    await new_topic(old_cluster, 2)
    added = QueueRef(TOPIC, "broker-a", 1)
    store = old_cluster.brokers["broker-a"].store
    store.append(draft(b"unseen", topic=TOPIC, queue_id=1))
    after = Inbox()
    async with consumer(old_cluster, after, **options) as reading:
        await eventually(lambda: added in reading.statistics().queues)
        store.append(draft(b"seen", topic=TOPIC, queue_id=1))
        old_cluster.brokers["broker-a"].messages.long_polls.announce(TOPIC, 1)
        await eventually(lambda: b"seen" in after.bodies)
    assert (b"unseen" in after.bodies) is is_from_first


# While the master is gone, its slave knows where the group is.


@pytest.fixture
async def pair() -> AsyncIterator[Cluster]:
    """A master and its slave."""
    async with Cluster(replicas=1) as pair:
        yield pair


def member(pair: Cluster, topic: str, inbox: Inbox) -> AsyncPushConsumer:
    consumer = AsyncPushConsumer(
        pair.name_server,
        GROUP,
        inbox,
        start_from=StartFrom.LAST,
        commit_interval_s=0.05,
        balance_interval_s=0.1,
        route_interval_s=0.1,
        error_pause_s=0.05,
    )
    consumer.subscribe(topic)
    return consumer


@pytest.mark.slow
async def test_a_member_that_starts_without_a_master_starts_from_offsets_of_the_slave(
    pair: Cluster,
) -> None:
    topic = await pair.new_topic(queues=1)
    async with AsyncProducer(pair.name_server, "shop") as producer:
        before = Inbox()
        async with member(pair, topic, before):
            await producer.send(Message(topic, b"done"))
            await before.has(1)
        await producer.send(Message(topic, b"left"))
        await pair.copied()
        await pair.kill_master()
    after = Inbox()
    async with member(pair, topic, after):
        await after.has(1)
    assert after.bodies == [b"left"]


@pytest.mark.slow
async def test_a_member_that_gains_a_queue_without_a_master_starts_from_offsets_of_the_slave(
    pair: Cluster,
) -> None:
    topic = await pair.new_topic(queues=2)
    stays, goes = Inbox(), Inbox()
    async with member(pair, topic, stays) as staying:
        leaving = member(pair, topic, goes)
        async with AsyncProducer(pair.name_server, "shop") as producer, leaving:
            await eventually(lambda: len(staying.queues()) == len(leaving.queues()) == 1)
            (queue,) = leaving.queues()
            await producer.send(Message(topic, b"done"), queue=queue)
            await goes.has(1)
            leaving.pause()
            await producer.send(Message(topic, b"left"), queue=queue)
            await eventually(
                lambda: broker_of(pair).tables.offsets.find(GROUP, topic, queue.queue_id) == 1
            )
            await pair.copied()
            await pair.kill_master()
        await stays.has(1)
    assert goes.bodies == [b"done"]
    assert stays.bodies == [b"left"]


class _Kept:
    """An offset store in memory."""

    def __init__(self) -> None:
        self.offsets: dict[QueueRef, int] = {}

    async def kept(self, queue: QueueRef) -> int | None:
        return self.offsets.get(queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        self.offsets.update(offsets)


@asynccontextmanager
async def brokers_of(cluster: LiveCluster) -> AsyncIterator[Brokers]:
    """As a member knows them that has looked for the topic."""
    instance = ClientInstance(
        Participant("member", lambda client_id: Heartbeat(client_id=client_id)),
        LinkSettings(read_source(cluster.name_server)),
        SystemClock(),
    )
    await instance.open()
    try:
        await instance.routes.existing(TOPIC)
        yield Brokers(instance.requests, instance.routes)
    finally:
        await instance.close()


async def test_queues_that_start_one_after_another_all_start_at_their_ends(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 3)
    await send(producer, *numbers(9))
    async with brokers_of(cluster) as brokers:
        keeper = OffsetKeeper(_Kept())
        *first, added = (QueueRef(TOPIC, "broker-a", number) for number in range(3))
        ends = [
            await start_offset(brokers, keeper, queue, StartFrom.LAST, first, now_ms=0)
            for queue in first
        ]
        assert ends == [3, 3]
        siblings = [*first, added]
        # One that was added later has messages that no member of the group has seen.
        assert await start_offset(brokers, keeper, added, StartFrom.LAST, siblings, now_ms=0) == 0


class _SlowKept(_Kept):
    """Who asks for the queue that is held hears of it when something is kept."""

    def __init__(self, held: QueueRef) -> None:
        super().__init__()
        self.held: QueueRef | None = held
        self.is_asked = asyncio.Event()
        self._is_kept = asyncio.Event()

    async def kept(self, queue: QueueRef) -> int | None:
        if queue == self.held:
            self.is_asked.set()
            await self._is_kept.wait()
        return await super().kept(queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        await super().keep(offsets)
        self._is_kept.set()


async def test_a_queue_is_not_taken_for_a_new_one_because_another_starts_meanwhile(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(6))
    queues = [QueueRef(TOPIC, "broker-a", number) for number in range(2)]
    store = _SlowKept(held=queues[0])
    async with brokers_of(cluster) as brokers, asyncio.TaskGroup() as group:
        keeper = OffsetKeeper(store)

        def beginning(queue: QueueRef) -> asyncio.Task[int]:
            return group.create_task(
                start_offset(brokers, keeper, queue, StartFrom.LAST, queues, now_ms=0)
            )

        late = beginning(queues[1])
        await store.is_asked.wait()
        store.held = None
        assert await beginning(queues[0]) == 3
        assert await late == 3
