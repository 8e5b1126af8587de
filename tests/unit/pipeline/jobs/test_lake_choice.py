"""What a job wants and what a lake is have to agree."""

from pathlib import Path

import pytest

from roquet.pipeline.errors import BadLake, BadSchema
from roquet.pipeline.jobs.lake_choice import check_settings, format_of, json_columns_of
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.settings import LakeFormat, LakeSettings
from tests.support.lake_rows import message_batch, staged_rows


def test_a_lake_stays_what_it_is_unless_something_else_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    assert format_of(path, None) is LakeFormat.PARQUET
    Lake.open(path, LakeSettings(format=format_of(path, "delta"))).close()
    assert format_of(path, None) is LakeFormat.DELTA
    with pytest.raises(BadLake, match="was made with format 'delta', not 'parquet'"):
        check_settings(path, LakeSettings(format=format_of(path, "parquet")))


def test_without_the_library_delta_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.pipeline.lake.delta_table.find_spec", lambda _: None)
    with pytest.raises(BadLake, match=r"pip install roquet\[delta\]"):
        format_of(tmp_path, "delta")


def test_bodies_are_decoded_as_before_unless_columns_are_added(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    assert json_columns_of(path, None) is None
    columns = JsonColumns("a int")
    with Lake.open(path, LakeSettings()) as lake:
        assert json_columns_of(path, None) is None
        rows = message_batch(0, [0], bodies=[b"{}"])
        lake.publish(staged_rows(lake, rows, columns), columns.ddl)
    kept = json_columns_of(path, None)
    assert kept is not None
    assert kept.ddl == columns.ddl
    assert json_columns_of(path, "a int, b string") is not None
    with pytest.raises(BadSchema, match="'a'"):
        json_columns_of(path, "b string")
