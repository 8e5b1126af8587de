"""The topic reader against live brokers of ours: what it finds, and what it brings."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roquet import (
    AsyncAdmin,
    AsyncProducer,
    AsyncTopicReader,
    Message,
    QueueRef,
    RecordChunk,
    TopicReader,
)
from roquet.client.errors import (
    BadArgument,
    NotOpen,
    OffsetsGone,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.group.subscriptions import subscription_of
from roquet.client.reader.chunk import CHUNK_COUNT
from roquet.protocol.bodies.topic_config import TopicConfig
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.protocol.subscription import Subscription
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster, live_cluster

TOPIC = "orders"
QUEUE = QueueRef(TOPIC, "broker-a", 0)
TINY = 1e-9


@pytest.fixture
async def reader(cluster: LiveCluster) -> AsyncIterator[AsyncTopicReader]:
    async with AsyncTopicReader(cluster.name_server) as reader:
        yield reader


def put(
    cluster: LiveCluster,
    *bodies: bytes,
    tags: str | None = None,
    properties: dict[str, str] | None = None,
    queue: QueueRef = QUEUE,
) -> None: ...


async def send(
    producer: AsyncProducer,
    bodies: Sequence[bytes],
    *,
    tags: Sequence[str] = (),
    queue: QueueRef = QUEUE,
) -> None:
    """All into one queue."""
    messages = [
        Message(queue.topic, body, tags=tags[number % len(tags)] if tags else None)
        for number, body in enumerate(bodies)
    ]
    await producer.send_batch(messages, queue=queue)


async def read(
    reader: AsyncTopicReader,
    start: int,
    end: int,
    subscription: Subscription | None = None,
    **options: bool,
) -> list[RecordChunk]:
    chunks = reader.records(
        QUEUE, start, end, subscription=subscription or Subscription(""), **options
    )
    return [chunk async for chunk in chunks]


def messages(chunks: Sequence[RecordChunk]) -> list[StoredMessage]:
    found = [message for chunk in chunks for message in split_records(chunk.data)]
    assert len(found) == sum(chunk.count for chunk in chunks)
    return found


def bodies(chunks: Sequence[RecordChunk]) -> list[bytes]:
    return [message.body for message in messages(chunks)]


async def test_a_range_comes_whole_and_in_order(
    reader: AsyncTopicReader, producer: AsyncProducer
) -> None:
    sent = [b"%d" % number for number in range(20_000)]
    await send(producer, sent)
    chunks = await read(reader, 100, 19_900)
    assert bodies(chunks) == sent[100:19_900]
    assert chunks[0].start_offset == 100
    assert [chunk.next_offset for chunk in chunks[:-1]] == [
        chunk.start_offset for chunk in chunks[1:]
    ]
    assert chunks[-1].next_offset == 19_900
    assert all(chunk.count >= CHUNK_COUNT for chunk in chunks[:-1])
    assert {chunk.queue for chunk in chunks} == {QUEUE}
