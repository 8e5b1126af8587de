"""Reading topics along, without a group."""

from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.follow import FollowFrom
from roquet.client.errors import BadArgument, TopicNotFound
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.queue_ref import QueueRef
from roquet.protocol.messages.message import Message
from roquet.testing.cluster import Cluster
from tests.support.raising import raises

QUEUES = [QueueRef("t", "broker-a", number) for number in range(2)]


async def filled(cluster: Cluster, count: int = 3) -> AsyncProducer:
    """A topic of two queues with so many messages in each."""
    await cluster.new_topic("t", queues=2)
    producer = AsyncProducer(cluster.name_server, "shop")
    await producer.open()
    for number in range(count):
        for queue in QUEUES:
            await producer.send(
                Message("t", b"%d" % number, ["even", "odd"][number % 2]), queue=queue
            )
    return producer


@pytest.mark.parametrize(
    ("start", "bodies"),
    [
        (StartFrom.FIRST, [b"0", b"0", b"1", b"1", b"2", b"2"]),
        (StartFrom.LAST, []),
        (datetime.now(UTC) - timedelta(days=1), [b"0", b"0", b"1", b"1", b"2", b"2"]),
        ({QUEUES[0]: 2, QUEUES[1]: 1}, [b"1", b"2", b"2"]),
    ],
)
async def test_it_starts_where_configured_and_ends_there(
    start: FollowFrom, bodies: list[bytes]
) -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        producer = await filled(cluster)
        ends = dict.fromkeys(QUEUES, 3)
        found = [each.body async for each in admin.follow("t", start, ends=ends)]
        await producer.close()
    assert sorted(found) == bodies


async def test_queues_without_an_end_are_left_out() -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        producer = await filled(cluster)
        following = admin.follow("t", StartFrom.FIRST, ends={QUEUES[1]: 2})
        found = [(each.queue.queue_id, each.queue_offset) async for each in following]
        await producer.close()
    assert found == [(1, 0), (1, 1)]


async def test_what_comes_later_is_read_and_filtered() -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        producer = await filled(cluster, 0)
        async with aclosing(admin.follow("t", StartFrom.FIRST, tags="new")) as following:
            await producer.send(Message("t", b"old", "old"), queue=QUEUES[0])
            await producer.send(Message("t", b"new", "new"), queue=QUEUES[0])
            assert (await anext(following)).body == b"new"
        await producer.close()


async def test_a_topic_that_is_not_there() -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        with pytest.raises(TopicNotFound):
            await anext(admin.follow("absent"))


async def test_a_start_that_is_none() -> None:
    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        await cluster.new_topic("t")
        with raises(BadArgument, argument="start"):
            await anext(admin.follow("t", StartFrom.AUTO))
