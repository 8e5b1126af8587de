"""A cluster whose Python has no roquet runs everything by an archive: a master and two workers.

Compiled modules cannot be imported from a zip, and classes are unpickled by name in executors: so
both would fail where the archive is not unpacked, or not found.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest

from roquet.testing.blocking import BlockingCluster
from tests.support import cluster_driver
from tests.support.command_line import roquet
from tests.support.standalone_spark import StandaloneSpark

COUNT = 3000
# Everything that the driver does, on a busy machine.
PATIENCE_S = 500

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("starts a cluster of Spark"),
]


class Seen(NamedTuple):
    spark: StandaloneSpark
    found: dict[str, Any]
    lake: Path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "site.zip"
    finished = roquet("spark", "package", path, "--json")
    assert finished.exit_code == 0, finished.stderr
    assert json.loads(finished.stdout)["path"] == str(path)
    return path


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("cluster")
    with BlockingCluster() as cluster, StandaloneSpark(directory, 2) as spark:
        given = {
            "archive": str(archive),
            "directory": str(directory),
            "master": spark.master,
            "name_server": cluster.name_server,
            "source": cluster.new_topic(),
            "target": cluster.new_topic(),
            "count": str(COUNT),
        }
        driver = subprocess.run(
            [sys.executable, cluster_driver.__file__, json.dumps(given)],
            cwd=directory,
            env=spark.driver_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert driver.returncode == 0, f"{driver.stderr}\n{spark.log_tail()}"
        yield Seen(spark, json.loads(driver.stdout), directory / "lake")


def test_executors_have_roquet_from_the_archive_alone(seen: Seen) -> None:
    places = {Path(each) for each in seen.found["places"]}
    assert all(each.is_relative_to(seen.spark.work_directory) for each in places)
    assert {each.parent.parent.name for each in places} == {"site"}


def test_a_batch_is_written_and_read(seen: Seen) -> None:
    assert seen.found["batch"] == [*range(COUNT)]


def test_a_stream_is_exact_though_an_executor_is_killed(seen: Seen) -> None:
    assert seen.found["killed"]
    assert seen.found["copied"] == [*range(COUNT)]


def test_a_lake_is_filled(seen: Seen) -> None:
    assert seen.found["ingest"]["lake_messages"] == COUNT
    table = ds.dataset(seen.lake, format="parquet", partitioning="hive").to_table(["body"])
    assert sorted(int(body) for body in table["body"].to_pylist()) == [*range(COUNT)]


def test_an_audit_finds_the_lake_right(seen: Seen) -> None:
    side = seen.found["audit"]
    assert (side["sent"], side["found"]) == (COUNT, COUNT)
    assert not any(side[each] for each in ("missing", "twice", "unexpected", "out_of_order"))
