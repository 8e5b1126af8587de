"""Our topic reader at Apache's brokers and at ours: one contract, with the limits brokers have."""

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from roquet import (
    Admin,
    Message,
    Producer,
    QueueRef,
    RecordChunk,
    TopicReader,
    TransactionProducer,
    TransactionState,
)
from roquet.client.errors import OffsetsGone
from roquet.client.group.subscriptions import subscription_of
from roquet.client.reader.reader import ALL
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.protocol.subscription import Subscription
from tests.support.apache import ApacheBroker, ApacheNameServer
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
NewQueue = Callable[[], QueueRef]

TIMEOUT_S = 20.0


@pytest.fixture
def admin(server: ClientServer) -> Iterator[Admin]:
    with Admin(server.name_server) as admin:
        yield admin


@pytest.fixture
def reader(server: ClientServer) -> Iterator[TopicReader]:
    with TopicReader(server.name_server, timeout_s=TIMEOUT_S) as reader:
        yield reader


@pytest.fixture
def producer(server: ClientServer, new_name: NewName) -> Iterator[Producer]:
    with Producer(server.name_server, new_name("producers")) as producer:
        yield producer


@pytest.fixture
def new_queue(server: ClientServer, reader: TopicReader, new_name: NewName) -> NewQueue:
    """Makes topics of one queue."""

    def make() -> QueueRef:
        topic = new_name("topic")
        create_topic(server.broker, topic, 1)
        (queue,) = reader.queues(topic)
        return queue

    return make


def send(
    producer: Producer, queue: QueueRef, count: int, tags: Sequence[str] = ("red", "blue")
) -> None:
    """As few requests as possible, with all that a body, tags and properties may be."""
    texts = [
        f"UNIQ_KEY\x01{number:032X}\x02n\x01{number}\x02TAGS\x01{tags[number % len(tags)]}"
        for number in range(count)
    ]
    items = [(0, b"%d" % number, text.encode()) for number, text in enumerate(texts)]
    for start in range(0, count, 500):
        part = items[start : start + 500]
        receipt = producer.send_encoded(
            queue.topic, encode_batch(part), len(part), queue=queue, timeout_s=TIMEOUT_S
        )
        assert (receipt.queue, receipt.first_offset) == (queue, start)


def read(
    reader: TopicReader,
    queue: QueueRef,
    start: int,
    end: int,
    subscription: Subscription = ALL,
) -> list[RecordChunk]:
    return list(reader.records(queue, start, end, subscription=subscription))


def messages(chunks: Sequence[RecordChunk]) -> list[StoredMessage]:
    return [message for chunk in chunks for message in split_records(chunk.data)]


def numbers(chunks: Sequence[RecordChunk]) -> list[int]:
    return [int(message.body) for message in messages(chunks)]


def wait_for_end(reader: TopicReader, queue: QueueRef, end: int) -> None:
    """Apache's queues follow their log a little later."""
    wait_until(lambda: reader.bounds([queue])[queue] == (0, end))


def test_a_range_comes_whole_and_in_order(
    reader: TopicReader, producer: Producer, new_queue: NewQueue
) -> None:
    queue = new_queue()
    send(producer, queue, 3000)
    wait_for_end(reader, queue, 3000)
    chunks = read(reader, queue, 7, 2990)
    assert numbers(chunks) == list(range(7, 2990))
    assert (chunks[0].start_offset, chunks[-1].next_offset) == (7, 2990)
    assert [each.queue_offset for each in messages(chunks)] == list(range(7, 2990))


def test_a_range_that_is_on_disk_comes_whole(
    server: ClientServer,
    reader: TopicReader,
    producer: Producer,
    new_queue: NewQueue,
    admin: Admin,
) -> None:
    """Where stock brokers give 8 messages a pull."""
    queue = new_queue()
    send(producer, queue, 1000)
    wait_for_end(reader, queue, 1000)
    nothing_in_memory = "0" if server.is_apache else "1"
    admin.update_broker_config(server.broker, {"accessMessageInMemoryMaxRatio": nothing_in_memory})
    try:
        assert numbers(read(reader, queue, 0, 1000)) == list(range(1000))
    finally:
        admin.update_broker_config(server.broker, {"accessMessageInMemoryMaxRatio": "40"})


def test_tags_with_equal_hashes_are_distinguished(
    reader: TopicReader, producer: Producer, new_queue: NewQueue
) -> None:
    queue = new_queue()
    send(producer, queue, 2000, tags=("Aa", "BB", "x", "y", "z"))
    wait_for_end(reader, queue, 2000)
    chunks = read(reader, queue, 10, 1990, subscription_of(queue.topic, tags="Aa || C"))
    assert numbers(chunks) == list(range(10, 1990, 5))
    assert chunks[-1].next_offset == 1990


def test_expressions_pick_messages(
    server: ClientServer,
    reader: TopicReader,
    producer: Producer,
    new_queue: NewQueue,
    admin: Admin,
) -> None:
    if not server.is_apache:
        admin.update_broker_config(server.broker, {"enablePropertyFilter": "true"})
    queue = new_queue()
    send(producer, queue, 2000)
    wait_for_end(reader, queue, 2000)
    wanted = subscription_of(queue.topic, sql="TAGS = 'blue' AND n >= 1500")
    assert numbers(read(reader, queue, 0, 2000, wanted)) == list(range(1501, 2000, 2))


def test_topics_and_queues_are_found(
    server: ClientServer, reader: TopicReader, new_name: NewName
) -> None:
    topic = new_name("found")
    create_topic(server.broker, topic, 3)
    assert topic in reader.topics("found-.*")
    assert topic in reader.topics()
    assert reader.topics("foun") == []
    assert [queue.queue_id for queue in reader.queues(topic)] == [0, 1, 2]


def test_the_first_message_of_a_moment_is_found(
    reader: TopicReader, producer: Producer, new_queue: NewQueue
) -> None:
    queue = new_queue()
    for number in range(3):
        # Several with equal times.
        part = [(0, b"%d" % number, b"") for _ in range(20)]
        producer.send_encoded(queue.topic, encode_batch(part), 20, queue=queue, timeout_s=TIMEOUT_S)
        sent_s = time.time()
        wait_until(lambda: time.time() > sent_s + 0.05)  # noqa: B023
    wait_for_end(reader, queue, 60)
    stored = [message.store_timestamp for message in messages(read(reader, queue, 0, 60))]
    for offset in (0, 20, 40):
        moment = datetime.fromtimestamp(stored[offset] / 1000, UTC)
        assert reader.offsets_at([queue], moment) == {queue: offset}
        earlier = moment - timedelta(milliseconds=10)
        assert reader.offsets_at([queue], earlier) == {queue: offset}
    assert reader.offsets_at([queue], datetime.now(UTC) + timedelta(hours=1)) == {queue: 60}
    earliest = reader.earliest_store_times([queue])[queue]
    assert earliest == datetime.fromtimestamp(stored[0] / 1000, UTC)


def test_offsets_of_a_new_group_are_kept_and_seen_by_tools(
    reader: TopicReader, producer: Producer, new_queue: NewQueue, new_name: NewName, admin: Admin
) -> None:
    queue, group = new_queue(), new_name("group")
    send(producer, queue, 10)
    wait_for_end(reader, queue, 10)
    reader.commit(group, {queue: 4})
    assert reader.committed(group, [queue]) == {queue: 4}
    reader.commit(group, {queue: 7})
    (progress,) = [each for each in admin.progress(group).queues if each.queue.topic == queue.topic]
    assert (progress.queue, progress.lag) == (queue, 3)
    # Apache's tools look for it.
    wait_until(lambda: bool(admin.topic_route(f"%RETRY%{group}")))


def test_a_topic_that_was_recreated_is_noticed(
    server: ClientServer, reader: TopicReader, producer: Producer, new_queue: NewQueue, admin: Admin
) -> None:
    if server.is_apache and server.java_version is ApacheVersion.V5_5_0:
        pytest.skip("5.5.0 fails to delete topics while its timers are off, as they are here")
    queue = new_queue()
    send(producer, queue, 50)
    wait_for_end(reader, queue, 50)
    admin.delete_topic(queue.topic)
    create_topic(server.broker, queue.topic, 1)
    wait_until(lambda: reader.bounds([queue])[queue].max_offset == 0)
    with pytest.raises(OffsetsGone) as raised:
        read(reader, queue, 10, 50)
    assert (raised.value.queue, raised.value.wanted) == (queue, (10, 50))


def test_what_one_process_prepares_another_one_ends(
    server: ClientServer, reader: TopicReader, new_queue: NewQueue, new_name: NewName
) -> None:
    queue, group = new_queue(), new_name("sink")

    def undecided(_: object) -> TransactionState:
        return TransactionState.UNKNOWN

    with TransactionProducer(server.name_server, group, check=None) as preparing:
        handles = [
            pickle.dumps(
                preparing.prepare(Message(queue.topic, b"%d" % number), timeout_s=TIMEOUT_S)
            )
            for number in range(6)
        ]
    with TransactionProducer(server.name_server, group, check=undecided) as ending:
        kept = [pickle.loads(handle) for handle in handles[:4]]  # noqa: S301
        dropped = [pickle.loads(handle) for handle in handles[4:]]  # noqa: S301
        assert ending.end(kept, TransactionState.COMMIT, timeout_s=TIMEOUT_S) == []
        assert ending.end(dropped, TransactionState.ROLLBACK, timeout_s=TIMEOUT_S) == []
    wait_for_end(reader, queue, 4)
    assert sorted(numbers(read(reader, queue, 0, 4))) == [0, 1, 2, 3]


@pytest.mark.parametrize("version", ApacheVersion)
def test_reading_goes_on_when_a_broker_comes_back_elsewhere(
    version: ApacheVersion, tmp_path: Path
) -> None:
    count = 20_000
    # Larger files than usual: each one ends a pull.
    larger = {"mapedFileSizeConsumeQueue": "6000000", "mappedFileSizeConsumeQueue": "6000000"}
    with ApacheNameServer(version, tmp_path / "names") as names:
        with (
            ApacheBroker(
                version, tmp_path / "broker", names.address, configuration=larger
            ) as broker,
            Producer(names.address, "producers") as producer,
        ):
            create_topic(broker.address, "orders", 1)
            queue = QueueRef("orders", broker.broker_name, 0)
            send(producer, queue, count)
            reader = TopicReader(names.address, ahead_size=64 * 1024, patience_s=120)
            reader.open()
            wait_for_end(reader, queue, count)
            chunks = reader.records(queue, 0, count)
            found = [next(chunks)]
        with ApacheBroker(version, tmp_path / "broker", names.address, configuration=larger):
            found += chunks
            reader.close()
    assert numbers(found) == list(range(count))
