"""What tasks and drivers do, against a cluster of ours and without Spark."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread, Timer
from typing import Any

import pyarrow as pa
import pytest

from roquet import Message
from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.blocking.reader import TopicReader
from roquet.client.hooks import TransactionState
from roquet.client.producer.queue_choice import queue_of_key
from roquet.client.received import received_messages
from roquet.pipeline.errors import BadRow
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.writing import WriteOptions
from roquet.pipeline.sink import transactions
from roquet.pipeline.sink.delivery import shared_producer
from roquet.pipeline.sink.requests import TaskId
from roquet.pipeline.sink.transactions import (
    Decision,
    Mark,
    TransactionLog,
    answering_producer,
    may_be_readable,
)
from roquet.pipeline.sink.writers import (
    BatchWriter,
    StreamWriter,
    TaskAttempt,
    WriteReport,
    write_rows,
)
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until

TASK = TaskId("query", 7, 0)
FIRST = TaskAttempt(TASK, "run", 0)
SECOND = FIRST._replace(number=1)
MAP = pa.map_(pa.string(), pa.string())
# Of requests; a process has connections for each of them.
HASTY = timedelta(seconds=1)
PATIENT = timedelta(minutes=1)


class TaskFailed(Exception):
    """What ends a task half way."""


@pytest.fixture(scope="module")
def log_directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("transactions"))


@pytest.fixture(scope="module")
def cluster(log_directory: str) -> Iterator[BlockingCluster]:
    """Connections are kept as long as a process, which here is longer than the cluster."""
    with BlockingCluster(brokers=2) as cluster:
        yield cluster
        known = options(cluster)
        for timeout in (known.cluster.request_timeout, HASTY, PATIENT):
            used = replace(known.cluster, request_timeout=timeout)
            shared_producer(used, known.group_id).close()
            answering_producer(used, known.group_id, log_directory).close()
        for cached in (shared_producer, answering_producer):
            cached.cache_clear()


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
    report = write_rows(options(cluster, topic=topic), FIRST, iter([rows]))
    assert report.row_count == 2
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


# Transactional.


@pytest.fixture
def transactional(cluster: BlockingCluster, log_directory: str, topic: str) -> WriteOptions:
    """`topic` is the name of the write, which no other has."""
    given = {"deliveryMode": "transactional", "transactionLog": log_directory, "writeId": topic}
    return options(cluster, **given)


def attempt_of(options: WriteOptions, partition: int = 0) -> TaskAttempt:
    assert options.write_id is not None
    return TaskAttempt(TaskId(options.write_id, 0, partition), "run", 0)


def test_rows_can_be_read_when_the_driver_has_committed(
    cluster: BlockingCluster, topic: str, transactional: WriteOptions
) -> None:
    writer = BatchWriter(transactional)
    reports = [
        write_rows(transactional, attempt_of(transactional, part), iter([rows]))
        for part, rows in enumerate([numbered(topic, 20), numbered(topic, 20, 20)])
    ]
    assert stored(cluster, topic) == []
    writer.commit([*reports])
    assert bodies(stored(cluster, topic)) == [*range(40)]


def test_of_a_batch_that_is_aborted_nothing_can_be_read(
    cluster: BlockingCluster, topic: str, transactional: WriteOptions
) -> None:
    writer = BatchWriter(transactional)
    report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 20)]))
    with pytest.raises(TaskFailed):
        write_rows(transactional, attempt_of(transactional, 1), failing(numbered(topic, 20, 20)))
    writer.abort([report, None])
    # The same write again, as if nothing had been.
    report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 5)]))
    writer.commit([report])
    assert bodies(stored(cluster, topic)) == [*range(5)]


def test_what_was_committed_is_not_sent_again(
    cluster: BlockingCluster, topic: str, transactional: WriteOptions
) -> None:
    for _ in range(3):
        writer = BatchWriter(transactional)
        report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 20)]))
        writer.commit([report])
    assert bodies(stored(cluster, topic)) == [*range(20)]


def test_a_driver_that_dies_after_its_decision_delivers_all_when_it_is_back(
    cluster: BlockingCluster,
    topic: str,
    transactional: WriteOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some messages were delivered before it died; none comes twice."""

    def die(options: WriteOptions, prepared: Sequence[Any]) -> Sequence[Any]:
        end(options, prepared[:7])
        raise TaskFailed

    end = transactions._end
    # What it had on the way is waited for as long.
    hasty = replace(transactional.cluster, request_timeout=HASTY)
    transactional = replace(transactional, cluster=hasty)
    report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 20)]))
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "_end", die)
        with pytest.raises(TaskFailed):
            BatchWriter(transactional).commit([report])
    assert len(stored(cluster, topic)) == 7
    again = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 20)]))
    assert again.row_count == 0
    BatchWriter(transactional).commit([again])
    assert bodies(stored(cluster, topic)) == [*range(20)]


def test_what_a_broker_ends_late_is_not_ended_twice(
    cluster: BlockingCluster,
    topic: str,
    transactional: WriteOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request without an answer in time may wait at a broker that is busy, and one of Apache
    delivers twice what it is reported twice.
    """
    patient = replace(
        transactional, cluster=replace(transactional.cluster, request_timeout=PATIENT)
    )
    late: list[Thread] = []
    told_again: list[Any] = []

    def end_late(options: WriteOptions, prepared: Sequence[Any]) -> Sequence[Any]:
        if late:
            told_again.extend(prepared)
            return end(options, prepared)
        late.append(Timer(0.5, end, (options, prepared)))
        late[0].start()
        return prepared

    end = transactions._end
    report = write_rows(patient, attempt_of(patient), iter([numbered(topic, 20)]))
    monkeypatch.setattr(transactions, "_end", end_late)
    BatchWriter(patient).commit([report])
    late[0].join()
    assert told_again == []
    assert bodies(stored(cluster, topic)) == [*range(20)]


def test_a_write_whose_commit_failed_after_its_decision_is_not_aborted(
    cluster: BlockingCluster, topic: str, transactional: WriteOptions
) -> None:
    """Spark calls `abort` then, with the same reports."""
    writer = BatchWriter(transactional)
    report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 5)]))
    assert transactional.transaction_log is not None
    decision = Decision(frozenset({report.token}), report.prepared)
    TransactionLog(transactional.transaction_log).decide(topic, 0, decision)
    writer.abort([report])
    writer.commit([report])
    assert bodies(stored(cluster, topic)) == [*range(5)]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"tags": ["x", "y\x02"]}, "row 1 of partition 0, column 'tags'"),
        ({"properties": pa.array([[], [("a", None)]], MAP)}, "row 1 .* column 'properties'"),
    ],
)
def test_a_bad_row_is_found_before_a_batch_is_prepared(
    topic: str, transactional: WriteOptions, columns: dict[str, Any], says: str
) -> None:
    rows = batch(topic=[topic] * 2, body=["1", "2"], **columns)
    with pytest.raises(BadRow, match=says):
        write_rows(transactional, attempt_of(transactional), iter([rows]))


@pytest.mark.slow
def test_brokers_that_ask_learn_which_attempts_count(
    cluster: BlockingCluster, topic: str, log_directory: str, transactional: WriteOptions
) -> None:
    """The driver decides, and cannot tell brokers anything."""
    lost = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 9)]))
    wins = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 9)]))
    assert transactional.transaction_log is not None
    log = TransactionLog(transactional.transaction_log)
    log.decide(topic, 0, Decision(frozenset({wins.token}), wins.prepared))
    assert lost.token != wins.token
    driver_died(log_directory)
    ask_until(cluster, lambda: len(stored(cluster, topic)) >= 9)
    found = stored(cluster, topic)
    assert {each.message_id for each in found} == {each.id for each in wins.prepared}
    assert bodies(found) == [*range(9)]


def ask_until(cluster: BlockingCluster, condition: Callable[[], object]) -> None:
    """Brokers ask a minute after their last round is over, which may take a while to be over.

    So a minute passes again when nothing has come of the last one, but not faster than producers
    send their heartbeats, twice a minute: a broker that has heard nothing from them for two of its
    minutes asks them no more.
    """
    looks = count()

    def passes() -> object:
        if next(looks) % 1500 == 0:
            cluster.clock.advance(timedelta(minutes=1))
        return condition()

    wait_until(passes, patience_s=150)


def driver_died(log_directory: str) -> None:
    """Whatever was decided was decided long ago."""
    for path in Path(log_directory).glob("*/*.json"):
        os.utime(path, (0, 0))


@pytest.mark.slow
def test_checks_are_not_answered_while_a_driver_ends_the_message_or_has_ended_it(
    cluster: BlockingCluster,
    topic: str,
    log_directory: str,
    transactional: WriteOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They ask about what is old enough, and those of Apache deliver twice what is sent twice."""
    answers: list[TransactionState] = []

    def noted(log: TransactionLog, mark: Mark) -> TransactionState:
        answers.append(outcome_of(log, mark))
        return answers[-1]

    outcome_of = TransactionLog.outcome_of
    monkeypatch.setattr(TransactionLog, "outcome_of", noted)
    report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 9)]))
    log = TransactionLog(log_directory)
    log.decide(topic, 0, Decision(frozenset({report.token}), report.prepared))
    ask_until(cluster, lambda: answers.count(TransactionState.COMMIT) >= 9)
    assert stored(cluster, topic) == []
    driver_died(log_directory)
    ask_until(cluster, lambda: len(stored(cluster, topic)) == 9)


def test_what_can_be_read_is_known_and_the_unknown_may_be_readable(
    cluster: BlockingCluster, topic: str, transactional: WriteOptions
) -> None:
    report = write_rows(transactional, attempt_of(transactional), iter([numbered(topic, 1)]))
    BatchWriter(transactional).commit([report])
    (found,) = stored(cluster, topic)
    with TopicReader(cluster.name_server) as reader:
        bounds = reader.bounds(reader.queues(topic))
        (message,) = (
            each
            for queue, (start, end) in bounds.items()
            for chunk in reader.records(queue, start, end)
            for each in received_messages(chunk.data, queue)
        )
    assert message.message_id == found.message_id
    known = transactional.cluster, transactional.group_id
    assert may_be_readable(*known, message)
    silent = replace(transactional.cluster, name_server="127.0.0.1:1")
    assert may_be_readable(silent, transactional.group_id, message)
    shared_producer(silent, transactional.group_id).close()


def test_a_stream_learns_from_tasks_which_query_it_is(
    cluster: BlockingCluster, topic: str, transactional: WriteOptions
) -> None:
    given = replace(transactional, write_id=None)
    attempt = TaskAttempt(TaskId(topic, 4, 0), "run", 0)
    report = write_rows(given, attempt, iter([numbered(topic, 3)]))
    StreamWriter(given).abort([report, None], 4)
    assert stored(cluster, topic) == []
    report = write_rows(given, attempt._replace(run_id="next"), iter([numbered(topic, 3)]))
    StreamWriter(given).commit([report], 4)
    assert bodies(stored(cluster, topic)) == [0, 1, 2]


def test_a_write_that_keeps_no_account_has_nothing_to_commit(cluster: BlockingCluster) -> None:
    report = WriteReport("write", "run", "token")
    BatchWriter(options(cluster)).commit([report])
    BatchWriter(options(cluster)).abort([report, None])
    StreamWriter(options(cluster)).commit([], 0)
