"""A table has each message once, though drivers, tasks and a compactor are killed.

Nothing but the table knows what it has: checkpoints are lost, or there is none.
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
from pyarrow import fs
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.compact import CompactPlan, CompactReport, compact
from roquet.pipeline.jobs.ingest import IngestPlan, IngestReport, ingest
from roquet.pipeline.lake.places import LakePlace, Storage, options_file_of
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
from roquet.testing.blocking import BlockingCluster
from tests.support.descendants import descendants, has_words
from tests.support.eventually import let_run, wait_until
from tests.support.gates import IS_LONG
from tests.support.ingest_command import IngestCommand
from tests.support.lake_rows import Found
from tests.support.table_judges import JUDGES, found_in
from tests.support.table_places import catalog_for, table_place

COUNT = 60_000 if IS_LONG else 1_000
STEP = COUNT // 10
COMMITS = 3
_PATIENCE_S = 300
# Each commit makes one.
_COMMIT_FILES = {"delta": ("_delta_log", ".json"), "iceberg": ("metadata", ".metadata.json")}

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("kills jobs of Spark again and again"),
]


class Survived(NamedTuple):
    table_format: str
    lake: LakePlace
    topic: str
    sent: Found
    # Commits when the first driver was killed; then two ran at once, one of which lost a worker.
    killed_at: int
    killed_workers: list[int]
    at_once: list[dict[str, Any]]
    compacted: CompactReport
    last: IngestReport


@pytest.fixture(
    scope="module",
    params=[("delta", "faulty-s3"), ("iceberg", "directory"), ("iceberg", "s3")],
    ids="-".join,
)
def survived(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Survived]:
    table_format, where = request.param
    directory = tmp_path_factory.mktemp("kills")
    with BlockingCluster() as cluster, table_place(where, directory) as lake:
        topic = cluster.new_topic("orders", queues=3)
        with Producer(cluster.name_server, "sellers") as producer:
            receipts = [producer.send(Message(topic, b"%d" % each)) for each in range(COUNT)]
        sent = Counter((each.queue.queue_id, each.queue_offset) for each in receipts)
        command = IngestCommand(cluster.name_server, topic, directory, lake)
        catalog = catalog_for(table_format, lake, directory)
        command.run_until(
            lambda: commit_count(table_format, lake) > COMMITS,
            *(f"--format={table_format}", *(["--catalog", catalog] if catalog else [])),
            # It is never used again: what counts is what the table has.
            *("--checkpoint", "lost", "--available-now", "--master=local[2]"),
            *("--max-offsets-per-trigger", str(STEP)),
            end_by=signal.SIGKILL,
        )
        killed_at = commit_count(table_format, lake)
        killed: list[int] = []
        at_once = _run_at_once(command, killed)
        _kill_while_it_compacts(lake)
        soon = datetime.now(UTC) + timedelta(hours=2)
        compacted = compact(spark, CompactPlan(lake=lake, now=soon))
        source = {"nameServer": cluster.name_server, "topic": topic}
        last = ingest(spark, IngestPlan(source=source, lake=lake, available_now=True))
        yield Survived(table_format, lake, topic, sent, killed_at, killed, at_once, compacted, last)


def _run_at_once(command: IngestCommand, killed: list[int]) -> list[dict[str, Any]]:
    """Two drivers that want the same messages; a Python process of one is killed with its task."""

    def workers(process_id: int) -> list[int]:
        return [each for each in descendants(process_id) if has_words(each, "pyspark.worker")]

    def kill_worker(process_id: int) -> None:
        # The first one forks those that run tasks.
        wait_until(lambda: len(workers(process_id)) > 1, _PATIENCE_S)
        killed.append(max(workers(process_id)))
        os.kill(killed[-1], signal.SIGKILL)

    def options(step: int) -> tuple[str, ...]:
        # A task may fail: local masters give up after the first time, unless told otherwise.
        return ("--available-now", "--master=local[2,4]", "--max-offsets-per-trigger", str(step))

    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(command.run, *options(STEP * 3))
        mine = pool.submit(
            command.run_through, [(lambda: True, kill_worker)], *options(STEP * 2 + 7)
        )
        return [mine.result(), other.result()]


def commit_count(table_format: str, lake: LakePlace) -> int:
    # Each look is a request, and the job under test needs the same server.
    let_run(0.3)
    directory, suffix = _COMMIT_FILES[table_format]
    return sum(each.endswith(suffix) for each in _paths(lake, directory))


def has_compacted_file(lake: LakePlace) -> bool:
    let_run(0.3)
    return any("compacted-" in each for each in _paths(lake))


def _paths(lake: LakePlace, directory: str = "") -> list[str]:
    storage = Storage(lake)
    below = storage.path(directory).rstrip("/")
    selector = fs.FileSelector(below, recursive=True, allow_not_found=True)
    return [each.path for each in storage.filesystem.get_file_info(selector)]


def _kill_while_it_compacts(lake: LakePlace) -> None:
    """The command, once it has written a file; the hour that is not over counts as over."""
    program = (
        "import roquet.pipeline.jobs.compact as job;"
        "from datetime import timedelta;"
        "job.GRACE_DEFAULT = timedelta(hours=-2);"
        "from roquet.cli.main import main; main()"
    )
    file = options_file_of(lake)
    arguments = ["--lake", str(lake), *(["--storage-options", str(file)] if file else [])]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "spark", "compact", *arguments, "--json"],
        env={key: value for key, value in os.environ.items() if "PYSPARK" not in key},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: process.poll() is not None or has_compacted_file(lake), _PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def test_the_kills_came_in_the_middle(survived: Survived) -> None:
    assert survived.killed_at > COMMITS
    assert len(survived.killed_workers) == 1
    assert 0 < sum(each["messages"] for each in survived.at_once) < COUNT


def test_the_table_has_each_message_once(survived: Survived) -> None:
    rows = JUDGES[survived.table_format].rows(survived.lake)
    assert found_in(rows) == survived.sent
    assert set(rows["topic"].to_pylist()) == {survived.topic}


def test_duckdb_finds_each_message_once(survived: Survived) -> None:
    statement = f'select queueId, queueOffset from "{survived.topic}"'  # noqa: S608
    with run_sql(statement, LakeTables(survived.lake)) as result:
        assert Counter(map(tuple, result.rows)) == survived.sent


def test_nothing_was_missing_in_the_end(survived: Survived) -> None:
    assert survived.last.messages == 0
    assert survived.last.lake_messages == COUNT
    assert survived.compacted.is_complete
    # The hour may have changed meanwhile.
    assert survived.last.lake_files <= 2
