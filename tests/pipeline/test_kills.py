"""Processes that are killed while a query is half way: tasks and brokers, in source and sink.

Executors are killed in `test_cluster.py`, drivers in `test_lake.py` and `test_table_kills.py`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession, functions as F  # noqa: N812

from roquet import Message, Producer, QueueRef, TopicReader
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.spark_gates import Gate, kill_python_workers
from tests.support.spark_workers import with_workers
from tests.support.topics import create_topic

ROW_COUNT = 3000
GATED = 2000
# More than a reader asks for ahead of need: some of it is read after the kill.
LARGE_ROW_COUNT = 40_000
REPEATED = pytest.mark.full("the same with another delivery mode")
MODES = [
    pytest.param("at_least_once", marks=REPEATED),
    "idempotent",
]


class Servers(NamedTuple):
    """In processes that can be killed."""

    name_server: str
    broker: OurBroker
    topic: str


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with (
        OurNameServer(tmp_path / "names") as names,
        OurBroker(tmp_path / "broker", names.address) as broker,
    ):
        create_topic(broker.address, "orders", 2)
        yield Servers(names.address, broker, "orders")


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Rows come to the sink in many batches, so that it is half way between two of them."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "100")
    yield
    spark.conf.unset(name)


def numbered(spark: SparkSession, topic: str) -> DataFrame:
    """One task of rows that are large enough to be handed over before the last one is there."""
    return spark.range(0, ROW_COUNT, 1, 1).select(
        F.lit(topic).alias("topic"), F.expr("lpad(string(id), 200, '0')").alias("body")
    )


def write(frame: DataFrame, name_server: str, mode: str) -> None:
    options = {"nameServer": name_server, "deliveryMode": mode, "batchCount": "64"}
    if mode == "idempotent":
        options["idColumn"] = "body"
    frame.write.format("rocketmq").options(**options).mode("append").save()


def read(spark: SparkSession, name_server: str, topic: str) -> list[Row]:
    frame = spark.read.format("rocketmq").options(nameServer=name_server, topic=topic)
    return with_workers(lambda: frame.load().collect())


def numbers(rows: list[Row]) -> list[int]:
    return sorted(int(row.body) for row in rows)


def message_count(name_server: str, topic: str) -> int:
    with TopicReader(name_server) as reader:
        bounds = reader.bounds(reader.queues(topic))
    return sum(each.max_offset - each.min_offset for each in bounds.values())


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_task_that_is_killed_half_way(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, mode: str
) -> None:
    topic = cluster.new_topic()
    gate = Gate(tmp_path / "gate", GATED)
    frame = gate.in_the_way_of(numbered(spark, topic))
    writing = gate.reached_by(spark, lambda: write(frame, cluster.name_server, mode))
    wait_until(lambda: message_count(cluster.name_server, topic) > 0)
    assert kill_python_workers(spark) >= 2
    gate.open()
    writing.result()
    found = read(spark, cluster.name_server, topic)
    assert set(numbers(found)) == {*range(ROW_COUNT)}
    if mode == "at_least_once":
        assert len(found) > ROW_COUNT
    else:
        assert len(found) == len({row.msgId for row in found}) == ROW_COUNT


def test_a_read_whose_task_is_killed_half_way_has_each_row_once(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    topic = cluster.new_topic()
    with Producer(cluster.name_server, "senders") as producer:
        producer.send_many([Message(topic, b"%d" % each) for each in range(ROW_COUNT)])
    frame = spark.read.format("rocketmq").options(nameServer=cluster.name_server, topic=topic)
    gate = Gate(tmp_path / "gate", GATED)
    reading = gate.reached_by(spark, lambda: gate.in_the_way_of(frame.load()).collect())
    assert kill_python_workers(spark) >= 2
    gate.open()
    assert numbers(reading.result()) == [*range(ROW_COUNT)]


@pytest.mark.usefixtures("small_batches")
def test_a_sink_outlives_a_broker_that_is_killed_half_way(
    spark: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate", GATED)
    frame = gate.in_the_way_of(numbered(spark, servers.topic))
    writing = gate.reached_by(spark, lambda: write(frame, servers.name_server, "idempotent"))
    servers.broker.kill()
    gate.open()
    servers.broker.start()
    writing.result()
    found = read(spark, servers.name_server, servers.topic)
    assert numbers(found) == [*range(ROW_COUNT)]
    assert len({row.msgId for row in found}) == ROW_COUNT


def test_a_read_outlives_a_broker_that_is_killed_half_way(
    spark: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    queue = QueueRef(servers.topic, servers.broker.broker_name, 0)
    with Producer(servers.name_server, "senders") as producer:
        for start in range(0, LARGE_ROW_COUNT, 1000):
            numbers_now = range(start, start + 1000)
            messages = [Message(servers.topic, b"%0500d" % each) for each in numbers_now]
            producer.send_batch(messages, queue=queue)
    frame = spark.read.format("rocketmq").options(
        nameServer=servers.name_server, topic=servers.topic, maxRecordsPerPartition="100000"
    )
    gate = Gate(tmp_path / "gate", 100)
    reading = gate.reached_by(
        spark, lambda: gate.in_the_way_of(frame.load()).select("body").collect()
    )
    servers.broker.kill()
    gate.open()
    servers.broker.start()
    assert numbers(reading.result()) == [*range(LARGE_ROW_COUNT)]
