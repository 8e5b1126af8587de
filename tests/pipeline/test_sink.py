"""DataFrames become messages, by Spark: tasks that fail, batches that are replayed, wrong input."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F  # noqa: N812
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.query import StreamingQuery

from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.spark_workers import finished, with_workers

MODES = ("at_least_once", "idempotent")
ROW_COUNT = 3000


def writing(frame: DataFrame, cluster: BlockingCluster, **options: str) -> DataFrameWriter:
    named = {"nameServer": cluster.name_server} | options
    return frame.write.format("rocketmq").options(**named).mode("append")


def write(frame: DataFrame, cluster: BlockingCluster, **options: str) -> None:
    writing(frame, cluster, **options).save()


def read(spark: SparkSession, cluster: BlockingCluster, topic: str) -> list[Row]:
    """What can be read of a topic, in the order of its queues."""
    frame = spark.read.format("rocketmq").options(
        nameServer=cluster.name_server, topic=topic, properties="map"
    )
    found = with_workers(lambda: frame.load().collect())
    return sorted(found, key=lambda row: (row.brokerName, row.queueId, row.queueOffset))


def numbers(rows: list[Row]) -> list[int]:
    return sorted(int(row.body) for row in rows)


def numbered(spark: SparkSession, topic: str, count: int = ROW_COUNT) -> DataFrame:
    """In two partitions, and always in the same order.

    Bodies are long enough for Spark to hand them over before the last one is there.
    """
    return spark.range(0, count, 1, 2).select(
        F.lit(topic).alias("topic"), F.expr("lpad(string(id), 200, '0')").alias("body")
    )


def failing_once(frame: DataFrame, marker: Path, number: int) -> DataFrame:
    """The task with this row fails there, unless the marker says that it did before."""
    path = str(marker)

    def pass_on(body: str) -> str:
        if int(body) == number and not Path(path).exists():
            Path(path).touch()
            raise RuntimeError("a task fails half way")
        return body

    return frame.withColumn("body", F.udf(pass_on, "string", useArrow=False)("body"))


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Rows come to the sink in many batches, so that a task can fail between two of them."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "100")
    yield
    spark.conf.unset(name)


def mode_options(mode: str) -> dict[str, str]:
    if mode == "idempotent":
        return {"deliveryMode": mode, "idColumn": "body"}
    return {"deliveryMode": mode}


def test_every_column_survives_a_round_trip(spark: SparkSession, cluster: BlockingCluster) -> None:
    topics = [cluster.new_topic() for _ in range(2)]
    frame = spark.range(100).selectExpr(
        f"CASE id % 2 WHEN 0 THEN '{topics[0]}' END AS topic",
        "unhex(lpad(hex(id), 4, '0')) AS body",
        "concat('tag-', id % 3) AS tags",
        "array(concat('key-', id), 'all') AS keys",
        "map('number', string(id), 'other', 'x') AS properties",
    )
    with_workers(lambda: write(frame, cluster, topic=topics[1]))
    for index, topic in enumerate(topics):
        found = sorted(read(spark, cluster, topic), key=lambda row: row.body)
        assert len(found) >= 50
        for row in found:
            number = int.from_bytes(row.body)
            assert number % 2 == index
            assert row.tags == f"tag-{number % 3}"
            assert row["keys"].split() == [f"key-{number}", "all"]
            assert row.properties["number"] == str(number)
            assert row.properties["other"] == "x"
        assert len({row.msgId for row in found}) == len(found)


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_rows_of_an_order_key_stay_in_order(spark: SparkSession, cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    frame = numbered(spark, topic).withColumn("orderKey", F.expr("concat('key-', int(body) % 10)"))
    # Those of one key in one task: there is no order between tasks.
    by_key = frame.repartition("orderKey").sortWithinPartitions(F.expr("int(body)"))
    with_workers(lambda: write(by_key, cluster, batchCount="50"))
    places: dict[int, set[tuple[str, int]]] = {}
    last: dict[int, int] = {}
    for row in read(spark, cluster, topic):
        number = int(row.body)
        places.setdefault(number % 10, set()).add((row.brokerName, row.queueId))
        assert number > last.get(number % 10, -1)
        last[number % 10] = number
    assert [len(each) for each in places.values()] == [1] * 10


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_delay_is_kept(spark: SparkSession, cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    frame = numbered(spark, topic, 4)
    levels = frame.withColumn("delayLevel", F.expr("CASE WHEN int(body) > 1 THEN 5 END"))
    with_workers(lambda: write(levels, cluster))
    assert numbers(read(spark, cluster, topic)) == [0, 1]
    cluster.clock.advance(timedelta(minutes=1, seconds=1))
    wait_until(lambda: numbers(read(spark, cluster, topic)) == [0, 1, 2, 3], 60.0)


@pytest.mark.full("what unit tests show without Spark, once more through it")
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("mode", MODES)
def test_a_task_that_fails_half_way_is_tried_again(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, mode: str
) -> None:
    topic = cluster.new_topic()
    marker = tmp_path / "failed"
    frame = failing_once(numbered(spark, topic), marker, 1200)
    write(frame, cluster, batchCount="64", **mode_options(mode))
    assert marker.exists()
    found = read(spark, cluster, topic)
    assert set(numbers(found)) == {*range(ROW_COUNT)}
    # How much of the first try is there depends on how far its requests had come. That what was
    # sent comes again is shown where a task is killed at a gate, in `test_kills.py`.
    if mode != "at_least_once":
        assert len(found) == ROW_COUNT
        assert len({row.msgId for row in found}) == ROW_COUNT


def test_a_stream_whose_last_batch_is_replayed_writes_each_row_once(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    source, target = cluster.new_topic(), cluster.new_topic()
    with_workers(lambda: write(numbered(spark, source), cluster))
    checkpoint = tmp_path / "checkpoint"

    def run(tasks: int = 2) -> StreamingQuery:
        frame = (
            spark.readStream.format("rocketmq")
            .options(nameServer=cluster.name_server, topic=source, startingOffsets="earliest")
            .option("minPartitions", str(tasks))
            .load()
            .select(F.lit(target).alias("topic"), "body")
        )
        return (
            frame.writeStream.format("rocketmq")
            .options(nameServer=cluster.name_server, **mode_options("idempotent"))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    finished(run)
    assert numbers(read(spark, cluster, target)) == [*range(ROW_COUNT)]
    # As if the driver had died before it could note that the batch is over, and came back with
    # another plan.
    for committed in (checkpoint / "commits").iterdir():
        committed.unlink()
    finished(partial(run, 5))
    found = read(spark, cluster, target)
    assert numbers(found) == [*range(ROW_COUNT)]
    assert len({row.msgId for row in found}) == ROW_COUNT


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_batch_write_that_is_repeated_with_other_plans_writes_each_row_once(
    spark: SparkSession, cluster: BlockingCluster
) -> None:
    source, target = cluster.new_topic(), cluster.new_topic()
    with_workers(lambda: write(numbered(spark, source), cluster))

    def copy(tasks: int, **more: str) -> None:
        frame = (
            spark.read.format("rocketmq")
            .options(nameServer=cluster.name_server, topic=source, minPartitions=str(tasks))
            .load()
            .selectExpr(f"'{target}' as topic", "body", "brokerName", "queueId", "queueOffset")
        )
        # Another order, in other tasks.
        shuffled = frame.repartition(tasks, "queueOffset").sortWithinPartitions(F.rand(tasks))
        identity = {"idColumn": "brokerName,queueId,queueOffset", "writeId": "copy"}
        write(shuffled, cluster, deliveryMode="idempotent", **identity, **more)

    for tasks, batch_count in ((2, "1024"), (5, "7"), (1, "100")):
        with_workers(partial(copy, tasks, batchCount=batch_count))
        assert numbers(read(spark, cluster, target)) == [*range(ROW_COUNT)]


@pytest.mark.full("what unit tests show without Spark, once more through it")
@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (lambda frame: frame.withColumn("queue", F.lit(1)), {}, "no column 'queue'"),
        (lambda frame: frame.withColumn("delay", F.lit(5)), {}, "'delay' has to be an interval"),
        (lambda frame: frame.drop("topic"), {}, "neither a column 'topic' nor the option"),
        (lambda frame: frame, {"batchsiez": "1"}, "did you mean 'batchSize'"),
        (lambda frame: frame, {"deliveryMode": "idempotent"}, "'idColumn': required"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_sent(
    spark: SparkSession,
    cluster: BlockingCluster,
    change: Callable[[DataFrame], DataFrame],
    options: dict[str, str],
    says: str,
) -> None:
    topic = cluster.new_topic()
    frame = change(numbered(spark, topic, 10))
    with pytest.raises(PySparkException, match=says):
        with_workers(lambda: write(frame, cluster, **options))
    assert read(spark, cluster, topic) == []


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_nothing_is_overwritten(spark: SparkSession, cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    writer = writing(numbered(spark, topic, 10), cluster).mode("overwrite")
    with pytest.raises(PySparkException, match="messages cannot be overwritten"):
        with_workers(writer.save)


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_bad_row_is_named(spark: SparkSession, cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    frame = numbered(spark, topic, 10).coalesce(1)
    bad = frame.withColumn("tags", F.expr("CASE int(body) WHEN 7 THEN 'a\\u0002b' END"))
    with pytest.raises(PySparkException, match="row 7 of partition 0, column 'tags'"):
        with_workers(lambda: write(bad, cluster))
    assert read(spark, cluster, topic) == []
