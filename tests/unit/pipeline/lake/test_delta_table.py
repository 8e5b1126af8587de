"""A lake that is a table of Delta: what the log says is in the table, once."""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from tests.support.killed_step import Killed, killed_at
from tests.support.lake_rows import (
    Found,
    compact_all,
    message_batch,
    publish_small_files,
    staged_rows,
)

SETTINGS = LakeSettings(file_rows_max=100, format=LakeFormat.DELTA)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake", SETTINGS) as opened:
        yield opened


def found_by_delta(lake: Path) -> Found:
    table = DeltaTable(str(lake)).to_pyarrow_table(columns=["queueId", "queueOffset"])
    return Counter(zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True))


@pytest.mark.slow
def test_each_entry_is_a_transaction_with_its_number(lake: Lake) -> None:
    sent = publish_small_files(lake, hours=2, files=2, rows=3)
    assert found_by_delta(lake.path) == sent
    table = DeltaTable(str(lake.path))
    assert table.transaction_version(lake.settings.id) == lake.state.entry_number == 8
    assert table.to_pyarrow_table().column("topic").unique().to_pylist() == ["orders"]
    assert sorted(table.to_pyarrow_table().column("hour").unique().to_pylist()) == [12, 13]


@pytest.mark.slow
def test_a_publisher_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    rows = message_batch(0, range(3))
    sent = Counter((0, offset) for offset in range(3))
    for step in count(1):
        path = tmp_path / str(step)
        lake = Lake.open(path, SETTINGS)
        staged = staged_rows(lake, rows)
        try:
            with killed_at(step):
                lake.publish(staged)
        except Killed:
            os.close(lake._lock)
        else:
            lake.close()
            break
        with Lake.open_existing(path) as again:
            if again.state.entry_number:
                assert found_by_delta(path) == sent
            else:
                assert not found_by_delta(path)
                again.publish(staged_rows(again, rows))
        Lake.open_existing(path).close()
        assert found_by_delta(path) == sent
    assert step > 3


def test_an_entry_that_the_table_lacks_gets_there_when_the_lake_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(tmp_path, SETTINGS)
    lake.publish(staged_rows(lake, message_batch(0, range(3))))
    with monkeypatch.context() as patched:
        # As if it died before the table is written.
        patched.setattr(DeltaTable, "create_write_transaction", _killed)
        with pytest.raises(Killed):
            lake.publish(staged_rows(lake, message_batch(0, range(3, 6))))
    os.close(lake._lock)
    assert sum(found_by_delta(tmp_path).values()) == 3
    for _ in range(2):
        Lake.open_existing(tmp_path).close()
        assert found_by_delta(tmp_path) == Counter((0, offset) for offset in range(6))


def _killed(*_arguments: object, **_named: object) -> None:
    raise Killed


def test_compacted_files_replace_others_and_older_versions_can_be_read(
    lake: Lake,
) -> None:
    sent = publish_small_files(lake, hours=1, files=3, rows=2)
    before = DeltaTable(str(lake.path)).version()
    compact_all(lake)
    table = DeltaTable(str(lake.path))
    assert found_by_delta(lake.path) == sent
    assert len(table.file_uris()) == 1
    assert DeltaTable(str(lake.path), version=before).to_pyarrow_table().num_rows == 12
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert found_by_delta(lake.path) == sent
    lake.close()
    again = Lake.open_existing(lake.path)
    assert again.state.row_count == 12
    lake._lock = again._lock


def test_columns_of_bodies_are_added_to_the_table(lake: Lake) -> None:
    lake.publish(staged_rows(lake, message_batch(0, [0])))
    columns = JsonColumns("price int, who struct<name:string>")
    body = b'{"price": 5, "who": {"name": "x"}}'
    later = message_batch(0, [1], bodies=[body])
    lake.publish(staged_rows(lake, later, columns), columns.ddl)
    table = DeltaTable(str(lake.path)).to_pyarrow_table().sort_by("queueOffset")
    assert table["price"].to_pylist() == [None, 5]
    assert table["who"].to_pylist() == [None, {"name": "x"}]


def test_a_table_that_another_program_broke_is_reported(lake: Lake) -> None:
    for path in (lake.path / "_delta_log").iterdir():
        path.write_text("{}")
    with pytest.raises(BadLake, match="Delta table"):
        lake.publish(staged_rows(lake, message_batch(0, [0])))
