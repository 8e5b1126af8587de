"""The topic reader against live brokers of ours: what it finds, and what it brings."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from roquet import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncTopicReader,
    Message,
    Producer,
    QueueRef,
    RecordChunk,
    TopicReader,
)
from roquet.client.errors import BadArgument, NotOpen, TopicNotFound
from roquet.client.group.subscriptions import subscription_of
from roquet.client.reader.chunk import CHUNK_COUNT
from roquet.client.reader.reader import ALL
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.protocol.record_columns import decode_records
from roquet.protocol.subscription import Subscription
from roquet.testing import BlockingCluster
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises

TOPIC = "orders"
PATIENT_S = 30.0
QUEUE = QueueRef(TOPIC, "broker-a", 0)


@pytest.fixture
async def reader(cluster: LiveCluster) -> AsyncIterator[AsyncTopicReader]:
    async with AsyncTopicReader(cluster.name_server) as reader:
        yield reader


async def send(
    producer: AsyncProducer,
    bodies: Sequence[bytes],
    *,
    tags: Sequence[str | None] = (None,),
    queue: QueueRef = QUEUE,
) -> None:
    """All into one queue, with one tag after the other."""
    messages = [
        Message(queue.topic, body, tags=tags[number % len(tags)])
        for number, body in enumerate(bodies)
    ]
    await producer.send_batch(messages, queue=queue, timeout_s=PATIENT_S)


async def read(
    reader: AsyncTopicReader, start: int, end: int, subscription: Subscription = ALL
) -> list[RecordChunk]:
    return [chunk async for chunk in reader.records(QUEUE, start, end, subscription=subscription)]


def messages(chunks: Sequence[RecordChunk]) -> list[StoredMessage]:
    return [message for chunk in chunks for message in split_records(chunk.data)]


def bodies(chunks: Sequence[RecordChunk]) -> list[bytes]:
    return [message.body for message in messages(chunks)]


# --- messages ---


async def test_the_messages_of_a_topic_come_queue_by_queue(
    reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    for queue_id in (1, 0):
        queue = QUEUE._replace(queue_id=queue_id)
        await send(producer, [b"%d/%d" % (queue_id, n) for n in range(50)], queue=queue)
    found = [message async for message in reader.messages(TOPIC)]
    assert [each.body for each in found] == [b"%d/%d" % (q, n) for q in (0, 1) for n in range(50)]
    assert (found[-1].topic, found[-1].queue, found[-1].queue_offset) == (
        TOPIC,
        QUEUE._replace(queue_id=1),
        49,
    )


async def test_messages_are_filtered_by_time_and_tags(
    reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await send(producer, [b"0", b"1", b"2", b"3"], tags=("even", "odd"))
    wanted = subscription_of(TOPIC, "odd")
    filtered = reader.messages(TOPIC, subscription=wanted)
    assert [message.body async for message in filtered] == [b"1", b"3"]
    later = reader.messages(TOPIC, since=datetime.now(UTC) + timedelta(hours=1))
    assert [message async for message in later] == []
    with raises(BadArgument, argument="since"):
        await anext(reader.messages(TOPIC, since=datetime(2026, 1, 1)))  # noqa: DTZ001


async def test_messages_of_a_topic_that_is_not_there_are_an_error(
    reader: AsyncTopicReader,
) -> None:
    with pytest.raises(TopicNotFound):
        await anext(reader.messages("nowhere"))


def test_programs_without_a_loop_read_messages(roquet_cluster: BlockingCluster) -> None:
    topic = roquet_cluster.new_topic(queues=1)
    with Producer(roquet_cluster.name_server, "shop") as producer:
        producer.send_batch([Message(topic, b"%d" % number) for number in range(50)])
    with TopicReader(roquet_cluster.name_server) as reader:
        assert [each.body for each in reader.messages(topic)] == [b"%d" % n for n in range(50)]
        first, *_ = reader.messages(topic)
        assert first.body == b"0"


# --- records ---


@pytest.mark.slow
async def test_a_range_comes_whole_and_in_order(
    reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    sent = [b"%d" % number for number in range(20_000)]
    await send(producer, sent)
    chunks = await read(reader, 100, 19_900)
    assert bodies(chunks) == sent[100:19_900]
    assert [chunk.start_offset for chunk in chunks] == [
        100,
        *(chunk.next_offset for chunk in chunks[:-1]),
    ]
    assert chunks[-1].next_offset == 19_900
    assert all(chunk.count >= CHUNK_COUNT for chunk in chunks[:-1])
    assert {chunk.queue for chunk in chunks} == {QUEUE}


async def test_chunks_are_what_decoders_of_columns_take(
    reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await send(producer, [b"a", b"b", b"c"], tags=("Aa", "BB"))
    (chunk,) = await read(reader, 0, 3, subscription_of(TOPIC, tags="Aa"))
    batch = decode_records(chunk.data, ["queueOffset", "body"])
    assert batch.to_pydict() == {"queueOffset": [0, 2], "body": [b"a", b"c"]}
    assert pickle.loads(pickle.dumps(chunk)) == chunk  # noqa: S301


async def test_queues_are_read_that_another_task_found(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    """As the tasks of a job do, which have given ranges."""
    await send(producer, [b"a"])
    async with AsyncTopicReader(cluster.name_server) as reader:
        assert bodies(await read(reader, 0, 1)) == [b"a"]


async def test_names_are_those_inside_a_namespace(cluster: LiveCluster) -> None:
    async with (
        AsyncProducer(cluster.name_server, "shop", namespace="eu") as producer,
        AsyncTopicReader(cluster.name_server, namespace="eu") as reader,
    ):
        await send(producer, [b"a", b"b"])
        assert await reader.topics() == [TOPIC]
        assert QUEUE in await reader.queues(TOPIC)
        assert await reader.bounds([QUEUE]) == {QUEUE: (0, 2)}
        (chunk,) = await read(reader, 0, 2)
        assert (chunk.queue, bodies([chunk])) == (QUEUE, [b"a", b"b"])
        await reader.commit("group", {QUEUE: 1})
        assert await reader.committed("group", [QUEUE]) == {QUEUE: 1}
    assert cluster.brokers["broker-a"].tables.offsets.find("eu%group", f"eu%{TOPIC}", 0) == 1


async def test_members_are_not_notified_of_a_reader(
    cluster: LiveCluster, reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await send(producer, [b"a"])
    await read(reader, 0, 1)
    assert cluster.brokers["broker-a"].clients.consumers.groups_of(TOPIC) == []


async def test_a_reader_is_used_while_it_is_open(cluster: LiveCluster) -> None:
    reader = AsyncTopicReader(cluster.name_server)
    with pytest.raises(NotOpen):
        await reader.queues(TOPIC)
    async with reader:
        pass
    with pytest.raises(NotOpen):
        await read(reader, 0, 1)


async def test_what_cannot_be_read_is_refused(
    reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await send(producer, [b"a"])
    with raises(TopicNotFound, topic="nothing"):
        await reader.queues("nothing")
    with raises(TopicNotFound, topic="nothing"):
        await reader.bounds([QueueRef("nothing", "broker-z", 0)])
    with raises(BadArgument, argument="start"):
        await read(reader, -1, 1)
    with raises(BadArgument, argument="pattern"):
        await reader.topics("(")
    with raises(BadArgument, argument="in_flight"):
        AsyncTopicReader("127.0.0.1:9876", in_flight=0)


# --- what there is ---


async def test_topics_are_found_by_their_whole_name(
    cluster: LiveCluster, reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    for topic in ("orders", "orders-old", "invoices"):
        await producer.send(Message(topic, b"a"))
    assert await reader.topics() == ["invoices", "orders", "orders-old"]
    assert await reader.topics("orders") == ["orders"]
    assert await reader.topics("orders.*|x") == ["orders", "orders-old"]


async def test_queues_of_all_brokers_are_asked_for_their_bounds(
    cluster: LiveCluster, reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await cluster.start_broker("broker-b")
    async with AsyncAdmin(cluster.name_server) as admin:
        await admin.create_topic(TOPIC)
    queues = await reader.queues(TOPIC)
    assert {queue.broker_name for queue in queues} == {"broker-a", "broker-b"}
    for number, queue in enumerate(queues[:3]):
        await send(producer, [b"x"] * (number + 1), queue=queue)
    bounds = await reader.bounds(queues)
    assert [bounds[queue] for queue in queues] == [
        (0, 1),
        (0, 2),
        (0, 3),
        *[(0, 0)] * (len(queues) - 3),
    ]


async def test_times_lead_to_offsets(reader: AsyncTopicReader, producer: AsyncProducer) -> None:
    await send(producer, [b"a", b"b"])
    (stored_ms, _) = [each.store_timestamp for each in messages(await read(reader, 0, 2))]
    stored = datetime.fromtimestamp(stored_ms / 1000, UTC)
    assert await reader.offsets_at([QUEUE], stored) == {QUEUE: 0}
    assert await reader.offsets_at([QUEUE], stored + timedelta(days=1)) == {QUEUE: 2}
    assert await reader.earliest_store_times([QUEUE]) == {QUEUE: stored}
    empty = QUEUE._replace(queue_id=3)
    assert await reader.offsets_at([empty], stored) == {empty: 0}
    assert await reader.earliest_store_times([empty]) == {empty: None}
    with raises(BadArgument, argument="moment"):
        await reader.offsets_at([QUEUE], datetime(2024, 1, 1))  # noqa: DTZ001


# --- offsets of groups ---


async def test_a_group_that_only_commits_is_known_to_tools_and_has_no_members(
    cluster: LiveCluster, reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await send(producer, [b"x"] * 10)
    await reader.commit("query", {QUEUE: 4})
    broker = cluster.brokers["broker-a"]
    assert broker.tables.topics.find("%RETRY%query") is not None
    assert broker.clients.consumers.find("query") is None
    async with AsyncAdmin(cluster.name_server) as admin:
        lags = {each.queue: each.lag for each in (await admin.progress("query")).queues}
    assert lags[QUEUE] == 6


async def test_members_of_a_group_do_not_notice_a_commit(
    cluster: LiveCluster, reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    await send(producer, [b"x"])
    consumer = AsyncPushConsumer(cluster.name_server, "billing", lambda _: None)
    consumer.subscribe(TOPIC)
    async with consumer:
        group = cluster.brokers["broker-a"].clients.consumers.find("billing")
        assert group is not None
        members = group.client_ids
        await reader.commit("billing", {QUEUE._replace(queue_id=1): 0})
        assert group.client_ids == members
        assert TOPIC in group.subscriptions


# --- the twin ---


async def test_the_twin_reads_the_same(cluster: LiveCluster, producer: AsyncProducer) -> None:
    sent = [b"%d" % number for number in range(10_000)]
    await send(producer, sent)

    def work() -> list[bytes]:
        with TopicReader(cluster.name_server) as reader:
            assert QUEUE in reader.queues(TOPIC)
            (bounds,) = reader.bounds([QUEUE]).values()
            # One that is left early, and one that is read to its end.
            next(reader.records(QUEUE, *bounds))
            return bodies(list(reader.records(QUEUE, *bounds)))

    assert await asyncio.to_thread(work) == sent
