"""A lake has each message once, whatever happens to the process that fills it."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from roquet.client.blocking.producer import Producer
from roquet.client.blocking.reader import TopicReader
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.ingest_command import IngestCommand

QUEUES = 3
COUNT = 60_000 if os.environ.get("ROQUET_LONG") else 3_000
GROUP = "lake-keepers"
# Enough batches to be killed in the middle of them.
STEP = COUNT // 10

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("spark")]


class Kept(NamedTuple):
    """What a lake was like after the third start, and what starting once more added."""

    command: IngestCommand
    cluster: BlockingCluster
    topic: str
    sent: Counter[tuple[int, int]]
    killed_in_first: int
    killed_later: int
    finished: dict[str, Any]
    without_checkpoint: dict[str, Any]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with BlockingCluster() as cluster:
        topic = cluster.new_topic("orders", queues=QUEUES)
        with Producer(cluster.name_server, "sellers") as producer:
            receipts = [producer.send(Message(topic, b"%d" % each)) for each in range(COUNT)]
        sent = Counter((each.queue.queue_id, each.queue_offset) for each in receipts)
        command = IngestCommand(cluster.name_server, topic, tmp_path_factory.mktemp("ingest"))
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
            *(now, most, str(STEP // 2 + 7), "--master=local[2]", "--group", GROUP),
            end_by=signal.SIGKILL,
        )
        killed_later = command.entry_count()
        rest = (now, most, str(STEP * 3), "--master=local[2]", "--group", GROUP)
        finished = command.run(*rest)
        shutil.rmtree(command.checkpoint)
        without_checkpoint = command.run(now, "--master=local[2]")
        yield Kept(
            command,
            cluster,
            topic,
            sent,
            killed_in_first,
            killed_later,
            finished,
            without_checkpoint,
        )


def test_plain_arrow_finds_each_message_once_after_two_kills(kept: Kept) -> None:
    table = ds.dataset(kept.command.lake, format="parquet", partitioning="hive").to_table()
    found = Counter(
        zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True)
    )
    assert found == kept.sent
    assert set(table["topic"].to_pylist()) == {kept.topic}
    assert kept.finished["lake_messages"] == COUNT


def test_spark_finds_each_message_once_after_two_kills(kept: Kept, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(kept.command.lake)).select("queueId", "queueOffset").collect()
    assert Counter((row.queueId, row.queueOffset) for row in rows) == kept.sent


def test_the_kills_came_in_the_middle(kept: Kept) -> None:
    assert kept.killed_in_first <= 1
    assert kept.killed_later >= kept.killed_in_first + 3
    assert 0 < kept.finished["messages"] < COUNT


def test_a_lost_checkpoint_adds_nothing(kept: Kept) -> None:
    assert kept.without_checkpoint["messages"] == 0
    assert kept.without_checkpoint["lake_messages"] == COUNT


def test_nothing_is_left_that_is_not_published(kept: Kept) -> None:
    assert not kept.command.staged_files()
    listed = len(list(kept.command.lake.glob("**/*.parquet")))
    assert listed == kept.without_checkpoint["lake_files"]


def test_the_group_is_where_the_lake_is(kept: Kept) -> None:
    with TopicReader(kept.cluster.name_server) as reader:
        queues = reader.queues(kept.topic)
        ends = {queue: each.max_offset for queue, each in reader.bounds(queues).items()}
        assert reader.committed(GROUP, queues) == ends
