"""A cluster whose machines share nothing runs everything by an archive: a master and two workers.

Compiled modules cannot be imported from a zip, and classes are unpickled by name in executors: so
both would fail where the archive is not unpacked, or not found. Executors see no directory of the
driver nor of each other, and the lake is in S3.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from roquet.testing.blocking import BlockingCluster
from tests.support import cluster_driver
from tests.support.command_line import roquet
from tests.support.drafts import draft
from tests.support.s3_store import S3Store
from tests.support.standalone_spark import StandaloneSpark, missing_namespaces
from tests.support.stores import opened

COUNT = 3000
# Everything that the driver does, on a busy machine.
PATIENCE_S = 900
LAKE = "s3://messages/lake"

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("starts a cluster of Spark"),
    pytest.mark.skipif(missing_namespaces() is not None, reason=str(missing_namespaces())),
]


class Seen(NamedTuple):
    spark: StandaloneSpark
    found: dict[str, Any]
    s3: S3Store


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("cluster")
    with (
        S3Store() as s3,
        BlockingCluster() as cluster,
        StandaloneSpark(directory, 2) as spark,
    ):
        here = spark.driver_directory
        archive = here / "site.zip"
        finished = roquet("spark", "package", archive, "--json")
        assert finished.exit_code == 0, finished.stderr
        assert json.loads(finished.stdout)["path"] == str(archive)
        with opened(here / "store") as store:
            store.append(draft())
        given = {
            "archive": str(archive),
            "directory": str(here),
            "master": spark.master,
            "name_server": cluster.name_server,
            "source": cluster.new_topic(),
            "target": cluster.new_topic(),
            "count": str(COUNT),
            "lake": LAKE,
            "store": str(here / "store"),
            "stored_topic": "TopicA",
        }
        driver = subprocess.run(
            [sys.executable, cluster_driver.__file__, json.dumps(given)],
            cwd=here,
            env=spark.driver_environment() | s3.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert driver.returncode == 0, f"{driver.stderr}\n{spark.log_tail()}"
        yield Seen(spark, json.loads(driver.stdout), s3)


def test_executors_have_roquet_from_the_archive_alone(seen: Seen) -> None:
    places = {Path(each) for each in seen.found["places"]}
    assert all(each.is_relative_to(seen.spark.work_directory) for each in places)
    assert {each.parent.parent.name for each in places} == {"site"}


def test_a_batch_is_written_and_read(seen: Seen) -> None:
    assert seen.found["batch"] == [*range(COUNT)]


def test_a_filter_that_is_pushed_down_leaves_the_same_rows(seen: Seen) -> None:
    pushed, evaluated = seen.found["filtered"]
    assert pushed == evaluated
    assert 0 < len(pushed) < COUNT


def test_a_stream_is_exact_though_an_executor_is_killed(seen: Seen) -> None:
    executors = list(seen.spark.work_directory.glob("*/app-*/*/stderr"))
    assert len(executors) > 2
    assert seen.found["copied"] == [*range(COUNT)]


def test_a_lake_in_s3_is_filled(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen.found["ingest"]["lake_messages"] == COUNT
    seen.s3.use(monkeypatch)
    table = DeltaTable(LAKE).to_pyarrow_table(columns=["body"])
    assert sorted(int(body) for body in table["body"].to_pylist()) == [*range(COUNT)]


def test_an_audit_finds_the_lake_right(seen: Seen) -> None:
    side = seen.found["audit"]
    assert (side["sent"], side["found"]) == (COUNT, COUNT)
    assert not any(side[each] for each in ("missing", "twice", "unexpected", "out_of_order"))


@pytest.mark.parametrize("what", ["lake", "store"])
def test_a_directory_that_executors_do_not_see_is_named(seen: Seen, what: str) -> None:
    text = seen.found["failures"][what]
    assert "does not see" in text
    assert str(seen.spark.driver_directory) in text
    assert "\n" not in text
