"""A Delta table in S3 has each message once, though drivers and a compactor are killed.

Nothing but the table knows what it has: there is no checkpoint.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.compact import CompactPlan, CompactReport, compact
from roquet.pipeline.jobs.ingest import IngestPlan, IngestReport, ingest
from roquet.pipeline.lake.places import S3Location, Storage
from roquet.pipeline.sql.query import run_sql
from roquet.pipeline.sql.tables import LakeTables
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import let_run, wait_until
from tests.support.ingest_command import IngestCommand
from tests.support.lake_rows import Found
from tests.support.s3_store import S3Store

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
COUNT = 60_000 if IS_LONG else 1_000
STEP = COUNT // 10
COMMITS = 3
_PATIENCE_S = 300

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("kills jobs of Spark again and again"),
]


class Survived(NamedTuple):
    store: S3Store
    lake: S3Location
    topic: str
    sent: Found
    # Commits when the first driver was killed, and what two at once reported then.
    killed_at: int
    at_once: list[dict[str, Any]]
    compacted: CompactReport
    last: IngestReport


@pytest.fixture(scope="module")
def survived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survived]:
    directory = tmp_path_factory.mktemp("delta")
    with BlockingCluster() as cluster, S3Store() as store:
        topic = cluster.new_topic("orders", queues=3)
        with Producer(cluster.name_server, "sellers") as producer:
            receipts = [producer.send(Message(topic, b"%d" % each)) for each in range(COUNT)]
        sent = Counter((each.queue.queue_id, each.queue_offset) for each in receipts)
        lake = store.location_with_file("lake", directory)
        command = IngestCommand(cluster.name_server, topic, directory, lake)
        command.run_until(
            lambda: commit_count(store) > COMMITS,
            *("--format=delta", "--available-now", "--master=local[2]"),
            *("--max-offsets-per-trigger", str(STEP)),
            end_by=signal.SIGKILL,
        )
        killed_at = commit_count(store)
        with ThreadPoolExecutor(2) as pool:
            steps = (STEP * 2 + 7, STEP * 3)
            running = [
                pool.submit(command.run, "--available-now", "--max-offsets-per-trigger", str(step))
                for step in steps
            ]
            at_once = [each.result() for each in running]
        _kill_while_it_compacts(store, lake)
        soon = datetime.now(UTC) + timedelta(hours=2)
        compacted = compact(spark, CompactPlan(lake=lake, now=soon))
        source = {"nameServer": cluster.name_server, "topic": topic}
        last = ingest(spark, IngestPlan(source=source, lake=lake, available_now=True))
        yield Survived(store, lake, topic, sent, killed_at, at_once, compacted, last)


def commit_count(store: S3Store) -> int:
    # Each look is a request, and the job under test needs the same server.
    let_run(0.3)
    return sum(each.endswith(".json") for each in store.keys("lake/_delta_log/"))


def has_compacted_file(store: S3Store) -> bool:
    let_run(0.3)
    return any("compacted-" in each for each in store.keys("lake/"))


def _kill_while_it_compacts(store: S3Store, lake: S3Location) -> None:
    """The command, once it has written a file; the hour that is not over counts as over."""
    program = (
        "import roquet.pipeline.jobs.compact as job;"
        "from datetime import timedelta;"
        "job.GRACE_DEFAULT = timedelta(hours=-2);"
        "from roquet.cli.main import main; main()"
    )
    arguments = ["--lake", str(lake), "--storage-options", str(lake.options_file)]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "spark", "compact", *arguments, "--json"],
        env={key: value for key, value in os.environ.items() if "PYSPARK" not in key},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: process.poll() is not None or has_compacted_file(store),
            _PATIENCE_S,
        )
    finally:
        process.kill()
        process.wait()


def test_the_kill_came_in_the_middle(survived: Survived) -> None:
    assert survived.killed_at > COMMITS
    assert 0 < sum(each["messages"] for each in survived.at_once) < COUNT


def test_the_table_has_each_message_once(survived: Survived) -> None:
    storage = Storage(survived.lake)
    table = DeltaTable(storage.url, storage_options=storage.options).to_pyarrow_table()
    found = zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True)
    assert Counter(found) == survived.sent
    assert set(table["topic"].to_pylist()) == {survived.topic}


def test_duckdb_finds_each_message_once(survived: Survived) -> None:
    statement = f'select queueId, queueOffset from "{survived.topic}"'  # noqa: S608
    with run_sql(statement, LakeTables(survived.lake)) as result:
        assert Counter(map(tuple, result.rows)) == survived.sent


def test_nothing_was_missing_in_the_end(survived: Survived) -> None:
    assert survived.last.messages == 0
    assert survived.last.lake_messages == COUNT
    assert survived.compacted.is_complete
    assert survived.last.lake_files <= 2
