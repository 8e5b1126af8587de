"""Where queues begin and end, where groups are, and where new groups begin: as Java clients see it.

A queue is old when its first messages are gone; only then new groups may choose where to begin.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import send_common
from tests.support.eventually import wait_until
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Queue,
    Subscription,
)
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]


def test_the_bounds_of_a_queue(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    (queue,) = puller.queues(topic)
    assert (puller.min_offset(queue), puller.max_offset(queue)) == (0, 0)
    assert puller.earliest_store_time(queue) == -1
    for _ in range(3):
        producer.send(Outgoing(topic, b"x"))
    assert (puller.min_offset(queue), puller.max_offset(queue)) == (0, 3)
    (first,) = puller.pull(queue, 0, count_max=1).messages
    assert puller.earliest_store_time(queue) == first.store_timestamp


def test_an_offset_is_found_by_time(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    times: list[int] = []
    for number in range(5):
        sent = producer.send(Outgoing(topic, b"x"))
        (message,) = puller.pull(sent.queue, number).messages
        times.append(message.store_timestamp)
        wait_until(lambda: time.time() * 1000 >= times[-1] + 2)
    (queue,) = puller.queues(topic)
    assert [puller.search_offset(queue, each) for each in times] == [0, 1, 2, 3, 4]
    assert [puller.search_offset(queue, each + 1) for each in times] == [1, 2, 3, 4, 5]
    assert puller.search_offset(queue, 0) == 0


def test_the_offset_of_a_group_is_what_it_committed(
    java: JavaDriver, names: str, new_name: NewName, our_topic: NewTopic
) -> None:
    topic = our_topic()
    group = new_name("group")
    with JavaPullConsumer(java, names, group) as puller:
        (queue,) = puller.queues(topic)
        # A young queue: whoever has no offset starts at the first message.
        assert puller.consumer_offset(queue) == 0
        puller.update_consumer_offset(queue, 5)
        # A 5.x client sends it one-way and from another thread.
        wait_until(lambda: puller.consumer_offset(queue) == 5)
    with JavaPullConsumer(java, names, group) as puller:
        puller.queues(topic)
        assert puller.consumer_offset(queue) == 5
    with JavaPullConsumer(java, names, new_name("group")) as other:
        other.queues(topic)
        assert other.consumer_offset(queue) == 0


class OldQueue(NamedTuple):
    names: str
    broker: str
    queue: Queue
    min_offset: int
    # Where the messages of this second begin.
    second: int
    second_offset: int


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldQueue]:
    """A queue whose first messages were in a file of the log that is gone."""
    directory = tmp_path_factory.mktemp("old")
    queue = Queue("old", "our-broker", 0)
    with OurNameServer(directory / "namesrv") as names:
        # Seven of the messages below fill a file.
        files = {"mappedFileSizeCommitLog": "8192"}
        broker = OurBroker(directory / "broker", names.address, configuration=files)
        with broker:
            create_topic(broker.address, queue.topic)
            with BlockingPeer(broker.address) as peer:
                for _ in range(12):
                    send_common(peer, queue.topic, b"early".ljust(1000))
                second = int(time.time()) + 1
                wait_until(lambda: time.time() >= second)
                for _ in range(3):
                    send_common(peer, queue.topic, b"late".ljust(1000))
        (broker.store_directory / "commitlog" / f"{0:020d}").unlink()
        with broker:
            yield OldQueue(names.address, broker.address, queue, 7, second, 12)


def test_an_old_queue_begins_where_its_messages_begin(
    java: JavaDriver, new_name: NewName, old: OldQueue
) -> None:
    with JavaPullConsumer(java, old.names, new_name("group")) as puller:
        puller.queues(old.queue.topic)
        assert puller.min_offset(old.queue) == old.min_offset
        too_small = puller.pull(old.queue, 0)
        assert (too_small.status, too_small.next_begin_offset) == (
            "OFFSET_ILLEGAL",
            old.min_offset,
        )
        assert puller.consumer_offset(old.queue) == -1


@pytest.mark.parametrize(
    "where",
    ["CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_TIMESTAMP"],
)
def test_a_new_group_starts_where_configured(
    java: JavaDriver, new_name: NewName, old: OldQueue, where: str
) -> None:
    begin_time = time.strftime("%Y%m%d%H%M%S", time.localtime(old.second))
    options = {"consumeFromWhere": where, "consumeTimestamp": begin_time}
    subscription = Subscription(old.queue.topic)
    with JavaPushConsumer(
        java, old.names, new_name("group"), subscription, options=options
    ) as consumer:
        wait_until(lambda: consumer.assignment(old.queue.topic))
        with BlockingPeer(old.broker) as peer:
            new_offset = send_common(peer, old.queue.topic, b"new").queue_offset
        begin = {
            "CONSUME_FROM_FIRST_OFFSET": old.min_offset,
            "CONSUME_FROM_LAST_OFFSET": new_offset,
            "CONSUME_FROM_TIMESTAMP": old.second_offset,
        }[where]
        # A 4.9.7 client that was sent from 0 to the first message takes ten seconds to go there.
        received = consumer.received(new_offset + 1 - begin)
        assert consumer.received(1, wait_s=0.3) == []
    assert sorted(each.queue_offset for each in received) == list(range(begin, new_offset + 1))
