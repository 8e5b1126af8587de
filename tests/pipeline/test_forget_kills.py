"""Newest rows and removed rows in S3, though drivers are killed at random moments."""

import random
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.forget import ForgetPlan, ForgetReport, forget
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.lake.opening import open_existing_lake
from roquet.pipeline.lake.places import LakePlace, Storage, beside
from roquet.pipeline.lake.staging import LATEST_SUFFIX, TableStaging
from roquet.pipeline.lake.table import TableLake
from roquet.testing.blocking import BlockingCluster
from tests.support.ingest_command import IngestCommand
from tests.support.killed_lake_jobs import file_count, has_files, kill_job, paths
from tests.support.table_places import catalog_for, table_place

COUNT = 600
KEYS = 40
FORGOTTEN = "key-7"

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
            command.run_until(has_files(lake, more), *options, end_by=signal.SIGKILL)
        source = {"nameServer": cluster.name_server, "topic": topic}
        plan = IngestPlan(source=source, lake=lake, available_now=True)
        ingest(spark, plan)
        found = newest_rows(lake)
        kill_job(lake, moments.randrange(1, 6), "forget", "--key", FORGOTTEN)
        # Nobody writes any more: what killed jobs left is removed however young it is.
        report = forget(spark, ForgetPlan(lake=lake, key=FORGOTTEN, orphans=timedelta(0)))
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


def test_each_key_has_its_newest_row_once(survived: Survived) -> None:
    assert len(survived.found) == KEYS
    assert dict(survived.found) == survived.newest


def test_what_is_forgotten_is_in_no_file(survived: Survived) -> None:
    assert survived.report.is_complete
    assert [each.rows_left for each in survived.report.tables] == [0, 0, 0]
    assert survived.left == survived.newest.keys() - {FORGOTTEN}
