"""The files of lakes of all formats are looked at as tasks do it, without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest

from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.jobs.drift import DriftPlan, LookedAt, check_drift, drift_of_file, files_in
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import files_of_lake, open_lake
from roquet.pipeline.lake.staging import staging_of
from tests.support.lake_rows import TOPIC, message_batch, staged_rows
from tests.support.table_places import new_settings

DDL = "a int"


def filled_lake(lake: Path, table_format: str) -> list[LookedAt]:
    """With a message that has a new field, and one in the quarantine."""
    rows = message_batch(0, range(3), bodies=[b'{"b": 1}', b"no", b'{"b": 2}'])
    rows = rows.append_column("brokerName", pa.array(["broker-a"] * 3))
    with open_lake(lake, new_settings(table_format)) as opened:
        entry = opened.publish(staged_rows(opened, rows, JsonColumns(DDL)), DDL)
        assert entry is not None
        return files_in(entry.added)


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_messages_and_the_quarantine_are_looked_at(tmp_path: Path, table_format: str) -> None:
    files = filled_lake(tmp_path / "lake", table_format)
    assert files == [
        LookedAt(file.path, is_quarantine)
        for is_quarantine in (False, True)
        for file in files_of_lake(tmp_path / "lake", is_quarantine=is_quarantine)
    ]
    staging = staging_of(tmp_path / "lake", LakeFormat(table_format))
    good, bad = (drift_of_file(staging, DDL, None, file) for file in files)
    assert good is not None
    assert [(each.field, sighting.messages) for each, sighting in good.found.items()] == [("b", 2)]
    assert bad is not None
    assert [sighting.example for sighting in bad.found.values()] == ["broker-a@0@1"]
    first = drift_of_file(staging, DDL, 1, files[0])
    assert first is not None
    assert first.messages == 1


def test_a_file_that_is_gone_is_no_error_of_a_task(tmp_path: Path) -> None:
    filled_lake(tmp_path / "lake", "parquet")
    staging = staging_of(tmp_path / "lake", LakeFormat.PARQUET)
    assert drift_of_file(staging, DDL, None, LookedAt("topic=a/gone", is_quarantine=False)) is None


def test_a_lake_without_columns_of_bodies_is_refused(tmp_path: Path) -> None:
    with open_lake(tmp_path / "lake", new_settings("parquet")) as lake:
        lake.publish(staged_rows(lake, message_batch(0, [0])))
    with pytest.raises(BadLake, match="does not decode bodies"):
        check_drift(DriftPlan(lake=tmp_path / "lake"))


def test_a_topic_that_the_lake_does_not_have_is_refused(tmp_path: Path) -> None:
    filled_lake(tmp_path / "lake", "parquet")
    check_drift(DriftPlan(lake=tmp_path / "lake", topics=(TOPIC,)))
    with pytest.raises(BadOption, match="no topic 'other'; it has: orders"):
        check_drift(DriftPlan(lake=tmp_path / "lake", topics=("other",)))
