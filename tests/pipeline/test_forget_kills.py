"""Newest rows and removed rows in S3, though drivers are killed at random moments."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.forget import ForgetPlan, ForgetReport, forget
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.lake.opening import open_existing_lake
from roquet.pipeline.lake.places import LakePlace, S3Location, Storage, beside
from roquet.pipeline.lake.staging import LATEST_SUFFIX, TableStaging
from roquet.pipeline.lake.table import TableLake
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import let_run, wait_until
from tests.support.ingest_command import IngestCommand
from tests.support.table_places import catalog_for, table_place

COUNT = 600
KEYS = 40
FORGOTTEN = "key-7"
_PATIENCE_S = 300

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("kills jobs of Spark again and again"),
]


class Survived(NamedTuple):
    lake: LakePlace
    newest: dict[str, bytes]
    found: list[tuple[str, bytes]]
    report: ForgetReport
    left: set[str]


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def survived(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Survived]:
    table_format: str = request.param
    directory = tmp_path_factory.mktemp("kills")
    moments = random.Random(0)
    with BlockingCluster() as cluster, table_place("s3", directory) as lake:
        topic = cluster.new_topic("orders", queues=1)
        newest = send(cluster, topic)
        command = IngestCommand(cluster.name_server, topic, directory, lake)
        catalog = catalog_for(table_format, lake, directory)
        options = ["--format", table_format, "--latest-by=keys", "--available-now"]
        options += ["--master=local[2]", "--max-offsets-per-trigger", str(COUNT // 20)]
        options += ["--catalog", catalog] if catalog else []
        for _ in range(2):
            # Of the files that the driver and its tasks write to both tables.
            more = file_count(lake) + moments.randrange(2, 8)
            command.run_until(partial(has_files, lake, more), *options, end_by=signal.SIGKILL)
        source = {"nameServer": cluster.name_server, "topic": topic}
        plan = IngestPlan(source=source, lake=lake, available_now=True)
        ingest(spark, plan)
        found = newest_rows(lake)
        kill_while_it_forgets(lake, file_count(lake) + moments.randrange(1, 6))
        report = forget(spark, ForgetPlan(lake=lake, key=FORGOTTEN))
        ingest(spark, plan)
        left = {key for each in paths(lake) for key in keys_in(lake, each)}
        yield Survived(lake, newest, found, report, left)


def send(cluster: BlockingCluster, topic: str) -> dict[str, bytes]:
    newest = {}
    with Producer(cluster.name_server, "sellers") as producer:
        for number in range(COUNT):
            key, body = f"key-{number * 7 % KEYS}", b"%d" % number
            producer.send(Message(topic, body, keys=[key]))
            newest[key] = body
    return newest


def paths(lake: LakePlace) -> list[str]:
    """Of all files of messages, listed or not, of the lake and of what is beside it."""
    assert isinstance(lake, S3Location)
    found = []
    for place in (lake, beside(lake, LATEST_SUFFIX), beside(lake, "-quarantine")):
        storage = Storage(place)
        selector = fs.FileSelector(storage.root, recursive=True, allow_not_found=True)
        listed = storage.filesystem.get_file_info(selector)
        found += [each.path for each in listed if "/topic=" in each.path and each.is_file]
    return found


def file_count(lake: LakePlace) -> int:
    # Each look is a request, and the job under test needs the same server.
    let_run(0.2)
    return len(paths(lake))


def has_files(lake: LakePlace, count: int) -> bool:
    return file_count(lake) >= count


def keys_in(lake: LakePlace, path: str) -> list[str]:
    with pq.ParquetFile(path, filesystem=Storage(lake).filesystem) as file:
        keys: list[str] = file.read(["keys"])["keys"].to_pylist()
    return keys


def newest_rows(place: LakePlace) -> list[tuple[str, bytes]]:
    lake = open_existing_lake(place)
    assert isinstance(lake, TableLake)
    table = lake.tables[LATEST_SUFFIX]
    table.refresh()
    staging = TableStaging(beside(place, LATEST_SUFFIX))
    rows = []
    for each in table.files():
        with staging.read(each.path) as file:
            rows += file.read(["keys", "body"]).to_pylist()
    return [(row["keys"], row["body"]) for row in rows]


def kill_while_it_forgets(lake: LakePlace, files: int) -> None:
    assert isinstance(lake, S3Location)
    place = ("--lake", str(lake), "--storage-options", str(lake.options_file))
    start = (sys.executable, "-c", "from roquet.cli.main import main; main()", "spark", "forget")
    process = subprocess.Popen(
        [*start, *place, "--key", FORGOTTEN],
        env={key: value for key, value in os.environ.items() if "PYSPARK" not in key},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: process.poll() is not None or has_files(lake, files), _PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def test_each_key_has_its_newest_row_once(survived: Survived) -> None:
    assert len(survived.found) == KEYS
    assert dict(survived.found) == survived.newest


def test_what_is_forgotten_is_in_no_file(survived: Survived) -> None:
    assert survived.report.is_complete
    assert [each.rows_left for each in survived.report.tables] == [0, 0, 0]
    assert survived.left == survived.newest.keys() - {FORGOTTEN}
