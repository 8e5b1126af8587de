"""Real Java clients that pull from our broker by themselves: the old, the lite, the scheduled."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.eventually import wait_until
from tests.support.java_client import (
    JavaLitePullConsumer,
    JavaProducer,
    JavaPullConsumer,
    JavaScheduledPullConsumer,
    Outgoing,
    Queue,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

BY_HAND = {"autoCommit": False}
# The time of a waiting pull is 20 seconds, and Apache looks after it every five.
AT_ONCE_S = 4.0


@pytest.fixture
def ten(producer: JavaProducer, our_topic: NewTopic) -> Queue:
    """A queue with the messages 0 to 9; odd and even are tags."""
    topic = our_topic()
    sent = producer.send_batch(
        *(
            Outgoing(topic, b"%d" % number, properties={"TAGS": "odd" if number % 2 else "even"})
            for number in range(10)
        )
    )
    return sent.queue


def test_a_pull_says_where_to_go_on(puller: JavaPullConsumer, ten: Queue) -> None:
    pulled = puller.pull(ten, 2, count_max=3)
    assert (pulled.status, bodies(pulled.messages)) == ("FOUND", [b"2", b"3", b"4"])
    assert (pulled.next_begin_offset, pulled.min_offset, pulled.max_offset) == (5, 0, 10)


def test_a_pull_filters_by_tag(puller: JavaPullConsumer, ten: Queue) -> None:
    assert bodies(puller.pull(ten, 0, tags="odd").messages) == [b"1", b"3", b"5", b"7", b"9"]
    nothing = puller.pull(ten, 0, tags="absent")
    assert (nothing.status, nothing.next_begin_offset) == ("NO_MATCHED_MSG", 10)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [(10, "NO_NEW_MSG", 10), (11, "OFFSET_ILLEGAL", 10), (2**40, "OFFSET_ILLEGAL", 10)],
)
def test_a_pull_at_or_behind_the_end(
    puller: JavaPullConsumer, ten: Queue, offset: int, status: str, next_offset: int
) -> None:
    pulled = puller.pull(ten, offset)
    assert (pulled.status, pulled.next_begin_offset) == (status, next_offset)
    assert pulled.messages == []


def test_a_pull_from_an_empty_queue(puller: JavaPullConsumer, our_topic: NewTopic) -> None:
    (queue,) = puller.queues(our_topic())
    assert puller.pull(queue, 0).status == "NO_NEW_MSG"
    lost = puller.pull(queue, 7)
    assert (lost.status, lost.next_begin_offset) == ("OFFSET_ILLEGAL", 0)


def test_a_pull_brings_at_most_32_messages(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    sent = producer.send_batch(*(Outgoing(topic, b"x") for _ in range(100)))
    assert len(puller.pull(sent.queue, 0, count_max=100).messages) == 32


def test_a_waiting_pull_is_woken_by_the_message(
    producer: JavaProducer, puller: JavaPullConsumer, ten: Queue
) -> None:
    with ThreadPoolExecutor() as threads:
        pull = threads.submit(puller.pull_or_wait, ten, 10, tags="odd")
        with pytest.raises(TimeoutError):
            pull.result(0.3)
        producer.send(Outgoing(ten.topic, b"10", properties={"TAGS": "even"}))
        with pytest.raises(TimeoutError):
            pull.result(0.3)
        producer.send(Outgoing(ten.topic, b"11", properties={"TAGS": "odd"}))
        assert bodies(pull.result(AT_ONCE_S).messages) == [b"11"]


def test_a_waiting_pull_ends_when_its_time_is_over(
    java: JavaDriver, names: str, new_name: NewName, ten: Queue
) -> None:
    options = {"brokerSuspendMaxTimeMillis": 500}
    with JavaPullConsumer(java, names, new_name("group"), options=options) as puller:
        started_s = time.monotonic()
        pulled = puller.pull_or_wait(ten, 10)
        waited_s = time.monotonic() - started_s
    assert (pulled.status, pulled.next_begin_offset) == ("NO_NEW_MSG", 10)
    assert 0.5 <= waited_s < 10


def test_lite_pull_by_subscription_goes_on_where_it_committed(
    java: JavaDriver, names: str, new_name: NewName, producer: JavaProducer, ten: Queue
) -> None:
    group = new_name("group")
    everything = Subscription(ten.topic)
    with JavaLitePullConsumer(java, names, group, everything, options=BY_HAND) as consumer:
        assert bodies(consumer.poll()) == [b"%d" % number for number in range(10)]
        assert consumer.assignment() == [ten]
        consumer.commit()
        assert consumer.committed(ten) == 10
    producer.send(Outgoing(ten.topic, b"10"))
    with JavaLitePullConsumer(java, names, group, everything, options=BY_HAND) as consumer:
        assert bodies(consumer.poll()) == [b"10"]


def test_lite_pull_without_a_commit_begins_again(
    java: JavaDriver, names: str, new_name: NewName, ten: Queue
) -> None:
    group = new_name("group")
    for _ in range(2):
        with JavaLitePullConsumer(
            java, names, group, Subscription(ten.topic), options=BY_HAND
        ) as consumer:
            assert consumer.poll()[0].body == b"0"


def test_lite_pull_by_subscription_filters_by_tag(
    java: JavaDriver, names: str, new_name: NewName, ten: Queue
) -> None:
    with JavaLitePullConsumer(
        java, names, new_name("group"), Subscription(ten.topic, "even")
    ) as consumer:
        assert bodies(consumer.poll()) == [b"0", b"2", b"4", b"6", b"8"]


def test_lite_pull_shares_the_queues_of_a_group(
    java: JavaDriver, names: str, new_name: NewName, our_topic: NewTopic
) -> None:
    topic = our_topic(4)
    group = new_name("group")
    with (
        JavaLitePullConsumer(java, names, group, Subscription(topic)) as one,
        JavaLitePullConsumer(java, names, group, Subscription(topic)) as other,
    ):
        wait_until(lambda: len(one.assignment()) == len(other.assignment()) == 2)
        queue_ids = {queue.queue_id for each in (one, other) for queue in each.assignment()}
    assert queue_ids == {0, 1, 2, 3}


def test_lite_pull_by_assignment_seeks_and_commits(
    java: JavaDriver, names: str, new_name: NewName, ten: Queue
) -> None:
    group = new_name("group")
    with JavaLitePullConsumer(java, names, group, options=BY_HAND) as consumer:
        assert consumer.queues(ten.topic) == [ten]
        consumer.assign(ten)
        # A pull under way may still deliver after a seek, so let there be none first.
        while consumer.poll()[-1].body != b"9":
            pass
        consumer.seek(ten, 4)
        assert consumer.poll()[0].body == b"4"
        consumer.commit()
    with JavaLitePullConsumer(java, names, group, options=BY_HAND) as consumer:
        consumer.assign(ten)
        assert consumer.committed(ten) == 10


def test_scheduled_pull_takes_all_queues_and_what_comes_later(
    java: JavaDriver, names: str, new_name: NewName, producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic(4)
    sent = [b"%d" % number for number in range(8)]
    for number, queue in enumerate(producer.queues(topic)):
        producer.send(Outgoing(topic, sent[number]), queue)
    with JavaScheduledPullConsumer(java, names, new_name("group"), topic) as consumer:
        assert sorted(bodies(consumer.received(4))) == sent[:4]
        for number, queue in enumerate(producer.queues(topic)):
            producer.send(Outgoing(topic, sent[4 + number]), queue)
        assert sorted(bodies(consumer.received(4))) == sent[4:]
