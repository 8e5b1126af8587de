"""Format `rocketmq-store` in Spark: rows equal those of the queues, whoever wrote the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.golden_stores import STORE_NAMES, unpack_store
from tests.support.message_rows import rows_in
from tests.support.spark_store import (
    TOPICS,
    Rows,
    fill_with_everything,
    flip,
    in_order,
    scalar_rows,
)
from tests.support.spark_workers import with_workers
from tests.support.stores import crash, open_store, opened

FILE_SIZE = 1 << 18


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(
        tmp_path, commit_log_file_size=FILE_SIZE, queue_file_size=2000, write_checksums=False
    ) as it:
        yield it


def frame(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return with_workers(
        lambda: spark.read.format("rocketmq-store").options(**options).load(str(root))
    )


def rows(found: DataFrame) -> Rows:
    batches = with_workers(found.toArrow).to_batches()
    return in_order([row for batch in batches for row in rows_in(batch)])


def count(found: DataFrame) -> int:
    return with_workers(found.count)


def test_messages_of_all_kinds_are_the_same_rows_in_all_splits(
    spark: SparkSession, tmp_path: Path
) -> None:
    clock = FakeClock()
    killed = open_store(
        tmp_path,
        clock=clock,
        commit_log_file_size=FILE_SIZE,
        queue_file_size=2000,
        write_checksums=False,
    )
    fill_with_everything(killed, clock, 2000, seed=1)
    crash(killed)
    expected = scalar_rows(tmp_path, TOPICS)
    assert len(expected) > 1000
    tasks = []
    for split_size in ("64k", str(300 << 10), "1g"):
        found = frame(spark, tmp_path, topics=",".join(TOPICS), splitSize=split_size)
        assert rows(found) == expected
        tasks.append(found.rdd.getNumPartitions())
    assert tasks[0] > tasks[1] > tasks[2] == 1


@pytest.mark.parametrize("name", STORE_NAMES)
def test_stores_of_apache_are_read_as_their_queues_are(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    root = unpack_store(name, tmp_path)
    topics = [each.name for each in (root / "consumequeue").iterdir() if any(each.iterdir())]
    expected = scalar_rows(root, topics)
    assert expected
    assert rows(frame(spark, root, topics=",".join(topics))) == expected


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_ghosts_are_rows_only_if_all_is_asked_for(
    spark: SparkSession, tmp_path: Path, store: MessageStore
) -> None:
    for number in range(10):
        store.append(draft(b"ghost %d" % number))
    store.delete_topic("TopicA")
    for number in range(5):
        store.append(draft(b"today %d" % number))
    assert count(frame(spark, tmp_path, topic="TopicA")) == 5
    assert count(frame(spark, tmp_path, topic="TopicA", include="all")) == 15


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_counts_over_a_live_store_repeat(
    spark: SparkSession, tmp_path: Path, store: MessageStore
) -> None:
    for number in range(20):
        store.append(draft(b"%d" % number))
    found = frame(spark, tmp_path, topic="TopicA")
    assert count(found) == 20
    for number in range(20):
        store.append(draft(b"%d" % number))
    assert count(found) == 20
    assert count(found.where("queueOffset >= 5")) == 15
    assert count(found) == 20
    assert count(frame(spark, tmp_path, topic="TopicA")) == 40


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_damage_fails_the_query_or_is_skipped(
    spark: SparkSession, tmp_path: Path, store: MessageStore
) -> None:
    places = [store.append(draft(b"%02d" % number)).physical_offset for number in range(50)]
    flip(store, places[7] + 88)
    damage = f"1 damaged, {places[8] - places[7]} bytes of the log: {places[7]} to {places[8]}"
    with pytest.raises(PySparkException, match=damage):
        count(frame(spark, tmp_path, topic="TopicA"))
    assert count(frame(spark, tmp_path, topic="TopicA", onDamage="skip")) == 49


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_subset_of_the_columns_can_be_asked_for(
    spark: SparkSession, tmp_path: Path, store: MessageStore
) -> None:
    store.append(draft(b"one", properties={"TAGS": "Aa"}))
    reader = spark.read.format("rocketmq-store").schema("body binary, tags string")
    found = with_workers(reader.option("topic", "TopicA").load(str(tmp_path)).collect)
    assert [(row.body, row.tags) for row in found] == [(b"one", "Aa")]


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_topic_without_messages_in_time_is_an_empty_frame(
    spark: SparkSession, tmp_path: Path, store: MessageStore
) -> None:
    store.append(draft())
    assert count(frame(spark, tmp_path, topicPattern="none")) == 0
    assert count(frame(spark, tmp_path, topic="TopicA", endingTimestamp="0")) == 0


def test_sql_alone_finds_the_format_without_registering_it(
    spark: SparkSession, tmp_path: Path, store: MessageStore
) -> None:
    for number in range(5):
        store.append(draft(b"%d" % number))
    other = spark.newSession()
    with_workers(
        lambda: other.sql(
            "CREATE OR REPLACE TEMPORARY VIEW stored USING `rocketmq-store`"
            f" OPTIONS (path '{tmp_path}', topic 'TopicA')"
        )
    )
    (row,) = with_workers(other.sql("SELECT count(*) AS n, max(queueOffset) FROM stored").collect)
    assert tuple(row) == (5, 4)


@pytest.mark.full("what unit tests show without Spark, once more through it")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topic": "Other"}, "Other has no messages in .*; topics: TopicA"),
        ({"topic": "TopicA", "splitsize": "many"}, "option 'splitSize': 'many': expected"),
        ({"topic": "TopicA", "splitSise": "1"}, "did you mean 'splitSize'"),
        ({"topic": "TopicA", "path": "/nowhere"}, "no commitlog in this directory"),
    ],
)
def test_what_cannot_be_read_is_reported(
    spark: SparkSession, tmp_path: Path, store: MessageStore, options: dict[str, str], text: str
) -> None:
    store.append(draft())
    reader = spark.read.format("rocketmq-store").options(**{"path": str(tmp_path)} | options)
    with pytest.raises(PySparkException, match=text):
        with_workers(lambda: reader.load().count())
