"""A table of Delta has each message once, though the driver is killed while it is filled."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.ingest import IngestPlan, IngestReport, ingest
from roquet.testing.blocking import BlockingCluster
from tests.support.ingest_command import IngestCommand
from tests.support.lake_rows import Found, found_by_arrow

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
COUNT = 60_000 if IS_LONG else 1_000
STEP = COUNT // 10
COMMITS = 3

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("kills jobs of Spark again and again"),
]


class Survived(NamedTuple):
    lake: Path
    sent: Found
    # What the table and the log of the lake had when the driver was killed.
    killed_in_first: int
    killed_later: int
    # Without the checkpoint, to the end.
    last: IngestReport


@pytest.fixture(scope="module")
def survived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Survived:
    with BlockingCluster() as cluster:
        topic = cluster.new_topic("orders", queues=3)
        with Producer(cluster.name_server, "sellers") as producer:
            receipts = [producer.send(Message(topic, b"%d" % each)) for each in range(COUNT)]
        sent = Counter((each.queue.queue_id, each.queue_offset) for each in receipts)
        command = IngestCommand(cluster.name_server, topic, tmp_path_factory.mktemp("delta"))

        def killed_when(condition: Callable[[], object], step: int, master: str) -> None:
            command.run_until(
                condition,
                *("--format=delta", "--available-now", f"--master={master}"),
                *("--max-offsets-per-trigger", str(step)),
                end_by=signal.SIGKILL,
            )

        if IS_LONG:
            # Before anything is published, a table is no different from other lakes.
            killed_when(command.staged_files, STEP, "local[1]")
        killed_in_first = command.entry_count()
        # With other cores, and batches of another size.
        killed_when(lambda: commit_count(command.lake) > COMMITS, STEP // 2 + 7, "local[2]")
        killed_later = commit_count(command.lake)
        shutil.rmtree(command.checkpoint)
        plan = IngestPlan(
            source={"nameServer": cluster.name_server, "topic": topic},
            lake=command.lake,
            checkpoint=command.checkpoint,
            available_now=True,
        )
        return Survived(command.lake, sent, killed_in_first, killed_later, ingest(spark, plan))


def commit_count(lake: Path) -> int:
    return len(list((lake / "_delta_log").glob("[0-9]*.json")))


def test_the_kills_came_in_the_middle(survived: Survived) -> None:
    assert survived.killed_in_first <= 1
    assert survived.killed_later > COMMITS
    assert 0 < survived.last.messages < COUNT


def test_the_table_has_each_message_once(survived: Survived) -> None:
    table = DeltaTable(str(survived.lake)).to_pyarrow_table()
    found = zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True)
    assert Counter(found) == survived.sent


def test_the_table_has_just_the_files_that_are_there(survived: Survived) -> None:
    files = {Path(each).name for each in DeltaTable(str(survived.lake)).file_uris()}
    assert files == {each.name for each in survived.lake.glob("topic=*/**/*.parquet")}
    assert len(files) == survived.last.lake_files
    assert found_by_arrow(survived.lake) == survived.sent
