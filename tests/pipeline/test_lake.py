"""A lake has each message once, whatever happens to the process that fills it."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from roquet.client.blocking.producer import Producer
from roquet.client.blocking.reader import TopicReader
from roquet.pipeline.jobs.ingest import IngestPlan, IngestReport, ingest
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.ingest_command import IngestCommand
from tests.support.lake_rows import found_by_duckdb

QUEUES = 3
COUNT = 60_000 if os.environ.get("ROQUET_LONG") else 3_000
GROUP = "lake-keepers"
LATE_GROUP = "late-keepers"
# Enough batches to be killed in the middle of them.
STEP = COUNT // 10

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("spark")]


class Kept(NamedTuple):
    """A lake after two kills, a start that was interrupted, and one without the checkpoint."""

    command: IngestCommand
    topic: str
    sent: Counter[tuple[int, int]]
    killed_in_first: int
    killed_later: int
    interrupted: CompletedProcess[str]
    without_checkpoint: IngestReport
    is_late_group_at_the_end: bool


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    with BlockingCluster() as cluster, TopicReader(cluster.name_server) as reader:
        topic = cluster.new_topic("orders", queues=QUEUES)
        with Producer(cluster.name_server, "sellers") as producer:
            receipts = [producer.send(Message(topic, b"%d" % each)) for each in range(COUNT)]
        sent = Counter((each.queue.queue_id, each.queue_offset) for each in receipts)
        command = IngestCommand(cluster.name_server, topic, tmp_path_factory.mktemp("ingest"))
        queues = reader.queues(topic)
        ends = {queue: each.max_offset for queue, each in reader.bounds(queues).items()}
        now, most = "--available-now", "--max-offsets-per-trigger"

        # In batch 0, before anything is published.
        command.run_until(
            command.staged_files, now, most, str(STEP), "--master=local[1]", end_by=signal.SIGKILL
        )
        killed_in_first = command.entry_count()
        # In a later one, with other cores and batches of another size.
        reached = killed_in_first + 3
        command.run_until(
            lambda: command.entry_count() >= reached,
            *(now, most, str(STEP // 2 + 7), "--master=local[2]"),
            end_by=signal.SIGKILL,
        )
        killed_later = command.entry_count()
        # Tools see by the group that everything is there; then a person has seen enough.
        interrupted = command.run_until(
            lambda: reader.committed(GROUP, queues) == ends,
            *(most, str(STEP * 3), "--master=local[2]", "--group", GROUP),
            end_by=signal.SIGINT,
        )
        shutil.rmtree(command.checkpoint)
        plan = IngestPlan(
            source={"nameServer": cluster.name_server, "topic": topic, "groupId": LATE_GROUP},
            lake=command.lake,
            checkpoint=command.checkpoint,
            available_now=True,
        )
        without_checkpoint = ingest(spark, plan)
        is_late_group_at_the_end = reader.committed(LATE_GROUP, queues) == ends
    return Kept(
        command,
        topic,
        sent,
        killed_in_first,
        killed_later,
        interrupted,
        without_checkpoint,
        is_late_group_at_the_end,
    )


def test_plain_arrow_finds_each_message_once_after_two_kills(kept: Kept) -> None:
    table = ds.dataset(kept.command.lake, format="parquet", partitioning="hive").to_table()
    found = Counter(
        zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True)
    )
    assert found == kept.sent
    assert set(table["topic"].to_pylist()) == {kept.topic}


def test_duckdb_finds_each_message_once_after_two_kills(kept: Kept) -> None:
    assert found_by_duckdb(kept.command.lake) == kept.sent


def test_spark_finds_each_message_once_after_two_kills(kept: Kept, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(kept.command.lake)).select("queueId", "queueOffset").collect()
    assert Counter((row.queueId, row.queueOffset) for row in rows) == kept.sent


def test_the_kills_came_in_the_middle(kept: Kept) -> None:
    assert kept.killed_in_first <= 1
    assert kept.killed_later >= kept.killed_in_first + 3
    assert 0 < json.loads(kept.interrupted.stdout)["messages"] < COUNT


def test_an_interrupted_stream_ends_well_and_says_what_it_did(kept: Kept) -> None:
    assert kept.interrupted.returncode == 0, kept.interrupted.stderr
    assert "Traceback" not in kept.interrupted.stderr
    assert json.loads(kept.interrupted.stdout)["lake_messages"] == COUNT


def test_a_lost_checkpoint_adds_nothing(kept: Kept) -> None:
    assert kept.without_checkpoint.messages == 0
    assert kept.without_checkpoint.lake_messages == COUNT


def test_the_group_is_at_the_end_also_when_a_query_ends_by_itself(kept: Kept) -> None:
    assert kept.is_late_group_at_the_end


def test_nothing_is_left_that_is_not_published(kept: Kept) -> None:
    assert not kept.command.staged_files()
    listed = len(list(kept.command.lake.glob("**/*.parquet")))
    assert listed == kept.without_checkpoint.lake_files


# What keeps it from its work.


def test_a_cluster_of_spark_that_is_none_is_reported_in_one_line(tmp_path: Path) -> None:
    with BlockingCluster() as cluster:
        command = IngestCommand(cluster.name_server, cluster.new_topic("orders"), tmp_path)
        printed = command.run("--master=local[none]", exit_code=1)["said"]
    assert "Spark does not start on local[none]: " in printed.splitlines()[-1]
    assert "Could not parse Master URL" in printed.splitlines()[-1]


def test_a_signal_for_all_processes_ends_it_without_a_traceback(tmp_path: Path) -> None:
    with BlockingCluster() as cluster:
        command = IngestCommand(cluster.name_server, cluster.new_topic("orders"), tmp_path)
        with Producer(cluster.name_server, "senders") as producer:
            producer.send(Message("orders", b"one tea"))
        ended = command.run_until(
            command.entry_count, "--master=local[2]", end_by=signal.SIGTERM, is_for_all=True
        )
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
    assert ended.returncode in (0, 130)
