"""Random workloads: whichever way topics are read, it is what was sent, row by row.

Batch, stream, store directories and a plain client that reads one message after the other all have
to agree. `ROQUET_LONG` makes more of everything; a failure prints its seed.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from roquet.testing.blocking import BlockingCluster
from tests.support.message_rows import rows_in
from tests.support.random_topics import RandomTopics, Rows, in_place
from tests.support.spark_store import TAGS, TOPICS
from tests.support.spark_streams import run_available
from tests.support.spark_workers import with_workers

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
SEEDS = range(10) if IS_LONG else (int(os.environ.get("ROQUET_SEED", "1")),)
COUNT = 20_000 if IS_LONG else 600
STORED_COUNT = 5_000 if IS_LONG else 800


@pytest.fixture(scope="module", params=SEEDS)
def topics(request: pytest.FixtureRequest) -> Iterator[RandomTopics]:
    """More is sent by each test; what was there before stays."""
    with BlockingCluster(brokers=2, settings=RandomTopics.cluster_settings()) as cluster:
        made = RandomTopics(cluster, request.param, STORED_COUNT)
        made.send(COUNT)
        yield made


def batch(spark: SparkSession, topics: RandomTopics, **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**source(topics), **options).load()


def source(topics: RandomTopics) -> dict[str, str]:
    return {"nameServer": topics.cluster.name_server, "topics": ",".join(TOPICS)}


def rows(frame: DataFrame) -> Rows:
    batches = with_workers(frame.toArrow).to_batches()
    return in_place([row for each in batches for row in rows_in(each)])


def test_a_batch_is_what_a_plain_client_reads_and_what_was_sent(
    spark: SparkSession, topics: RandomTopics
) -> None:
    found = rows(batch(spark, topics))
    assert found == topics.scalar_rows()
    by_place = {
        (row["topic"], row["brokerName"], row["queueId"], row["queueOffset"]): row for row in found
    }
    assert len(by_place) == len(found) > COUNT
    for sent in topics.sent:
        row = by_place[(*sent.queue, sent.offset)]
        assert (row["body"], row["tags"]) == (sent.body, sent.tags)
        assert tuple((row["keys"] or "").split()) == sent.keys
        assert row["msgId"] == sent.id


def test_the_workload_has_what_is_hard(topics: RandomTopics) -> None:
    """Or the other tests would prove little."""
    found = topics.scalar_rows()
    assert {row["brokerName"] for row in found} == {"broker-a", "broker-b"}
    assert set(TAGS) < {row["tags"] for row in found}
    assert any(row["sysFlag"] & 1 for row in found)
    assert any(row["bornHost"].startswith("[::1]") for row in found)


def test_a_batch_with_tags_has_those_and_no_others(
    spark: SparkSession, topics: RandomTopics
) -> None:
    """Brokers compare hashes, and those are equal."""
    wanted = [row for row in topics.scalar_rows() if row["tags"] == TAGS[0]]
    assert rows(batch(spark, topics, tagExpression=TAGS[0])) == wanted


def test_tasks_of_any_number_read_the_same(spark: SparkSession, topics: RandomTopics) -> None:
    wanted = topics.scalar_rows()
    for options in ({"minPartitions": "13"}, {"maxRecordsPerPartition": "97"}):
        assert rows(batch(spark, topics, **options)) == wanted


def test_directories_are_what_their_brokers_hand_out_and_counts_of_live_ones_repeat(
    spark: SparkSession, topics: RandomTopics
) -> None:
    frames = {
        broker: spark.read.format("rocketmq-store")
        .options(topics=",".join(TOPICS), brokerName=broker, splitSize=size)
        .load(str(topics.store_of(broker)))
        for broker, size in (("broker-a", "64k"), ("broker-b", str(300 << 10)))
    }
    before = [row for frame in frames.values() for row in rows(frame)]
    assert in_place(before) == rows(batch(spark, topics)) == topics.scalar_rows()
    counts = {broker: with_workers(frame.count) for broker, frame in frames.items()}
    topics.send(COUNT // 10)
    assert {broker: with_workers(frame.count) for broker, frame in frames.items()} == counts
    assert len(topics.scalar_rows()) > sum(counts.values())


def test_a_stream_over_restarts_and_new_queues_has_each_row_once(
    spark: SparkSession, topics: RandomTopics, tmp_path: Path
) -> None:
    chance = Random(len(topics.sent))
    found: Counter[tuple[object, ...]] = Counter()
    for is_last in (False, False, True):
        limit = str(chance.randrange(COUNT // 4, COUNT))
        stream = (
            spark.readStream.format("rocketmq")
            .options(**source(topics), startingOffsets="earliest", maxOffsetsPerTrigger=limit)
            .load()
        )
        batches = run_available(stream, tmp_path / "checkpoint")
        found += Counter(
            (row.topic, row.brokerName, row.queueId, row.queueOffset, row.msgId, bytes(row.body))
            for each in batches
            for row in each
        )
        if not is_last:
            topics.add_queue()
            topics.send(COUNT // 10)
    assert found == Counter(
        (
            row["topic"],
            row["brokerName"],
            row["queueId"],
            row["queueOffset"],
            row["msgId"],
            row["body"],
        )
        for row in topics.scalar_rows()
    )


def test_what_has_expired_is_no_row_and_missed_by_a_stream_that_needed_it(
    spark: SparkSession, topics: RandomTopics, tmp_path: Path
) -> None:
    """The last test of its workload: it takes messages away."""
    stream = (
        spark.readStream.format("rocketmq")
        .options(**source(topics), startingOffsets="latest")
        .load()
    )
    run_available(stream, tmp_path / "checkpoint")
    # Enough for several files of the log of each broker.
    topics.send(2 * COUNT)
    before = topics.scalar_rows()
    topics.expire()
    left = topics.scalar_rows()
    assert 0 < len(left) < len(before)
    assert rows(batch(spark, topics)) == left
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        run_available(stream, tmp_path / "checkpoint")
