"""One poll of the cluster, and the turns of what is asked for one by one."""

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.received import ReceivedMessage
from roquet.dashboard.snapshot import next_in_turn, take_snapshot
from roquet.protocol.messages.message import Message
from roquet.testing.cluster import Cluster


def test_what_was_never_asked_for_comes_first_then_the_longest_ago() -> None:
    assert next_in_turn(["a", "b", "c", "d"], {"a": 2.0, "c": 1.0}) == ["b", "d", "c", "a"]


async def test_a_snapshot_has_topics_groups_and_their_rates() -> None:
    async def bill(_message: ReceivedMessage) -> None:
        pass

    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        topic = await cluster.new_topic("orders")
        consumer = AsyncPushConsumer(
            cluster.name_server, "billing", bill, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic)
        async with consumer, AsyncProducer(cluster.name_server, "shop") as producer:
            await producer.send(Message(topic, b"1"))
            await cluster.consumed("billing")
            first = await take_snapshot(admin.partial(), None)
            await producer.send(Message(topic, b"2"))
            second = await take_snapshot(admin.partial(), first)
    assert list(second.topics) == ["orders"]
    assert first.topic_samples["orders"].rate is None
    assert (second.topic_samples["orders"].rate or 0) > 0
    assert second.topic_samples["orders"].statistics.message_count == 2
    assert second.oldest_of("orders") is not None
    # Records of a body of one byte.
    assert 200 < (second.size_of("orders") or 0) < 1000
    assert (second.oldest_of("nowhere"), second.size_of("nowhere")) == (None, None)
    assert len(second.group_details["billing"].members.connections) == 1
    assert second.groups_of("orders") == ["billing"]
    assert second.missing == ()
