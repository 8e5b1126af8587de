"""Real clients take the fast path: Java's of both versions, and ours."""

from collections.abc import Callable

import pytest

from roquet import AsyncProducer, Message
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.consumer import AsyncPushConsumer
from tests.support.fast_path_share import Passed
from tests.support.java_client import JavaProducer, JavaPushConsumer, Outgoing, Subscription
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurCluster
from tests.support.push_consumers import Inbox

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

SHARE = 0.9
QUEUE_COUNT = 2
SEND_COUNT = 60
BATCH_COUNT = 50
BATCH_SIZE = 64
BACKLOG = BATCH_COUNT * BATCH_SIZE


def test_a_producer_of_java_takes_the_fast_path(
    ours: OurCluster, producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic(QUEUE_COUNT)
    before = Passed.at(ours.broker)
    for number in range(SEND_COUNT):
        properties = {"TAGS": "red", "KEYS": f"key{number}", "mine": "value"}
        producer.send(Outgoing(topic, b"%d" % number, properties=properties))
    assert Passed.at(ours.broker).send_share_since(before) > SHARE


def backlog(topic: str) -> list[list[Outgoing]]:
    return [
        [
            Outgoing(topic, b"%d" % number, properties={"TAGS": "red"})
            for number in range(BATCH_SIZE)
        ]
        for _ in range(BATCH_COUNT)
    ]


@pytest.mark.parametrize("tags", ["*", "red || blue"])
def test_batches_and_a_push_consumer_of_java_take_the_fast_path(
    ours: OurCluster,
    java: JavaDriver,
    producer: JavaProducer,
    our_topic: NewTopic,
    new_name: NewName,
    tags: str,
) -> None:
    topic = our_topic(QUEUE_COUNT)
    before = Passed.at(ours.broker)
    for batch in backlog(topic):
        producer.send_batch(*batch)
    sent = Passed.at(ours.broker)
    assert sent.send_share_since(before) > SHARE
    group = new_name("group")
    with JavaPushConsumer(java, ours.name_server, group, Subscription(topic, tags)) as consumer:
        assert len(consumer.received(BACKLOG)) == BACKLOG
        assert Passed.at(ours.broker).pull_share_since(sent) > SHARE


async def test_our_own_clients_take_the_fast_path(
    ours: OurCluster, our_topic: NewTopic, new_name: NewName
) -> None:
    topic = our_topic(QUEUE_COUNT)
    before = Passed.at(ours.broker)
    async with AsyncProducer(ours.name_server, new_name("producers")) as producer:
        for number in range(SEND_COUNT):
            await producer.send(Message(topic, b"%d" % number, tags="red", keys=("a",)))
        single = Passed.at(ours.broker)
        assert single.send_share_since(before) > SHARE
        for _ in range(BATCH_COUNT):
            await producer.send_batch([Message(topic, b"a", tags="red")] * BATCH_SIZE)
    sent = Passed.at(ours.broker)
    assert sent.send_share_since(single) > SHARE
    inbox = Inbox()
    consumer = AsyncPushConsumer(
        ours.name_server, new_name("group"), inbox, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)
    async with consumer:
        await inbox.has(BACKLOG + SEND_COUNT)
        assert Passed.at(ours.broker).pull_share_since(sent) > SHARE
