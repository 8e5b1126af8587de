"""Habits of Spark that would lose, repeat or invent rows, and which tests hold against each.

it plans a DataFrame once and keeps the plan, with filters that were pushed
    below: a filter does not stay
it asks for the initial offset twice, and again after a restart
    unit/pipeline/source/test_stream
it commits a batch with the next one, and the last one never
    unit/pipeline/source/test_stream; test_source: tools see
tasks know their query, batch, partition and attempt; no other does
    test_sink: a stream whose last batch is replayed
it does not say which columns a query needs
    test_source, test_store_source: a schema that names some
it converts tuples one by one, and Arrow batches whole
    unit/pipeline/source/test_stream: rows are Arrow batches
small batches cost as much to decode as large ones
    unit/pipeline/source/test_stream: replies of small pulls are joined
a map costs twice as much as a text
    test_source: properties are a map, a text or nothing
a task costs as much as thousands of rows
    unit/pipeline/test_planning
it compares offsets as texts, and keys that are numbers become texts
    unit/pipeline/source/test_stream, unit/pipeline/test_stream_offset
it runs batch 0 even if it is empty
    test_source: queues that appear later
it checks the schema of the first Arrow batch only
    unit/pipeline/source/test_stream: exactly the types
an error in a driver-side call ends the query
    unit/pipeline/source/test_stream: a broker that is away
a task that fails is tried again from its beginning
    test_sink, test_kills
it aborts a write when a query is stopped
    below: a stream that is stopped
it asks for all that is available in spite of a limit
    unit/pipeline/source/test_stream: a limit is kept
it has no metrics for sources in Python
    below: progress shows
continuous processing knows no sources in Python
    below: refused by name
one module that cannot be imported hides all formats
    unit/test_pipeline; below: a format is found by itself
classes are found by name in executors, and a zip cannot hold what is compiled
    test_cluster
Python processes have ten seconds to start
    unit/test_pipeline: planners load nothing
it wants pandas for some things, and warns of its newest version
    unit/test_pipeline: pandas is not needed
it shows plans, with the options of a source in them
    below: a secret is not in a plan
a log holds records of topics that were deleted
    test_store_source: ghosts
a plan that changes between kill and restart changes what a task writes
    test_lake
"""

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from roquet import Message, Producer
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.spark_gates import Gate
from tests.support.spark_workers import finished, started, with_workers

COUNT = 90


@pytest.fixture
def topic(cluster: BlockingCluster) -> str:
    """With messages that are numbered, and whose tags are the rest by three."""
    name = cluster.new_topic(queues=3)
    with Producer(cluster.name_server, "senders") as producer:
        messages = [Message(name, b"%d" % each, tags=str(each % 3)) for each in range(COUNT)]
        producer.send_many(messages)
    return name


def load(spark: SparkSession, cluster: BlockingCluster, topic: str) -> DataFrame:
    options = {"nameServer": cluster.name_server, "topic": topic}
    return spark.read.format("rocketmq").options(**options).load()


def stream(spark: SparkSession, cluster: BlockingCluster, topic: str, **more: str) -> DataFrame:
    options = {"nameServer": cluster.name_server, "topic": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("rocketmq").options(**options, **more).load()


def test_a_filter_does_not_stay_with_the_dataframe(
    spark: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    frame = load(spark, cluster, topic)
    one = frame.where("tags = '1'")
    assert with_workers(one.count) == COUNT // 3
    assert with_workers(frame.count) == COUNT
    assert with_workers(one.union(frame.where("tags = '2'")).count) == 2 * COUNT // 3
    frame.createOrReplaceTempView("numbered")
    filtered = "SELECT count(*) FROM numbered WHERE tags = '0'"
    assert with_workers(spark.sql(filtered).collect)[0][0] == COUNT // 3
    assert with_workers(spark.sql("SELECT count(*) FROM numbered").collect)[0][0] == COUNT


def test_a_format_is_found_by_itself_in_sql(
    spark: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    # What is registered is registered for one session.
    other = spark.newSession()
    view = (
        "CREATE OR REPLACE TEMPORARY VIEW orders USING rocketmq"
        f" OPTIONS (nameServer '{cluster.name_server}', topic '{topic}')"
    )
    with_workers(lambda: other.sql(view))
    found = with_workers(lambda: other.sql("SELECT count(*), max(tags) FROM orders").collect())
    assert [tuple(row) for row in found] == [(COUNT, "2")]


def test_a_secret_is_not_in_a_plan(
    spark: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    signed = {"accessKey": "me", "secretKey": "nobody-knows", "securityToken": "lent-to-me"}
    options = {"nameServer": cluster.name_server, "topic": topic, **signed}
    reader = spark.read.format("rocketmq").options(**options)
    frame = with_workers(reader.load)
    plan = with_workers(lambda: frame._jdf.queryExecution().toString())
    assert "rocketmq" in plan
    assert "nobody-knows" not in plan
    assert "lent-to-me" not in plan


def test_progress_shows_the_lag_of_a_query(
    spark: SparkSession, cluster: BlockingCluster, topic: str, tmp_path: Path
) -> None:
    frame = stream(spark, cluster, topic, maxOffsetsPerTrigger="30")
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = finished(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
    batches = [each for each in query.recentProgress if each.numInputRows]
    shown = [json.loads(each.sources[0].latestOffset) for each in batches]
    assert [each["lag"] for each in shown] == [60, 30, 0]
    assert sum(shown[0]["behind"].values()) == 60
    assert sum(shown[0]["q"].values()) == COUNT


def test_continuous_processing_is_refused_by_name(
    spark: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    def start() -> StreamingQuery:
        frame = stream(spark, cluster, topic)
        return frame.writeStream.format("noop").trigger(continuous="1 second").start()

    with pytest.raises(PySparkException, match="rocketmq"):
        with_workers(start)


def test_a_stream_that_is_stopped_half_way_writes_each_row_once_when_it_continues(
    spark: SparkSession, cluster: BlockingCluster, topic: str, tmp_path: Path
) -> None:
    target = cluster.new_topic()
    gate = Gate(tmp_path / "gate", COUNT // 2)

    def start() -> StreamingQuery:
        frame = gate.in_the_way_of(stream(spark, cluster, topic))
        return (
            frame.select(F.lit(target).alias("topic"), "body")
            .writeStream.format("rocketmq")
            .option("nameServer", cluster.name_server)
            .option("deliveryMode", "idempotent")
            .option("idColumn", "body")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    queries: list[StreamingQuery] = []

    def run() -> None:
        queries.append(start())
        queries[-1].awaitTermination()

    gate.reached_by(spark, run)
    queries[-1].stop()
    gate.open()
    query = started(start)
    try:
        wait_until(lambda: load(spark, cluster, target).count() == COUNT, 120)
    finally:
        query.stop()
    rows = with_workers(load(spark, cluster, target).collect)
    assert sorted(int(row.body) for row in rows) == [*range(COUNT)]
