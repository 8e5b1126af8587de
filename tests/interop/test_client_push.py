"""Our push consumer at Apache's brokers and at ours: one contract, and Java clients beside it."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from roquet import (
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    QueueRef,
    ReceivedMessage,
    RetryLater,
    StartFrom,
)
from roquet.client.blocking.admin import Admin
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPushConsumer,
    Outgoing,
    Received,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

# A loaded machine must not turn slowness into failures.
PATIENT_S = 40.0


@pytest.fixture
def java(server: ClientServer, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    return java_drivers(server.java_version)


@pytest.fixture
def topic(server: ClientServer, new_name: NewName) -> str:
    """With four queues."""
    topic = new_name("topic")
    create_topic(server.broker, topic, 4)
    return topic


@pytest.fixture
def group(new_name: NewName) -> str:
    return new_name("readers")


@pytest.fixture
def producer(server: ClientServer, new_name: NewName) -> Iterator[Producer]:
    with Producer(server.name_server, new_name("producers")) as producer:
        yield producer


class Inbox:
    """Keeps what it gets, from any thread."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.messages) >= count, PATIENT_S)


NewConsumer = Callable[..., PushConsumer]


@pytest.fixture
def new_consumer(server: ClientServer, topic: str, group: str) -> Iterator[NewConsumer]:
    """Opens consumers of the topic that begin at the first message."""
    with contextlib.ExitStack() as running:

        def make(
            listener: Any = None, wanted: dict[str, str] | None = None, **options: Any
        ) -> PushConsumer:
            defaults: dict[str, Any] = {"start_from": StartFrom.FIRST, "group": group}
            consumer = PushConsumer(server.name_server, listener=listener, **(defaults | options))
            consumer.subscribe(topic, **(wanted or {}))
            return running.enter_context(consumer)

        yield make


def send(producer: Producer, topic: str, count: int, start: int = 0) -> list[bytes]:
    """To all queues in turn."""
    numbered = [b"%d" % number for number in range(start, start + count)]
    for body in numbered:
        producer.send(Message(topic, body), timeout_s=PATIENT_S)
    return numbered


def send_in_order(producer: Producer, topic: str, count: int) -> list[QueueRef]:
    """That many numbers to each queue."""
    queues = producer.queues(topic)
    for queue in queues:
        batch = [Message(topic, b"%d" % number) for number in range(count)]
        producer.send_batch(batch, queue=queue, timeout_s=PATIENT_S)
    return queues


def by_queue(messages: Sequence[ReceivedMessage]) -> dict[QueueRef, list[int]]:
    found: dict[QueueRef, list[int]] = {}
    for message in messages:
        found.setdefault(message.queue, []).append(int(message.body))
    return found


def test_every_message_arrives_once_and_a_restart_goes_on(
    producer: Producer, topic: str, new_consumer: NewConsumer
) -> None:
    sent = send(producer, topic, 50)
    first = Inbox()
    consumer = new_consumer(first)
    first.wait_for(50)
    sent += send(producer, topic, 10, 50)
    first.wait_for(60)
    consumer.close()
    assert Counter(first.bodies) == Counter(sent)
    later = send(producer, topic, 10, 60)
    second = Inbox()
    new_consumer(second)
    second.wait_for(10)
    assert Counter(second.bodies) == Counter(later)


def test_a_message_arrives_with_all_that_was_set(
    producer: Producer, topic: str, new_consumer: NewConsumer
) -> None:
    properties = {"city": "Köln 𝄞", "a=b": '"{}"'}
    message = Message(
        topic, b"\x00\xff" * 9000, tags="red", keys=("k1", "k2"), properties=properties, flag=-7
    )
    receipt = producer.send(message, timeout_s=PATIENT_S)
    inbox = Inbox()
    new_consumer(inbox)
    inbox.wait_for(1)
    (received,) = inbox.messages
    assert (received.topic, received.body, received.flag) == (topic, message.body, -7)
    assert (received.tags, received.keys) == ("red", ("k1", "k2"))
    assert properties.items() <= received.properties.items()
    assert (received.message_id, received.offset_id) == (receipt.message_id, receipt.offset_id)
    assert (received.queue, received.queue_offset) == (receipt.queue, receipt.queue_offset)


def test_coroutines_loops_and_batches_get_them_too(
    server: ClientServer,
    producer: Producer,
    topic: str,
    new_consumer: NewConsumer,
    new_name: NewName,
) -> None:
    sent = Counter(send(producer, topic, 40))
    in_loop: list[bytes] = []
    batches: list[list[bytes]] = []

    async def listen(message: ReceivedMessage) -> None:
        in_loop.append(message.body)

    def listen_to_many(messages: list[ReceivedMessage]) -> None:
        batches.append([message.body for message in messages])

    new_consumer(listen, group=new_name("readers"))
    new_consumer(listen_to_many, group=new_name("readers"), batch_size=16)
    asking = new_consumer(group=new_name("readers"))
    asked = [message.body for _, message in zip(range(40), asking, strict=False)]
    wait_until(lambda: len(in_loop) >= 40 and sum(map(len, batches)) >= 40, PATIENT_S)
    assert Counter(asked) == Counter(in_loop) == sent
    assert Counter(body for batch in batches for body in batch) == sent


def test_tags_and_expressions_pick_messages(
    server: ClientServer,
    producer: Producer,
    topic: str,
    new_consumer: NewConsumer,
    new_name: NewName,
) -> None:
    if not server.is_apache:
        with Admin(server.name_server) as admin:
            admin.update_broker_config(server.broker, {"enablePropertyFilter": "true"})
    for number, tag in zip(count(), ("red", "green", "blue") * 3, strict=False):
        properties = {"price": str(number)}
        producer.send(Message(topic, b"%d" % number, tags=tag, properties=properties))
    tagged, picked = Inbox(), Inbox()
    new_consumer(tagged, {"tags": "red || blue"}, group=new_name("readers"))
    new_consumer(picked, {"sql": "price > 2 AND TAGS <> 'green'"}, group=new_name("readers"))
    tagged.wait_for(6)
    picked.wait_for(4)
    assert sorted(map(int, tagged.bodies)) == [0, 2, 3, 5, 6, 8]
    assert sorted(map(int, picked.bodies)) == [3, 5, 6, 8]


def test_what_fails_comes_again_and_ends_among_the_dead_letters(
    server: ClientServer, producer: Producer, topic: str, group: str, new_consumer: NewConsumer
) -> None:
    seen: list[ReceivedMessage] = []

    def listen(message: ReceivedMessage) -> None:
        seen.append(message)
        if message.body == b"hopeless":
            raise DeadLetter
        raise RetryLater(delay_level=1)

    new_consumer(listen, retry_count_max=1)
    receipt = producer.send(Message(topic, b"twice", tags="red", keys=("k",)))
    producer.send(Message(topic, b"hopeless"))
    with Admin(server.name_server) as admin:
        wait_until(lambda: len(admin.dead_letters(group)) == 2, PATIENT_S)
        dead = admin.dead_letters(group)
    assert {message.body for message in dead} == {b"twice", b"hopeless"}
    first, second = (message for message in seen if message.body == b"twice")
    assert (first.retry_count, second.retry_count) == (0, 1)
    assert (second.topic, second.tags, second.keys) == (topic, "red", ("k",))
    assert second.message_id == receipt.message_id


def test_order_is_kept_whatever_fails(
    producer: Producer, topic: str, new_consumer: NewConsumer
) -> None:
    queues = send_in_order(producer, topic, 20)
    done: list[ReceivedMessage] = []
    failures: Counter[QueueRef] = Counter()

    def listen(message: ReceivedMessage) -> None:
        if message.body == b"7" and failures[message.queue] < 2:
            failures[message.queue] += 1
            raise RetryLater(timedelta(milliseconds=10))
        done.append(message)

    new_consumer(listen, orderly=True)
    wait_until(lambda: len(done) >= 80, PATIENT_S)
    assert by_queue(done) == {queue: list(range(20)) for queue in queues}
    assert set(failures.values()) == {2}


def test_two_members_share_and_take_over(
    producer: Producer, topic: str, new_consumer: NewConsumer
) -> None:
    inboxes = Inbox(), Inbox()
    first, second = (new_consumer(inbox) for inbox in inboxes)
    wait_until(lambda: len(first.queues()) == len(second.queues()) == 2, PATIENT_S)
    assert not set(first.queues()) & set(second.queues())
    sent = send(producer, topic, 40)
    wait_until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 40, PATIENT_S)
    assert all(inbox.messages for inbox in inboxes)
    second.close()
    wait_until(lambda: len(first.queues()) == 4, PATIENT_S)
    sent += send(producer, topic, 8, 40)
    wait_until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 48, PATIENT_S)
    assert Counter(inboxes[0].bodies + inboxes[1].bodies) == Counter(sent)


def test_broadcasting_gives_everything_to_everybody(
    producer: Producer, topic: str, new_consumer: NewConsumer, tmp_path: Path
) -> None:
    inboxes = [Inbox(), Inbox()]
    consumers = [
        new_consumer(
            inbox, broadcasting=True, offsets_directory=tmp_path, instance_name=f"member-{number}"
        )
        for number, inbox in enumerate(inboxes)
    ]
    sent = send(producer, topic, 12)
    for inbox in inboxes:
        inbox.wait_for(12)
        assert Counter(inbox.bodies) == Counter(sent)
    consumers[0].close()
    later = send(producer, topic, 4, 12)
    again = Inbox()
    new_consumer(again, broadcasting=True, offsets_directory=tmp_path, instance_name="member-0")
    again.wait_for(4)
    assert Counter(again.bodies) == Counter(later)


def test_a_queue_that_still_has_its_first_message_is_read_from_there(
    producer: Producer, topic: str, new_consumer: NewConsumer
) -> None:
    """Brokers see to it, so that a group does not miss what comes first to a new topic."""
    sent = send(producer, topic, 4)
    inbox = Inbox()
    new_consumer(inbox, start_from=StartFrom.AUTO)
    inbox.wait_for(4)
    assert Counter(inbox.bodies) == Counter(sent)


@pytest.mark.parametrize("start", [StartFrom.LAST, datetime.now(UTC) + timedelta(hours=1)])
def test_a_group_that_begins_last_gets_nothing_old_of_a_young_topic(
    server: ClientServer, producer: Producer, topic: str, new_consumer: NewConsumer, start: Any
) -> None:
    old = send(producer, topic, 4)
    with Admin(server.name_server) as admin:
        # Apache enters messages into their queues a little later.
        wait_until(lambda: admin.topic_statistics(topic).message_count == 4)
    inbox = Inbox()
    new_consumer(inbox, start_from=start)

    def reads() -> bool:
        """Where it starts, it finds out some time after it was opened: what came before is old."""
        send(producer, topic, 4, 4)
        return len(inbox.messages) >= 4

    wait_until(reads, PATIENT_S)
    assert not {*inbox.bodies} & {*old}


def test_resting_keeps_messages_for_later(
    producer: Producer, topic: str, new_consumer: NewConsumer
) -> None:
    inbox = Inbox()
    consumer = new_consumer(inbox)
    send(producer, topic, 4)
    inbox.wait_for(4)
    consumer.pause()
    held = threading.Event()
    send(producer, topic, 4, 4)
    assert not held.wait(0.5)
    assert len(inbox.messages) == 4
    consumer.resume()
    inbox.wait_for(8)


def test_an_operator_moves_the_group(
    server: ClientServer, producer: Producer, topic: str, group: str, new_consumer: NewConsumer
) -> None:
    send(producer, topic, 8)
    inbox = Inbox()
    new_consumer(inbox)
    inbox.wait_for(8)
    with Admin(server.name_server) as admin:
        target = datetime.now(UTC) - timedelta(hours=1)
        admin.apply_reset(admin.plan_reset(group, topic, target))
    # 5.5.0 says it in its answer to the next pull, which waits for a message.
    later = send(producer, topic, 4, 8)
    wait_until(lambda: len(inbox.messages) >= 20 and set(later) <= set(inbox.bodies), PATIENT_S)
    assert {body: count for body, count in Counter(inbox.bodies).items() if int(body) < 8} == {
        b"%d" % number: 2 for number in range(8)
    }


def test_an_operator_sees_what_it_does(
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    topic: str,
    group: str,
    new_consumer: NewConsumer,
) -> None:
    inbox = Inbox()
    new_consumer(inbox)
    receipt = producer.send(Message(topic, b"x"), timeout_s=PATIENT_S)
    inbox.wait_for(1)
    with Admin(server.name_server) as admin:
        (connection,) = admin.members(group).connections
    words: tuple[str, ...] = ("-n", server.name_server, "-g", group)
    assert "Rebalance OK" in java.mqadmin("consumerStatus", *words).output
    shown = java.mqadmin("consumerStatus", *words, "-i", connection.client_id).output
    assert topic in shown
    assert "PROP_CONSUMEORDERLY" in shown
    if java.version is ApacheVersion.V5_5_0:
        words += ("-t", topic)
    consumed = java.mqadmin(
        "queryMsgById", *words, "-i", receipt.offset_id, "-d", connection.client_id
    )
    assert "CR_SUCCESS" in consumed.output, consumed
    assert inbox.bodies == [b"x", b"x"]


# Beside Java clients.


def test_we_read_what_a_java_producer_sends(
    server: ClientServer, java: JavaDriver, topic: str, new_consumer: NewConsumer, new_name: NewName
) -> None:
    inbox = Inbox()
    new_consumer(inbox)
    with JavaProducer(java, server.name_server, new_name("producers")) as java_producer:
        one = java_producer.send(
            Outgoing(topic, b"one", properties={"TAGS": "red", "KEYS": "k1 k2"})
        )
        big = b"0123456789" * 100_000
        java_producer.send(Outgoing(topic, big))
        java_producer.send_batch(Outgoing(topic, b"b1"), Outgoing(topic, b"b2"))
        inbox.wait_for(4)
    assert Counter(inbox.bodies) == Counter([b"one", big, b"b1", b"b2"])
    (first,) = (message for message in inbox.messages if message.body == b"one")
    assert (first.tags, first.keys, first.message_id) == ("red", ("k1", "k2"), one.message_id)


def test_java_and_we_share_a_group_without_gaps_and_overlaps(
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    topic: str,
    group: str,
    new_consumer: NewConsumer,
) -> None:
    inbox = Inbox()
    ours = new_consumer(inbox)
    with JavaPushConsumer(java, server.name_server, group, Subscription(topic)) as theirs:
        wait_until(lambda: len(ours.queues()) == len(theirs.assignment(topic)) == 2, PATIENT_S)
        their_queues = {(each.broker_name, each.queue_id) for each in theirs.assignment(topic)}
        assert not their_queues & {queue[1:] for queue in ours.queues()}
        sent = send(producer, topic, 40)
        java_got = bodies(theirs.received(20))
        inbox.wait_for(20)
        assert Counter(java_got + inbox.bodies) == Counter(sent)
    wait_until(lambda: len(ours.queues()) == 4, PATIENT_S)
    later = send(producer, topic, 8, 40)
    wait_until(lambda: set(java_got + inbox.bodies) == {*sent, *later}, PATIENT_S)
    # What its listener had last, a Java member may not have committed when it ends.
    again = Counter(java_got + inbox.bodies) - Counter(sent + later)
    assert again.keys() <= set(java_got)
    assert max(Counter(inbox.bodies).values()) == 1


def test_what_we_send_back_a_java_member_gets(
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    topic: str,
    group: str,
    new_consumer: NewConsumer,
) -> None:
    def listen(_message: ReceivedMessage) -> None:
        raise RetryLater(delay_level=1)

    consumer = new_consumer(listen)
    producer.send(Message(topic, b"x"), timeout_s=PATIENT_S)
    wait_until(lambda: consumer.statistics().topics[topic].failed_count, PATIENT_S)
    consumer.close()
    with JavaPushConsumer(java, server.name_server, group, Subscription(topic)) as theirs:
        # It may have to wait for its next look at routes, after half a minute.
        (received,) = theirs.received(1, wait_s=PATIENT_S)
    assert (received.body, received.topic, received.reconsume_times) == (b"x", topic, 1)


def test_order_is_kept_when_a_java_member_takes_over(
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    topic: str,
    group: str,
    new_consumer: NewConsumer,
) -> None:
    queues = send_in_order(producer, topic, 10)
    inbox = Inbox()
    ours = new_consumer(inbox, orderly=True)
    inbox.wait_for(40)
    with JavaPushConsumer(
        java, server.name_server, group, Subscription(topic), orderly=True
    ) as theirs:
        wait_until(lambda: len(theirs.assignment(topic)) == 2, PATIENT_S)
        assert len(ours.queues()) == 2
        ours.close()
        wait_until(lambda: len(theirs.assignment(topic)) == 4, PATIENT_S)
        for queue in queues:
            producer.send(Message(topic, b"10"), queue=queue, timeout_s=PATIENT_S)
        received: list[Received] = []
        while bodies(received).count(b"10") < len(queues):
            (one,) = theirs.received(1)
            received.append(one)
    # Some may come again, as to every new owner of a queue, but in order and without a gap.
    for queue in queues:
        numbers = [int(each.body) for each in received if each.queue_id == queue.queue_id]
        assert numbers == list(range(numbers[0], 11))
    assert by_queue(inbox.messages) == {queue: list(range(10)) for queue in queues}
