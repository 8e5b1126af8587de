"""Delays, retries and dead letters: real Java clients at our broker, and a real broker as heir."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from tests.support.apache import ApacheBroker
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Queue,
    Received,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]

# Retries begin with the third level.
LEVELS_MS = (1_000, 2_000, 1_000, 2_000, 3_000)
SETTINGS = {"messageDelayLevel": " ".join(f"{level_ms // 1000}s" for level_ms in LEVELS_MS)}
THREE_DAYS_S = 3 * 24 * 3600
# Timers within a second of each other have no order; a busy machine delivers late.
TICK_MS = 1_000
LATE_MS_MAX = 10_000


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    with OurNameServer(tmp_path_factory.mktemp("namesrv")) as server:
        yield server


@pytest.fixture(scope="module")
def broker(
    name_server: OurNameServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurBroker]:
    """Our broker, with quick levels."""
    directory = tmp_path_factory.mktemp("delaying")
    with OurBroker(directory, name_server.address, configuration=SETTINGS) as server:
        yield server


@pytest.fixture
def names(name_server: OurNameServer) -> str:
    return name_server.address


@pytest.fixture
def topic(broker: OurBroker, new_name: NewName) -> str:
    """A topic of one queue."""
    topic = new_name("topic")
    create_topic(broker.address, topic)
    return topic


@pytest.fixture
def queue(broker: OurBroker, topic: str) -> Queue:
    return Queue(topic, broker.broker_name, 0)


def pull_all(puller: JavaPullConsumer, queue: Queue, count: int) -> list[Received]:
    """The first `count` messages of a queue, waited for."""
    found: list[Received] = []
    while len(found) < count:
        found += puller.pull_or_wait(queue, len(found)).messages
    return found


def dead_letters(
    puller: JavaPullConsumer, broker_name: str, group: str, count: int
) -> list[Received]:
    queue = Queue(f"%DLQ%{group}", broker_name, 0)

    def are_there() -> bool:
        try:
            return puller.max_offset(queue) >= count
        except JavaFailure:
            # The topic is made for the first one of them, and clients hear of it later.
            return False

    wait_until(are_there)
    return puller.pull(queue, 0).messages


def stored_at_ms(producer: JavaProducer, topic: str, offset_id: str | None) -> int:
    """When the broker stored what it answered for: the message that waits."""
    assert offset_id is not None
    return producer.view(topic, offset_id).store_timestamp


@pytest.mark.parametrize(("level", "delay_ms"), [(1, 1_000), (2, 2_000), (99, 3_000)])
def test_a_level_delays_as_long_as_it_says(
    producer: JavaProducer, puller: JavaPullConsumer, queue: Queue, level: int, delay_ms: int
) -> None:
    message = Outgoing(queue.topic, b"late", properties={"DELAY": str(level)})
    sent = [producer.send(message, queue) for _ in range(10)]
    stored = [stored_at_ms(producer, queue.topic, each.offset_id) for each in sent]
    arrived = [each.store_timestamp for each in pull_all(puller, queue, len(sent))]
    lateness = [
        arrival - (start + delay_ms) for start, arrival in zip(stored, arrived, strict=True)
    ]
    assert min(lateness) >= 0
    # One of them may be unlucky on a machine that others use too.
    assert median(lateness) < 200


def test_a_push_consumer_gets_delayed_messages_as_they_were_sent(
    java: JavaDriver, names: str, producer: JavaProducer, queue: Queue, new_name: NewName
) -> None:
    properties = {"DELAY": "1", "TAGS": "red", "KEYS": "k", "city": "Köln"}
    with JavaPushConsumer(
        java, names, new_name("group"), Subscription(queue.topic, "red")
    ) as consumer:
        sent = producer.send(Outgoing(queue.topic, b"late", 7, properties), queue)
        (message,) = consumer.received(1)
    assert (message.body, message.flag, message.topic) == (b"late", 7, queue.topic)
    assert properties.items() <= message.properties.items()
    assert message.message_id == sent.message_id
    assert message.reconsume_times == 0


@pytest.fixture
def java_5(java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    """Timers are an affair of 5.x."""
    return java_drivers(ApacheVersion.V5_5_0)


def test_timers_of_5_x_come_at_their_time(
    java_5: JavaDriver, names: str, queue: Queue, new_name: NewName
) -> None:
    with (
        JavaProducer(java_5, names, new_name("producers")) as producer,
        JavaPullConsumer(java_5, names, new_name("pullers")) as puller,
    ):
        now_ms = time.time_ns() // 1_000_000
        timers = {
            b"4 s": {"TIMER_DELIVER_MS": str(now_ms + 4_000)},
            b"3 s": {"TIMER_DELAY_MS": "3000"},
            b"1 s": {"TIMER_DELAY_SEC": "1"},
        }
        for body, properties in timers.items():
            producer.send(Outgoing(queue.topic, body, properties=properties), queue)
        messages = pull_all(puller, queue, len(timers))
    assert sorted(bodies(messages)) == [b"1 s", b"3 s", b"4 s"]
    due_times_ms = []
    for message in messages:
        delay_ms = 1_000 * int(message.body.split()[0])
        # The last one by the clock that the time was taken from, the others by their birth.
        start_ms = now_ms if message.body == b"4 s" else message.born_timestamp
        due_times_ms.append(start_ms + delay_ms)
        assert 0 <= message.store_timestamp - due_times_ms[-1] < LATE_MS_MAX
    # On a busy machine the first send may take as long as lies between the times.
    assert all(later > earlier - TICK_MS for earlier, later in pairwise(due_times_ms))


def test_no_timer_waits_longer_than_three_days(
    java_5: JavaDriver, names: str, queue: Queue, new_name: NewName
) -> None:
    too_long = Outgoing(
        queue.topic, b"never", properties={"TIMER_DELAY_SEC": str(THREE_DAYS_S + 60)}
    )
    with (
        JavaProducer(java_5, names, new_name("producers")) as producer,
        pytest.raises(JavaFailure) as failure,
    ):
        producer.send(too_long, queue)
    assert failure.value.code == 13


def test_a_failed_message_comes_again_and_waits_longer_each_time(
    java: JavaDriver, names: str, producer: JavaProducer, queue: Queue, new_name: NewName
) -> None:
    group = new_name("group")
    producer.send(Outgoing(queue.topic, b"again", properties={"TAGS": "red"}), queue)
    with JavaPushConsumer(
        java, names, group, Subscription(queue.topic), failures=3, retry_level=0
    ) as consumer:
        tries = consumer.received(4, wait_s=60)
    assert [each.reconsume_times for each in tries] == [0, 1, 2, 3]
    assert [each.properties.get("DELAY") for each in tries] == [None, "3", "4", "5"]
    assert {each.message_id for each in tries} == {tries[0].message_id}
    # The client shows the topic it subscribed, not the one of the retries.
    assert {(each.topic, each.body) for each in tries} == {(queue.topic, b"again")}
    times = [each.store_timestamp for each in tries]
    for level, (before, after) in enumerate(pairwise(times), 3):
        assert after - before >= LEVELS_MS[level - 1]


def test_after_its_last_try_a_message_is_with_the_dead_letters(
    java: JavaDriver,
    names: str,
    producer: JavaProducer,
    puller: JavaPullConsumer,
    queue: Queue,
    new_name: NewName,
) -> None:
    group = new_name("group")
    producer.send(Outgoing(queue.topic, b"hopeless"), queue)
    with JavaPushConsumer(
        java,
        names,
        group,
        Subscription(queue.topic),
        failures=99,
        options={"maxReconsumeTimes": 2},
    ) as consumer:
        assert [each.reconsume_times for each in consumer.received(3, wait_s=60)] == [0, 1, 2]
        (message,) = dead_letters(puller, queue.broker_name, group, 1)
        assert consumer.received(1, wait_s=0.5) == []
    assert (message.body, message.reconsume_times) == (b"hopeless", 3)
    assert message.properties["RETRY_TOPIC"] == queue.topic


def test_an_orderly_consumer_sends_hopeless_messages_to_the_dead_letters_itself(
    java: JavaDriver,
    names: str,
    producer: JavaProducer,
    puller: JavaPullConsumer,
    queue: Queue,
    new_name: NewName,
) -> None:
    group = new_name("group")
    for body in (b"hopeless", b"next"):
        producer.send(Outgoing(queue.topic, body), queue)
    options = {"maxReconsumeTimes": 1, "suspendCurrentQueueTimeMillis": 10}
    with JavaPushConsumer(
        java,
        names,
        group,
        Subscription(queue.topic),
        orderly=True,
        failures=99,
        options=options,
    ) as consumer:
        assert bodies(consumer.received(4)) == [b"hopeless", b"hopeless", b"next", b"next"]
        dead = dead_letters(puller, queue.broker_name, group, 2)
        assert set(bodies(dead)) == {b"hopeless", b"next"}


def test_a_killed_broker_delivers_what_waited_not_early_and_at_least_once(
    java_5: JavaDriver, name_server: OurNameServer, new_name: NewName, tmp_path: Path
) -> None:
    names = name_server.address
    topic = new_name("topic")
    broker = OurBroker(tmp_path, names, broker_name=new_name("mortal"), configuration=SETTINGS)
    queue = Queue(topic, broker.broker_name, 0)
    delays_ms = {b"delivered": 1_000, b"by level": 3_000, b"timer": 5_000}
    properties = {
        b"delivered": {"DELAY": "1"},
        b"by level": {"DELAY": "5"},
        b"timer": {"TIMER_DELAY_SEC": "5"},
    }
    with broker:
        create_topic(broker.address, topic)
        with JavaProducer(java_5, names, new_name("producers")) as producer:
            for body, asked in properties.items():
                producer.send(Outgoing(topic, body, properties=asked), queue)
        with JavaPullConsumer(java_5, names, new_name("pullers")) as puller:
            pull_all(puller, queue, 1)
        broker.kill()
        broker.start()
        # A new client: an old one would try its dead connection first.
        with JavaPullConsumer(java_5, names, new_name("pullers")) as puller:
            messages = pull_all(puller, queue, len(delays_ms))
            while set(bodies(messages)) != delays_ms.keys():
                messages = pull_all(puller, queue, len(messages) + 1)
    for message in messages:
        assert message.store_timestamp - message.born_timestamp >= delays_ms[message.body]


@pytest.mark.parametrize(
    "is_ours_first",
    [
        pytest.param(False, id="from Apache's"),
        pytest.param(
            True,
            id="from ours",
            marks=pytest.mark.full(
                "a delay longer than a start; other stores go back in both gates"
            ),
        ),
    ],
)
def test_a_broker_that_takes_over_a_directory_delivers_waiting_messages(
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    name_server: OurNameServer,
    new_name: NewName,
    tmp_path: Path,
    is_ours_first: bool,
) -> None:
    java = java_drivers(ApacheVersion.V4_9_7)
    names = name_server.address
    name, topic = new_name("heir"), new_name("topic")
    levels = {"messageDelayLevel": "1s 15s"}
    theirs = ApacheBroker(
        ApacheVersion.V4_9_7, tmp_path / "theirs", names, broker_name=name, configuration=levels
    )
    ours = OurBroker(tmp_path / "ours", names, broker_name=name, configuration=levels)
    ours.store_directory = theirs.store_directory
    first, heir = (ours, theirs) if is_ours_first else (theirs, ours)
    queue = Queue(topic, name, 0)
    first.start()
    create_topic(first.address, topic)
    with JavaProducer(java, names, new_name("producers")) as producer:
        for body, level in ((b"delivered", "1"), (b"waits", "2")):
            producer.send(Outgoing(topic, body, properties={"DELAY": level}), queue)
    with JavaPullConsumer(java, names, new_name("pullers")) as puller:
        pull_all(puller, queue, 1)
    first.stop()
    heir.start()
    try:
        with JavaPullConsumer(java, names, new_name("pullers")) as puller:
            messages = pull_all(puller, queue, 2)
    finally:
        heir.stop()
    assert bodies(messages) == [b"delivered", b"waits"]
    assert messages[1].store_timestamp - messages[1].born_timestamp >= 15_000


@pytest.mark.full("waits for two brokers' timers; other stores change hands in both gates")
def test_timers_that_a_5_x_broker_left_behind_are_delivered_and_its_delivered_ones_are_not(
    java_5: JavaDriver, name_server: OurNameServer, new_name: NewName, tmp_path: Path
) -> None:
    names = name_server.address
    name, topic = new_name("heir"), new_name("topic")
    theirs = ApacheBroker(
        ApacheVersion.V5_5_0,
        tmp_path / "theirs",
        names,
        broker_name=name,
        configuration={"timerWheelEnable": "true"},
    )
    ours = OurBroker(tmp_path / "ours", names, broker_name=name)
    ours.store_directory = theirs.store_directory
    queue = Queue(topic, name, 0)
    theirs.start()
    create_topic(theirs.address, topic)
    with JavaProducer(java_5, names, new_name("producers")) as producer:
        for body, delay_s in ((b"delivered", "1"), (b"waits", "25")):
            timer = {"TIMER_DELAY_SEC": delay_s}
            producer.send(Outgoing(topic, body, properties=timer), queue)
    with JavaPullConsumer(java_5, names, new_name("pullers")) as puller:
        pull_all(puller, queue, 1)
    theirs.stop()
    with ours, JavaPullConsumer(java_5, names, new_name("pullers")) as puller:
        messages = pull_all(puller, queue, 2)
    assert bodies(messages) == [b"delivered", b"waits"]
    assert messages[1].store_timestamp - messages[1].born_timestamp >= 25_000
