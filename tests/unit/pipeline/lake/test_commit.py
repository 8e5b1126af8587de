"""What an entry promises is made true, from wherever it was interrupted."""

import os
from pathlib import Path

import pytest

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.commit import exchange_compacted, move_pieces
from roquet.pipeline.lake.entries import ENTRY_VERSION, Compaction, LakeEntry, LakeFile
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from tests.support.lake_rows import compact_all, found_by_arrow, publish_small_files

DIRECTORY = "topic=orders/dt=2026-11-16/hour=12"


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_lake_whose_parent_is_not_ours_is_compacted_within(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_writable: bool
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: is_writable)
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        sent = publish_small_files(lake, hours=1, files=2, rows=2)
        compact_all(lake)
        assert found_by_arrow(lake.path) == sent
        assert {each.name for each in (lake.path / "_roquet").iterdir()} == {
            *("lake.json", "log", "staged", "writer.lock")
        }
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]


def test_the_mode_of_a_directory_stays(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        publish_small_files(lake, hours=1, files=2, rows=2)
        (lake.path / DIRECTORY).chmod(0o750)
        compact_all(lake)
        assert (lake.path / DIRECTORY).stat().st_mode & 0o777 == 0o750


def test_what_was_finished_can_be_finished_again(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        sent = publish_small_files(lake, hours=1, files=2, rows=2)
        compact_all(lake)
        entry = lake._log.last_entry
        assert entry is not None
        exchange_compacted(lake.path, entry)
        move_pieces(lake.path, entry)
        assert found_by_arrow(lake.path) == sent


def test_a_compacted_file_that_is_gone_is_reported_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir(parents=True)
    old = tmp_path / DIRECTORY / "old.parquet"
    old.touch()
    made = LakeFile(f"{DIRECTORY}/new.parquet", "_roquet/staged/run/x.staged", 1, 1)
    entry = LakeEntry(
        ENTRY_VERSION, 7, 0, compacted=[Compaction([f"{DIRECTORY}/old.parquet"], made)]
    )
    with pytest.raises(BadLake, match="entry 7"):
        exchange_compacted(tmp_path, entry)
    assert old.exists()
