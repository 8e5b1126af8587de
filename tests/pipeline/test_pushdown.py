"""Filters that Spark pushes down: the same rows, of fewer messages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from roquet import Message, Producer
from roquet.pipeline.session import FILTER_PUSHDOWN
from roquet.testing.blocking import BlockingCluster
from tests.support.job_commands import JobCommands
from tests.support.spark_workers import with_workers

COUNT = 60
CONDITIONS = (
    "tags = 'Aa'",
    "tags in ('Aa', 'BB') and queueId <> 1",
    "tags is null and queueOffset between 2 and 5",
    "tags <=> 'Aa' or queueId = 0",
    "storeTimestamp > timestamp_millis({middle}) and queueId in (0, 2)",
    "storeTimestamp <= timestamp_millis({middle})",
    "date(storeTimestamp) >= date'2026-01-01' and not tags = 'BB'",
    "bornTimestamp > timestamp_millis({middle}) and topic like 'topic%' and brokerName is not null",
    "storeTimestamp = timestamp_millis({middle}) and queueId > 0L",
    "queueOffset % 2 = 0 and queueId < 1.5",
    "topic = 'another' or 1 = 0",
)

pytestmark = pytest.mark.full("what property tests show without Spark, once more through it")


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The same session: commands of jobs use it."""
    spark.conf.set(FILTER_PUSHDOWN, "true")
    yield spark
    spark.conf.unset(FILTER_PUSHDOWN)


@pytest.fixture
def topic(cluster: BlockingCluster) -> str:
    topic = cluster.new_topic(queues=3)
    with Producer(cluster.name_server, "senders") as producer:
        for number in range(COUNT):
            producer.send(Message(topic, b"%d" % number, tags=("Aa", "BB", None)[number % 3]))
    return topic


def test_rows_are_the_same_whatever_the_query_filters(
    pushing: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    options = {"nameServer": cluster.name_server, "topic": topic}

    def load(**more: str) -> DataFrame:
        return pushing.read.format("rocketmq").options(**options, **more).load()

    def offsets(frame: DataFrame) -> list[tuple[int, int]]:
        rows = with_workers(frame.select("queueId", "queueOffset").collect)
        return sorted((row.queueId, row.queueOffset) for row in rows)

    (row,) = with_workers(
        load().selectExpr("unix_millis(percentile_approx(storeTimestamp, 0.5)) as middle").collect
    )
    for condition in (each.format(middle=row.middle) for each in CONDITIONS):
        expected = offsets(load().where(condition))
        assert offsets(load(filterPushdown="true").where(condition)) == expected, condition


def test_a_session_that_pushes_nothing_down_says_which_setting_it_needs(
    spark: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    options = {"nameServer": cluster.name_server, "topic": topic, "filterPushdown": "true"}
    frame = spark.read.format("rocketmq").options(**options).load()
    with pytest.raises(Exception, match=FILTER_PUSHDOWN):
        with_workers(frame.count)


def test_an_export_pushes_its_condition_down(
    pushing: SparkSession,
    cluster: BlockingCluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selected = ("-n", cluster.name_server, "--topic", topic, "--where", "tags = 'Aa'")
    report = JobCommands(pushing, monkeypatch).json("export", *selected, "--to", tmp_path / "files")
    assert report["messages"] == COUNT // 3
