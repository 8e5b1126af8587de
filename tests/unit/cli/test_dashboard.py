"""The lakes that a dashboard shows, read by their logs; and what it may not start with."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roquet.cli.lake_reports import LakeReporter
from roquet.client.arguments import utc
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.files import HIDDEN_PARTITIONING, PARTITIONING
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import open_lake
from tests.support.command_line import roquet
from tests.support.lake_rows import compact_all, message_batch, staged_rows
from tests.support.written_lakes import PUBLISHED_MS, compact, new_lake, piece, publish


def test_a_lake_is_reported_by_its_log(tmp_path: Path) -> None:
    log = new_lake(tmp_path / "lake")
    reader = LakeReporter(tmp_path / "lake")
    assert reader.read().last_batch is None
    publish(log, piece("orders", 0, 0, 10))
    publish(log, piece("orders", 0, 10, 15), piece("orders", 1, 0, 7))
    found = reader.read()
    assert (found.rows, found.files, found.size, found.quarantined) == (22, 3, 3000, 0)
    assert (found.last_rows, found.last_files) == (12, 2)
    assert found.last_batch == utc(PUBLISHED_MS + 2)
    assert found.topics == ["orders"]
    assert found.ends == {
        QueueRef("orders", "broker-a", 0): 15,
        QueueRef("orders", "broker-a", 1): 7,
    }


def test_a_compaction_is_no_batch(tmp_path: Path) -> None:
    log = new_lake(tmp_path)
    publish(log, piece("orders", 0, 0, 10))
    reader = LakeReporter(tmp_path)
    reader.read()
    compact(log, "topic=orders/all.parquet")
    found = reader.read()
    assert (found.files, found.size, found.last_rows) == (1, 500, 10)
    assert found.last_batch == utc(PUBLISHED_MS + 1)


def test_a_lake_that_is_missing_is_named_and_may_appear_and_be_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "lake"
    reader = LakeReporter(directory)
    with pytest.raises(BadLake, match="lake"):
        reader.read()
    publish(new_lake(directory), piece("orders", 0, 0, 10))
    assert reader.read().rows == 10
    shutil.rmtree(directory)
    new_lake(directory)
    assert reader.read().rows == 0


@pytest.mark.parametrize("lake_format", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_a_table_is_reported_by_what_it_lists(lake_format: LakeFormat, tmp_path: Path) -> None:
    reporter = LakeReporter(tmp_path / "lake")
    partitioning = HIDDEN_PARTITIONING if lake_format is LakeFormat.ICEBERG else PARTITIONING
    settings = LakeSettings(file_rows_max=100, format=lake_format, partitioning=partitioning)
    with open_lake(tmp_path / "lake", settings) as lake:
        lake.publish(staged_rows(lake, message_batch(0, range(10))))
        assert reporter.read().last_batch is None, "what was there before is no batch"
        lake.publish(staged_rows(lake, message_batch(0, range(10, 15))))
        found = reporter.read()
        assert (found.rows, found.files, found.quarantined) == (15, 2, 0)
        assert (found.last_rows, found.last_files) == (5, 1)
        assert found.ends == {QueueRef("orders", "broker-a", 0): 15}
        compact_all(lake)
    compacted = reporter.read()
    assert (compacted.files, compacted.last_rows) == (1, 5)
    assert compacted.last_batch == found.last_batch is not None


def test_a_lake_that_cannot_be_is_refused_before_anything_is_shown() -> None:
    finished = roquet("dashboard", "-n", "127.0.0.1:1", "--lake", "ftp://messages/lake")
    assert finished.exit_code == 2
    assert "ftp://messages/lake" in finished.stderr


def test_lakes_are_read_without_spark(tmp_path: Path) -> None:
    new_lake(tmp_path)
    program = (
        "import sys; from pathlib import Path; from roquet.cli.lake_reports import LakeReporter;"
        f" LakeReporter(Path({str(tmp_path)!r})).read(); print('pyspark' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert output == b"False\n"


def test_servers_without_a_dashboard_load_nothing_of_it() -> None:
    program = (
        "import sys; from importlib import import_module\n"
        "for name in ('broker.server', 'broker.supervisor', 'namesrv.server', 'grpc',"
        " 'cli.serving.up_cluster', 'cli.broker', 'cli.namesrv', 'cli.up'):\n"
        "    import_module('roquet.' + name)\n"
        "print(sorted(each for each in sys.modules"
        " if each.startswith(('roquet.dashboard', 'jinja2', 'aiohttp'))))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert output == b"[]\n"
