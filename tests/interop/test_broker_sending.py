"""Real Java producers send to our broker in every way they know."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    Outgoing,
    Queue,
    Received,
    bodies,
)
from tests.support.java_driver import JavaDriver, JavaFailure

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

MEGABYTE = 1024 * 1024
BODY_SIZE_MAX = 4 * MEGABYTE

# A 4.9.7 producer knows more than one way, but offers no choice.
COMPRESSIONS: dict[ApacheVersion, tuple[dict[str, str], ...]] = {
    ApacheVersion.V4_9_7: ({},),
    ApacheVersion.V5_5_0: tuple({"compressType": way} for way in ("ZLIB", "LZ4", "ZSTD")),
}


def test_every_way_to_send_arrives(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    (queue,) = producer.queues(topic)
    sent = producer.send(Outgoing(topic, b"sync"), queue)
    assert (sent.status, sent.queue, sent.queue_offset) == ("SEND_OK", queue, 0)
    assert producer.send_async(Outgoing(topic, b"async"), queue).queue_offset == 1
    assert producer.send_batch(Outgoing(topic, b"b1"), Outgoing(topic, b"b2")).queue_offset == 2
    assert producer.send(Outgoing(topic, b"by key"), sharding_key="order 7").queue_offset == 4
    producer.send_oneway(Outgoing(topic, b"oneway"), queue)
    assert bodies(puller.pull_or_wait(queue, 5).messages) == [b"oneway"]
    assert bodies(puller.pull(queue, 0).messages) == [
        *(b"sync", b"async", b"b1", b"b2", b"by key", b"oneway")
    ]


def test_a_sharding_key_always_chooses_the_same_queue(
    producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic(8)
    sends = (producer.send, producer.send_async, producer.send)
    queues = {
        send(Outgoing(topic, b"order"), sharding_key="order 7").queue.queue_id for send in sends
    }
    assert len(queues) == 1


def test_a_message_keeps_all_that_was_set(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    properties = {"TAGS": "red", "KEYS": "k1 k2", "city": "Köln 𝄞", "a=b": '"{}"', "empty": " "}
    sent = producer.send(Outgoing(our_topic(), b"\x00\xff", flag=-7, properties=properties))
    (message,) = puller.pull(sent.queue, 0).messages
    assert (message.body, message.flag) == (b"\x00\xff", -7)
    assert properties.items() <= message.properties.items()
    assert message.message_id == sent.message_id
    assert message.offset_id == sent.offset_id
    assert message.reconsume_times == 0


@pytest.mark.parametrize("size", [MEGABYTE, BODY_SIZE_MAX])
def test_a_large_body_arrives_whole(
    java: JavaDriver,
    names: str,
    new_name: NewName,
    puller: JavaPullConsumer,
    our_topic: NewTopic,
    size: int,
) -> None:
    body = random.Random(size).randbytes(size)
    options = {"compressMsgBodyOverHowmuch": BODY_SIZE_MAX + 1}
    with JavaProducer(java, names, new_name("producers"), options=options) as producer:
        sent = producer.send(Outgoing(our_topic(), body))
    (message,) = puller.pull(sent.queue, 0).messages
    assert message.body == body
    assert message.store_size > size


def test_a_compressed_body_is_stored_as_it_came(
    java: JavaDriver, names: str, new_name: NewName, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    body = b"0123456789abcdef" * (MEGABYTE // 16)
    for options in COMPRESSIONS[java.version]:
        with JavaProducer(java, names, new_name("producers"), options=options) as producer:
            sent = producer.send(Outgoing(topic, body))
        (message,) = puller.pull(sent.queue, sent.queue_offset).messages
        assert message.body == body
        assert message.store_size < len(body) / 10


def test_each_message_of_a_batch_is_a_message_of_its_own(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    batch = [
        Outgoing(topic, b"%d" % number, number, {"TAGS": f"t{number}", "KEYS": f"k{number}"})
        for number in range(100)
    ]
    sent = producer.send_batch(*batch)
    pulled: list[Received] = []
    while len(pulled) < len(batch):
        pulled += puller.pull(sent.queue, len(pulled)).messages
    assert [(each.body, each.flag) for each in pulled] == [(m.body, m.flag) for m in batch]
    assert all(
        m.properties.items() <= each.properties.items()
        for m, each in zip(batch, pulled, strict=True)
    )
    assert [each.queue_offset for each in pulled] == list(range(100))
    assert sent.offset_id is not None
    assert sent.offset_id.split(",") == [each.offset_id for each in pulled]
    assert len({each.properties["UNIQ_KEY"] for each in pulled}) == 100


def test_a_missing_topic_is_created_by_the_first_send(
    producer: JavaProducer, puller: JavaPullConsumer, new_name: NewName
) -> None:
    topic = new_name("unmade")
    sent = producer.send(Outgoing(topic, b"first"))
    # The broker answers the send first, and then tells the name server.
    wait_until(lambda: len(queues_of(puller, topic)) == 4)
    assert bodies(puller.pull(sent.queue, 0).messages) == [b"first"]


def queues_of(puller: JavaPullConsumer, topic: str) -> list[Queue]:
    """None of a topic that is not there."""
    try:
        return puller.queues(topic)
    except JavaFailure:
        return []


def test_concurrent_sends_get_offsets_without_holes(
    producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    with ThreadPoolExecutor(16) as threads:
        sends = [threads.submit(producer.send, Outgoing(topic, b"x")) for _ in range(200)]
    assert sorted(send.result().queue_offset for send in sends) == list(range(200))
