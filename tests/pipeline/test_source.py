"""Format `rocketmq` for reading: what was sent is what is read, in batch and as a stream."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from roquet import Admin, Message, Producer, QueueRef, TopicReader, TopicSettings
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.spark_streams import run_available
from tests.support.spark_workers import started

Read = Callable[..., DataFrame]


@pytest.fixture
def producer(cluster: BlockingCluster) -> Iterator[Producer]:
    with Producer(cluster.name_server, "senders") as producer:
        yield producer


@pytest.fixture
def reader(cluster: BlockingCluster) -> Iterator[TopicReader]:
    with TopicReader(cluster.name_server) as reader:
        yield reader


@pytest.fixture
def topic(cluster: BlockingCluster) -> str:
    return cluster.new_topic(queues=3)


@pytest.fixture
def read(spark: SparkSession, cluster: BlockingCluster, topic: str) -> Read:
    def load(**options: str) -> DataFrame:
        return (
            spark.read.format("rocketmq")
            .option("nameServer", cluster.name_server)
            .options(**({"topic": topic} | options))
            .load()
        )

    return load


def workload(topic: str, count: int) -> list[Message]:
    """Every kind of plain message: with and without tags, keys, properties; small and packed."""
    return [
        Message(
            topic,
            b"x" * 5000 + b"%d" % number if number % 17 == 0 else b"%d" % number,
            tags=("Aa", "BB", None)[number % 3],
            keys=(f"key-{number}",) if number % 2 else (),
            properties={"price": str(number), "größe": "ß"} if number % 5 else {},
        )
        for number in range(count)
    ]


def scalar_rows(reader: TopicReader, topic: str) -> list[tuple[Any, ...]]:
    """The same messages, read one by one without Spark."""
    rows = []
    for queue, (start, end) in reader.bounds(reader.queues(topic)).items():
        for chunk in reader.records(queue, start, end):
            for stored in split_records(chunk.data):
                body = stored.decompressed_body()
                rows.append(scalar_row(queue, replace(stored, body=body)))
    return sorted(rows)


def scalar_row(queue: QueueRef, message: StoredMessage) -> tuple[Any, ...]:
    return (
        message.topic,
        queue.broker_name,
        message.queue_id,
        message.queue_offset,
        message.properties.get("TAGS") or "",
        message.properties.get("KEYS") or "",
        message.body,
        message.message_id,
        message.offset_id,
        message.physical_offset,
        message.properties,
    )


def spark_row(row: Row) -> tuple[Any, ...]:
    return (
        row.topic,
        row.brokerName,
        row.queueId,
        row.queueOffset,
        row.tags or "",
        row["keys"] or "",
        bytes(row.body),
        row.msgId,
        row.offsetMsgId,
        row.physicalOffset,
        row.properties,
    )


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())


def test_a_batch_reads_what_was_sent(
    read: Read, producer: Producer, reader: TopicReader, topic: str
) -> None:
    producer.send_many(workload(topic, 300))
    producer.send_batch([Message(topic, b"together-%d" % number) for number in range(20)])
    rows = sorted(map(spark_row, read().collect()))
    assert len(rows) == 320
    assert rows == scalar_rows(reader, topic)


def test_a_dataframe_gives_the_same_rows_however_often_it_is_counted(
    read: Read, producer: Producer, topic: str
) -> None:
    producer.send_many(workload(topic, 50))
    frame = read(minPartitions="7")
    assert frame.count() == 50
    producer.send_many(workload(topic, 50))
    assert frame.count() == 50
    assert read().count() == 100


def test_a_topic_without_messages_is_a_dataframe_without_rows(read: Read) -> None:
    assert read().collect() == []


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_tags_with_equal_hashes_are_distinguished(
    read: Read, producer: Producer, topic: str
) -> None:
    producer.send_many(workload(topic, 90))
    assert {row.tags for row in read(tagExpression="Aa").collect()} == {"Aa"}
    assert read(tagExpression="Aa").count() == 30


def test_a_schema_that_names_some_columns_gets_those(
    spark: SparkSession, cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"one", tags="a"))
    frame = (
        spark.read.schema("tags string, body binary")
        .format("rocketmq")
        .options(nameServer=cluster.name_server, topic=topic)
        .load()
    )
    assert [(row.tags, bytes(row.body)) for row in frame.collect()] == [("a", b"one")]


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_properties_are_a_map_a_text_or_nothing(read: Read, producer: Producer, topic: str) -> None:
    producer.send(Message(topic, b"one", properties={"price": "3"}))
    assert read().first().properties["price"] == "3"  # type: ignore[union-attr]
    assert "price\x013" in read(properties="string").first().properties  # type: ignore[union-attr]
    assert "properties" not in read(properties="none").columns


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_range_is_given_by_offsets(read: Read, producer: Producer, topic: str) -> None:
    queue = QueueRef(topic, "broker-a", 1)
    for number in range(10):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    start = f'{{"{topic}": {{"broker-a": {{"1": 3}}}}}}'
    end = f'{{"{topic}": {{"broker-a": {{"1": 7}}}}}}'
    assert bodies(read(startingOffsets=start, endingOffsets=end)) == [b"3", b"4", b"5", b"6"]


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_range_is_given_by_times(
    read: Read, cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"early"))
    cluster.clock.advance(timedelta(hours=1))
    middle = datetime.now(UTC) + timedelta(minutes=30)
    producer.send(Message(topic, b"late"))
    assert bodies(read(startingTimestamp=middle.isoformat())) == [b"late"]
    assert bodies(read(endingTimestamp=middle.isoformat())) == [b"early"]


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_range_starts_where_a_group_is(
    read: Read, producer: Producer, reader: TopicReader, topic: str
) -> None:
    queue = QueueRef(topic, "broker-a", 0)
    for number in range(5):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    reader.commit("billing", {queue: 3})
    assert bodies(read(startingOffsets="group", groupId="billing")) == [b"3", b"4"]


def test_sql_alone_is_enough(
    spark: SparkSession, cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"one", tags="a"))
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING rocketmq"
        f" OPTIONS (nameServer '{cluster.name_server}', topic '{topic}')"
    )
    assert spark.sql("SELECT tags FROM orders").collect() == [Row(tags="a")]


@pytest.mark.full("what unit tests show without Spark, once more through it")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topik": "x"}, "option 'topik': unknown option; did you mean 'topic'"),
        ({"startingOffsets": "soon"}, "option 'startingOffsets': 'soon': expected earliest"),
        ({"tagExpression": "a", "sqlExpression": "b = 1"}, "give either this or 'sqlExpression'"),
    ],
)
def test_a_wrong_option_is_reported_by_name(read: Read, options: dict[str, str], says: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        read(**options)
    assert says in str(raised.value)


def test_a_topic_without_a_broker_is_reported_by_name(read: Read) -> None:
    with pytest.raises(PySparkException, match="no broker has it"):
        read(topic="nobodys", retryTimeout="1s").count()


# Streams


Stream = Callable[..., DataFrame]


@pytest.fixture
def stream(spark: SparkSession, cluster: BlockingCluster, topic: str) -> Stream:
    def load(**options: str | None) -> DataFrame:
        """An option that is None is left out."""
        given = {"topic": topic, "startingOffsets": "earliest"} | options
        return (
            spark.readStream.format("rocketmq")
            .option("nameServer", cluster.name_server)
            .options(**{name: value for name, value in given.items() if value is not None})
            .load()
        )

    return load


def test_a_stream_reads_everything_once_over_restarts(
    stream: Stream, producer: Producer, topic: str, tmp_path: Path
) -> None:
    producer.send_many(workload(topic, 100))
    first = run_available(stream(maxOffsetsPerTrigger="40"), tmp_path / "checkpoint")
    assert [len(batch) for batch in first] == [40, 40, 20]
    producer.send_many([Message(topic, b"later-%d" % number) for number in range(10)])
    second = run_available(stream(), tmp_path / "checkpoint")
    rows = [row for batch in (*first, *second) for row in batch]
    assert len(rows) == 110
    assert len({(row.queueId, row.queueOffset) for row in rows}) == 110


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_tools_see_how_far_a_query_is(
    stream: Stream, cluster: BlockingCluster, producer: Producer, topic: str, tmp_path: Path
) -> None:
    producer.send_many(workload(topic, 30))
    run_available(stream(groupId="query"), tmp_path / "checkpoint")
    with Admin(cluster.name_server) as admin:
        queues = [each for each in admin.progress("query").queues if each.queue.topic == topic]
    assert sum(each.lag or 0 for each in queues) == 0
    assert sum(each.consumer_offset or 0 for each in queues) == 30


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_queues_that_appear_later_are_read_from_their_first_message(
    stream: Stream, cluster: BlockingCluster, producer: Producer, topic: str, tmp_path: Path
) -> None:
    producer.send(Message(topic, b"old"))
    options = {"startingOffsets": "latest"}
    assert run_available(stream(**options), tmp_path / "checkpoint") in ([], [[]])
    with Admin(cluster.name_server) as admin:
        admin.create_topic(topic, TopicSettings(read_queue_count=4, write_queue_count=4))
    producer.send(Message(topic, b"new"), queue=QueueRef(topic, "broker-a", 3))
    rows = run_available(stream(**options), tmp_path / "checkpoint")
    assert [bytes(row.body) for batch in rows for row in batch] == [b"new"]


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_topic_that_was_created_again_is_noticed(
    stream: Stream, cluster: BlockingCluster, producer: Producer, topic: str, tmp_path: Path
) -> None:
    queue = QueueRef(topic, "broker-a", 0)
    producer.send(Message(topic, b"old"), queue=queue)
    run_available(stream(), tmp_path / "checkpoint")
    with Admin(cluster.name_server) as admin:
        admin.delete_topic(topic)
        cluster.clock.advance(timedelta(seconds=10))
        admin.create_topic(topic, TopicSettings(read_queue_count=3, write_queue_count=3))
    for number in range(3):
        producer.send(Message(topic, b"new-%d" % number), queue=queue)
    with pytest.raises(PySparkException, match="was deleted and created again"):
        run_available(stream(), tmp_path / "checkpoint")
    rows = run_available(stream(failOnDataLoss="false"), tmp_path / "checkpoint")
    assert [bytes(row.body) for batch in rows for row in batch] == [b"new-0", b"new-1", b"new-2"]


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_running_stream_continues_when_one_of_its_topics_is_deleted_and_created_again(
    stream: Stream, cluster: BlockingCluster, producer: Producer, topic: str, tmp_path: Path
) -> None:
    kept = cluster.new_topic(queues=1)
    found: set[bytes] = set()

    def keep(rows: DataFrame, _: int) -> None:
        found.update(bytes(row.body) for row in rows.select("body").collect())

    def send(to: str, body: bytes) -> None:
        producer.send(Message(to, body))
        wait_until(lambda: body in found or not query.isActive, 120)
        assert body in found, query.exception()

    both = stream(topic=None, topics=f"{topic},{kept}", failOnDataLoss="false", retryTimeout="2s")
    writer = both.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "c"))
    query = started(writer.start)
    try:
        send(topic, b"old")
        send(kept, b"kept")
        with Admin(cluster.name_server) as admin:
            admin.delete_topic(topic)
            send(kept, b"kept without the other")
            cluster.clock.advance(timedelta(seconds=10))
            admin.create_topic(topic, TopicSettings(read_queue_count=2, write_queue_count=2))
        send(topic, b"new")
        send(kept, b"kept beside a new one")
        assert query.isActive
    finally:
        query.stop()
    assert len(found) == 5
