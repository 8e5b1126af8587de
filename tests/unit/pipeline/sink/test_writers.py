"""What tasks and drivers do, against a cluster of ours and without Spark."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from roquet import Message
from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.blocking.reader import TopicReader
from roquet.client.producer.queue_choice import queue_of_key
from roquet.pipeline.errors import BadRow
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.writing import WriteOptions
from roquet.pipeline.sink.delivery import shared_producer
from roquet.pipeline.sink.requests import TaskId
from roquet.pipeline.sink.writers import TaskAttempt, write_rows
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until

TASK = TaskId("query", 7, 0)
FIRST = TaskAttempt(TASK, 0)
SECOND = FIRST._replace(number=1)
MAP = pa.map_(pa.string(), pa.string())


class TaskFailed(Exception):
    """What ends a task half way."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    """Connections are kept as long as a process, which here is longer than the cluster."""
    with BlockingCluster(brokers=2) as cluster:
        yield cluster
        known = options(cluster)
        shared_producer(known.cluster, known.group_id).close()
        shared_producer.cache_clear()


@pytest.fixture
def topic(cluster: BlockingCluster) -> str:
    return cluster.new_topic()


def options(cluster: BlockingCluster, **given: str) -> WriteOptions:
    return read_options(WriteOptions, {"nameServer": cluster.name_server} | given)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def numbered(topic: str, count: int, first: int = 0) -> pa.RecordBatch:
    bodies = [str(number) for number in range(first, first + count)]
    return batch(topic=[topic] * count, body=bodies)


def failing(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise TaskFailed


def stored(cluster: BlockingCluster, topic: str) -> list[StoredMessage]:
    with TopicReader(cluster.name_server) as reader:
        bounds = reader.bounds(reader.queues(topic))
        return [
            message
            for queue, (start, end) in bounds.items()
            for chunk in reader.records(queue, start, end)
            for message in split_records(chunk.data)
        ]


def bodies(messages: Sequence[StoredMessage]) -> list[int]:
    return sorted(int(message.body) for message in messages)


# At least once.


def test_all_that_a_row_has_is_in_its_message(cluster: BlockingCluster, topic: str) -> None:
    rows = batch(
        topic=[topic, None],
        body=[b"\x00\xff", b"b"],
        tags=["t", None],
        keys=[["k", "l"], None],
        properties=pa.array([[("a", "b")], None], MAP),
        flag=[5, None],
    )
    count = write_rows(options(cluster, topic=topic), FIRST, iter([rows]))
    assert count == 2
    full, plain = sorted(stored(cluster, topic), key=lambda message: message.body)
    assert (full.body, full.tags, full.keys, full.flag) == (b"\x00\xff", "t", ("k", "l"), 5)
    assert full.properties["a"] == "b"
    assert (plain.body, plain.tags, plain.keys, plain.flag) == (b"b", None, (), 0)
    assert "a" not in plain.properties


def test_rows_go_to_many_topics_in_many_requests(cluster: BlockingCluster) -> None:
    topics = [cluster.new_topic() for _ in range(3)]
    rows = batch(
        topic=[topics[number % 3] for number in range(300)],
        body=[str(number) for number in range(300)],
    )
    write_rows(options(cluster, batchCount="7"), FIRST, iter([rows, rows]))
    for index, topic in enumerate(topics):
        assert bodies(stored(cluster, topic)) == sorted([*range(index, 300, 3)] * 2)


def test_rows_of_a_key_are_in_its_queue_in_their_order(
    cluster: BlockingCluster, topic: str
) -> None:
    def part(first: int) -> pa.RecordBatch:
        numbers = range(first, first + 200)
        keys = [f"key-{number % 9}" for number in numbers]
        return batch(topic=[topic] * 200, body=[str(each) for each in numbers], orderKey=keys)

    given = options(cluster, batchCount="5")
    write_rows(given, FIRST, iter([part(0), part(200)]))
    with Producer(cluster.name_server, "g") as producer:
        queues = producer.queues(topic)
    found: dict[str, list[int]] = {}
    for message in stored(cluster, topic):
        number = int(message.body)
        key = f"key-{number % 9}"
        assert queue_of_key(queues, key).queue_id == message.queue_id
        found.setdefault(key, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert sum(map(len, found.values())) == 400


def test_delayed_rows_come_later(cluster: BlockingCluster, topic: str) -> None:
    rows = batch(topic=[topic] * 2, body=["1", "2"], delayLevel=pa.array([None, 1], pa.int32()))
    write_rows(options(cluster), FIRST, iter([rows]))
    assert bodies(stored(cluster, topic)) == [1]
    cluster.clock.advance(timedelta(seconds=2))
    wait_until(lambda: bodies(stored(cluster, topic)) == [1, 2])


def test_nothing_of_a_batch_is_sent_when_one_of_its_rows_is_bad(
    cluster: BlockingCluster, topic: str
) -> None:
    bad = batch(topic=[topic] * 2, body=["1", None])
    with pytest.raises(BadRow, match="row 1 of partition 0, column 'body'"):
        write_rows(options(cluster), FIRST, iter([bad]))
    assert stored(cluster, topic) == []


def test_a_namespace_is_kept(cluster: BlockingCluster) -> None:
    given = options(cluster, namespace="ns")
    try:
        write_rows(given, FIRST, iter([numbered("spaced", 3)]))
    finally:
        shared_producer(given.cluster, given.group_id).close()
    (first, *_) = stored(cluster, "ns%spaced")
    assert first.properties["INSTANCE_ID"] == "ns"


# Idempotent.


IDEMPOTENT = {"deliveryMode": "idempotent", "idColumn": "body"}


@pytest.mark.slow
def test_a_task_that_is_tried_again_sends_what_is_missing(
    cluster: BlockingCluster, topic: str
) -> None:
    given = options(cluster, **IDEMPOTENT, batchCount="10")
    parts = [numbered(topic, 100, first) for first in (0, 100, 200)]
    with pytest.raises(TaskFailed):
        write_rows(given, FIRST, failing(*parts[:2]))
    assert bodies(stored(cluster, topic))
    write_rows(given, SECOND, iter(parts))
    assert bodies(stored(cluster, topic)) == [*range(300)]
    # And a batch that is replayed as a whole, whose tasks are tried for the first time.
    write_rows(given, FIRST, iter(parts))
    messages = stored(cluster, topic)
    assert bodies(messages) == [*range(300)]
    assert len({message.message_id for message in messages}) == 300


@pytest.mark.slow
def test_a_batch_that_is_repeated_with_another_plan_sends_each_row_once(
    cluster: BlockingCluster, topic: str
) -> None:
    write_rows(options(cluster, **IDEMPOTENT, batchCount="10"), FIRST, iter([numbered(topic, 100)]))
    # More rows, in another order, cut otherwise, in two tasks.
    given = options(cluster, **IDEMPOTENT, batchCount="13")
    shuffled = numbered(topic, 150).take(pa.array(Random(3).sample(range(150), 150)))
    for partition, rows in enumerate([shuffled.slice(0, 40), shuffled.slice(40)]):
        attempt = FIRST._replace(task=FIRST.task._replace(partition=partition))
        write_rows(given, attempt, iter([rows]))
    assert bodies(stored(cluster, topic)) == [*range(150)]
    # Another batch is another one.
    later = FIRST._replace(task=FIRST.task._replace(batch_id=FIRST.task.batch_id + 1))
    write_rows(given, later, iter([numbered(topic, 10)]))
    assert len(stored(cluster, topic)) == 160


def test_a_row_without_an_identity_or_with_that_of_another_is_refused(
    cluster: BlockingCluster, topic: str
) -> None:
    given = options(cluster, deliveryMode="idempotent", idColumn="topic,number")
    for numbers, says in (([1, None], "row 1 .* 'number': null"), ([7, 7], "row 1 .* same value")):
        rows = batch(topic=[topic] * 2, body=["a", "b"], number=pa.array(numbers, pa.int64()))
        with pytest.raises(BadRow, match=says):
            write_rows(given, FIRST, iter([rows]))
    assert stored(cluster, topic) == []


def test_a_message_that_is_not_by_the_sink_does_no_harm(
    cluster: BlockingCluster, topic: str
) -> None:
    with Producer(cluster.name_server, "g") as producer:
        producer.send(Message(topic, b"100"))
    given = options(cluster, **IDEMPOTENT)
    write_rows(given, FIRST, iter([numbered(topic, 10)]))
    assert bodies(stored(cluster, topic)) == [*range(10), 100]


def test_tools_find_a_message_by_the_id_that_the_sink_gave(
    cluster: BlockingCluster, topic: str
) -> None:
    write_rows(options(cluster), FIRST, iter([numbered(topic, 5)]))
    with Admin(cluster.name_server) as admin:
        for message in stored(cluster, topic):
            assert message.message_id is not None
            assert admin.message(topic, message.message_id).body == message.body
