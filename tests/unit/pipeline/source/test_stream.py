"""What a stream answers when Spark asks, at a real broker and without Spark.

Spark asks in ways that lose messages if none thinks of it; each claim here is one of them.
"""

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from roquet import Admin, Credentials, Message, Producer, QueueRef, TopicReader, TopicSettings
from roquet.client.errors import NoNameServer, RequestRefused, TopicNotFound, Unreachable
from roquet.pipeline import connections
from roquet.pipeline.data_sources import RocketmqDataSource
from roquet.pipeline.errors import BadOption
from roquet.pipeline.source.stream import QueueState, StreamReader, find_loss
from roquet.testing.blocking import BlockingCluster
from tests.support.accounts import ADMIN, LIAR, TOPIC, Signer, accounts_file
from tests.support.raising import raises

QUEUE_COUNT = 2
ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as running:
        yield running


@pytest.fixture(scope="module")
def producer(cluster: BlockingCluster) -> Iterator[Producer]:
    with Producer(cluster.name_server, "senders") as producer:
        yield producer


@pytest.fixture
def topic(cluster: BlockingCluster) -> str:
    return cluster.new_topic(queues=QUEUE_COUNT)


def stream(cluster: BlockingCluster, topic: str, **more: str) -> StreamReader:
    source = RocketmqDataSource({"nameServer": cluster.name_server, "topic": topic} | more)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def send(producer: Producer, topic: str, *numbers: int, queue_id: int = 0) -> None:
    queue = QueueRef(topic, "broker-a", queue_id)
    for number in numbers:
        producer.send(Message(topic, b"%d" % number), queue=queue)


def latest(reader: StreamReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    """What Spark gets to see of it: its text."""
    answer: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return answer


def batches(
    reader: StreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[pa.RecordBatch]:
    """By tasks, which get the reader and their partition by pickle."""
    planned = pickle.loads(pickle.dumps((reader, reader.partitions(start, end))))  # noqa: S301
    in_task, partitions = planned
    return [batch for each in partitions for batch in in_task.read(each)]


def numbers(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found = batches(reader, start, end)
    return sorted(int(body) for batch in found for body in batch.column("body").to_pylist())


def test_the_initial_offset_stays_the_same_however_often_it_is_asked(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    reader = stream(cluster, topic)
    first = reader.initialOffset()
    send(producer, topic, 1)
    assert reader.initialOffset() == first


def test_a_first_batch_that_is_planned_again_after_a_restart_starts_where_it_started(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, 1)
    reader = stream(cluster, topic)
    start = reader.initialOffset()
    send(producer, topic, 2, 3)
    end = latest(reader, start)
    # The query dies before it is finished. Its offset is written down, its initial one is not.
    restarted = stream(cluster, topic)
    asked_again = restarted.initialOffset()
    assert asked_again != start
    assert numbers(restarted, asked_again, end) == [2, 3]


def test_nothing_new_is_the_same_offset_to_the_letter(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, 1, 2)
    reader = stream(cluster, topic, startingOffsets="earliest")
    end = latest(reader, reader.initialOffset())
    again = latest(stream(cluster, topic, startingOffsets="earliest"), end)
    assert json.dumps(again) == json.dumps(end)
    assert reader.partitions(end, again) == []


def test_offsets_of_a_group_follow_what_is_finished_although_the_last_commit_never_comes(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, 1, 2, 3)
    reader = stream(cluster, topic, startingOffsets="earliest", groupId=f"{topic}-query")
    queues = [QueueRef(topic, "broker-a", queue_id) for queue_id in range(QUEUE_COUNT)]
    end = latest(reader, reader.initialOffset())
    with TopicReader(cluster.name_server) as plain:
        assert plain.committed(f"{topic}-query", queues)[queues[0]] != 3
        # Spark asks once more, and says by it that the batch is finished.
        latest(reader, end)
        assert plain.committed(f"{topic}-query", queues)[queues[0]] == 3


def test_rows_are_arrow_batches_of_exactly_the_types_that_spark_expects(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, 1)
    source = RocketmqDataSource({"nameServer": cluster.name_server, "topic": topic})
    reader = stream(cluster, topic, startingOffsets="earliest")
    start = reader.initialOffset()
    (batch,) = batches(reader, start, latest(reader, start))
    assert isinstance(batch, pa.RecordBatch)
    # Spark writes times as UTC, whatever its session says.
    expected = to_arrow_schema(source.schema(), timezone="UTC")
    assert batch.schema.names == expected.names
    assert batch.schema.types == expected.types


def test_replies_of_small_pulls_are_combined_before_they_are_decoded(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    queue = QueueRef(topic, "broker-a", 0)
    for start in range(0, 10_000, 1000):
        bodies = [b"%d" % number for number in range(start, start + 1000)]
        producer.send_batch([Message(topic, body) for body in bodies], queue=queue)
    reader = stream(cluster, topic, startingOffsets="earliest")
    begin = reader.initialOffset()
    sizes = [batch.num_rows for batch in batches(reader, begin, latest(reader, begin))]
    assert sum(sizes) == 10_000
    assert max(sizes) >= 1024


def test_a_broker_that_is_away_keeps_its_queues_and_ends_nothing(
    producer: Producer,
) -> None:
    with BlockingCluster(brokers=2) as cluster, Producer(cluster.name_server, "s") as sender:
        topic = cluster.new_topic(queues=1)
        near, far = (QueueRef(topic, name, 0) for name in cluster.broker_names)
        for queue in (near, far):
            sender.send(Message(topic, b"1"), queue=queue)
        reader = stream(cluster, topic, startingOffsets="earliest", retryTimeout="200ms")
        start = reader.initialOffset()
        cluster.stop_broker(far.broker_name)
        end = latest(reader, start)
        assert end["q"][f"{topic}@{near.broker_name}@0"] == 1
        assert end["q"][f"{topic}@{far.broker_name}@0"] == 0
        cluster.start_broker(far.broker_name)
        assert numbers(reader, end, latest(reader, end)) == [1]


def test_what_was_available_is_not_finished_while_its_broker_is_away() -> None:
    """A query that reads what is available now ends when there is nothing more, and ends well."""
    with BlockingCluster(brokers=2) as cluster, Producer(cluster.name_server, "s") as sender:
        topic = cluster.new_topic(queues=1)
        far = QueueRef(topic, cluster.broker_names[1], 0)
        sender.send(Message(topic, b"1"), queue=far)
        reader = stream(cluster, topic, startingOffsets="earliest", retryTimeout="200ms")
        start = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        cluster.stop_broker(far.broker_name)
        with pytest.raises(Unreachable):
            reader.latestOffset(start, ALL)
        cluster.start_broker(far.broker_name)
        assert numbers(reader, start, latest(reader, start)) == [1]


def test_what_is_available_now_is_that_of_brokers_which_answer_but_not_of_none() -> None:
    with BlockingCluster(brokers=2) as cluster, Producer(cluster.name_server, "s") as sender:
        topic = cluster.new_topic(queues=1)
        near, far = (QueueRef(topic, name, 0) for name in cluster.broker_names)
        for queue in (near, far):
            sender.send(Message(topic, b"1"), queue=queue)
        reader = stream(cluster, topic, startingOffsets="earliest", retryTimeout="200ms")
        start = reader.initialOffset()
        cluster.stop_broker(far.broker_name)
        reader.prepareForTriggerAvailableNow()
        end = latest(reader, start)
        assert numbers(reader, start, end) == [1]
        assert latest(reader, end) == end
        cluster.stop_broker(near.broker_name)
        with pytest.raises((Unreachable, TopicNotFound)):
            reader.prepareForTriggerAvailableNow()


def signed_stream(cluster: BlockingCluster, signer: Signer) -> StreamReader:
    keys = {"accessKey": signer.access_key, "secretKey": signer.secret_key}
    return stream(cluster, TOPIC, startingOffsets="earliest", **keys)


def test_a_refused_reader_fails_at_once_and_also_in_the_middle(tmp_path: Path) -> None:
    """Such a broker is not away: it would be waited for in vain, and without a word."""
    access = {"aclEnable": "true", "aclFile": str(accounts_file(tmp_path))}
    with BlockingCluster(settings=access) as cluster:
        with Admin(cluster.name_server, credentials=Credentials(*ADMIN)) as admin:
            admin.create_topic(TOPIC, TopicSettings(read_queue_count=1, write_queue_count=1))
        reader = signed_stream(cluster, ADMIN)
        finished = latest(reader, reader.initialOffset())
        with pytest.raises(RequestRefused):
            signed_stream(cluster, LIAR).initialOffset()
        again = signed_stream(cluster, LIAR)
        with pytest.raises(RequestRefused):
            again.prepareForTriggerAvailableNow()
        with pytest.raises(RequestRefused):
            again.latestOffset(finished, ALL)


def test_a_topic_without_a_broker_is_not_waited_for_longer_than_for_a_restart(
    cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MISSING_GRACE", timedelta(milliseconds=200))
    with pytest.raises(TopicNotFound):
        stream(cluster, "misspelt").initialOffset()
    # Spark calls this one first, if it does.
    with pytest.raises(TopicNotFound):
        stream(cluster, "misspelt").prepareForTriggerAvailableNow()


def test_a_stream_that_starts_while_its_broker_restarts_waits_for_it() -> None:
    with BlockingCluster() as cluster:
        topic = cluster.new_topic(queues=1)
        reader = stream(cluster, topic, startingOffsets="earliest")
        cluster.stop_broker()
        with ThreadPoolExecutor(1) as pool:
            start = pool.submit(reader.initialOffset)
            with pytest.raises(TimeoutError):
                start.result(0.3)
            cluster.start_broker()
            assert start.result(30)["q"] == {f"{topic}@broker-a@0": 0}


@pytest.mark.parametrize("chosen", ["topics", "topicPattern"])
def test_a_deleted_topic_does_not_end_a_stream_over_others(
    cluster: BlockingCluster, producer: Producer, chosen: str
) -> None:
    kept, deleted = (cluster.new_topic(queues=QUEUE_COUNT) for _ in range(2))
    send(producer, kept, 1)
    send(producer, deleted, 2)
    source = RocketmqDataSource(
        {
            "nameServer": cluster.name_server,
            chosen: f"{kept},{deleted}" if chosen == "topics" else f"{kept}|{deleted}",
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "retryTimeout": "300ms",
        }
    )
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    start = reader.initialOffset()
    planned = latest(reader, start)
    with Admin(cluster.name_server) as admin:
        admin.delete_topic(deleted)
    send(producer, kept, 3)
    # The batch that was planned before, and the next one.
    assert numbers(reader, start, planned) == [1]
    end = latest(reader, planned)
    assert numbers(reader, planned, end) == [3]
    # Its offsets stay, for a topic of that name may be created again.
    assert f"{deleted}@broker-a@0" in end["q"]
    reader.prepareForTriggerAvailableNow()
    assert latest(reader, end) == end


def test_a_name_server_that_is_away_is_asked_again_and_not_for_ever() -> None:
    with BlockingCluster() as cluster:
        topic = cluster.new_topic(queues=1)
        reader = stream(cluster, topic, retryTimeout="200ms")
        cluster.stop_name_server()
        with pytest.raises(NoNameServer):
            reader.initialOffset()


def test_a_limit_is_kept_and_all_that_is_available_wins_over_it(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, *range(10))
    reader = stream(cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert len(numbers(reader, start, latest(reader, start, limit))) == 4
    assert len(numbers(reader, start, latest(reader, start, ALL))) == 10


def test_what_is_available_now_does_not_grow(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, 1, 2)
    reader = stream(cluster, topic, startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    send(producer, topic, 3)
    end = latest(reader, start)
    assert numbers(reader, start, end) == [1, 2]
    assert latest(reader, end) == end


def test_progress_shows_the_lag_of_a_query(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    reader = stream(cluster, topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert reader.reportLatestOffset() is None
    send(producer, topic, *range(7))
    send(producer, topic, *range(3), queue_id=1)
    limited = stream(cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    latest(limited, start, limited.getDefaultReadLimit())
    shown = limited.reportLatestOffset()
    assert shown is not None
    assert shown["q"] == {f"{topic}@broker-a@0": 7, f"{topic}@broker-a@1": 3}
    assert shown["lag"] == 6 == sum(shown["behind"].values())


# What is chosen.


def test_only_the_queues_that_are_named_are_read(
    cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    send(producer, topic, 1, 2, queue_id=0)
    send(producer, topic, 3, queue_id=1)
    chosen = json.dumps({topic: {"broker-a": [1]}})
    reader = stream(cluster, topic, startingOffsets="earliest", queues=chosen)
    start = reader.initialOffset()
    end = latest(reader, start)
    assert end["q"] == {f"{topic}@broker-a@1": 1}


def test_a_queue_that_is_named_and_not_there_is_refused(
    cluster: BlockingCluster, topic: str
) -> None:
    chosen = json.dumps({topic: {"broker-a": [0, QUEUE_COUNT]}})
    with pytest.raises(BadOption, match=rf"'queues': .* {topic}@broker-a@{QUEUE_COUNT}$"):
        stream(cluster, topic, queues=chosen).initialOffset()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("endingOffsets", "latest"),
        ("endingTimestamp", "1700000000000"),
        ("endingOffsetsByTimestamp", '{"orders": {"broker-a": {"0": 1}}}'),
    ],
)
def test_an_end_is_refused(cluster: BlockingCluster, topic: str, option: str, value: str) -> None:
    with raises(BadOption, name=option):
        stream(cluster, topic, **{option: value})


QUEUE = QueueRef("orders", "broker-a", 0)
SEEN_FIRST, SEEN_BORN_MS = 10, 1_700_000_000_000


@pytest.mark.parametrize(
    ("position", "now"),
    [
        (50, QueueState(10, 90, SEEN_BORN_MS)),
        (50, QueueState(50, 90, SEEN_BORN_MS + 5000)),  # older ones expired, none that is needed
        (50, QueueState(10, 50, SEEN_BORN_MS)),
        (50, QueueState(10, 90, None)),  # a broker that does not say
    ],
)
def test_what_is_still_there_is_no_loss(position: int, now: QueueState) -> None:
    assert find_loss(QUEUE, position, SEEN_FIRST, SEEN_BORN_MS, now) is None


@pytest.mark.parametrize(
    ("position", "now", "says", "resume"),
    [
        (50, QueueState(60, 90, SEEN_BORN_MS + 5000), "expired", 60),
        (50, QueueState(0, 20, SEEN_BORN_MS), "its broker lost messages", 0),
        # With more messages than the old one had: only its age tells.
        (50, QueueState(0, 90, SEEN_BORN_MS + 5000), "deleted and created again", 0),
    ],
)
def test_a_loss_is_found_and_says_where_to_continue(
    position: int, now: QueueState, says: str, resume: int
) -> None:
    loss = find_loss(QUEUE, position, SEEN_FIRST, SEEN_BORN_MS, now)
    assert loss is not None
    assert says in loss.reason
    assert loss.resume == resume
