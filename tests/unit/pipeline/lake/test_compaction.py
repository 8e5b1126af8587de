"""Files are compacted, and concurrent readers see each message once or fail."""

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Thread

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.compaction import in_rounds, planned_compactions, write_compaction
from roquet.pipeline.lake.entries import LakeFile
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from tests.support.killed_step import Killed, killed_at
from tests.support.lake_rows import (
    NOON,
    Found,
    compact_all,
    found_by_arrow,
    found_by_duckdb,
    message_batch,
    publish_small_files,
    staged_rows,
)

DIRECTORY = "topic=orders/dt=2026-11-16/hour=12"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake", LakeSettings(file_rows_max=100)) as opened:
        yield opened


def a_file(name: str, size: int = 10, directory: str = DIRECTORY) -> LakeFile:
    return LakeFile(f"{directory}/{name}.parquet", "", 1, size)


def test_files_of_hours_that_are_over_are_compacted_up_to_a_size_in_the_order_of_offsets() -> None:
    files = [
        a_file("o-b-0-100-200"),
        a_file("o-b-0-0-100"),
        a_file("o-b-0-9-20"),
        a_file("big", 25),
    ]
    over = NOON + timedelta(hours=1)
    assert planned_compactions(files, over - timedelta(seconds=1), 25) == []
    [compaction] = planned_compactions(files, over, 25)
    assert [file.path.rpartition("/")[2] for file in compaction.files] == [
        "o-b-0-0-100.parquet",
        "o-b-0-9-20.parquet",
    ]


def test_a_file_that_is_alone_in_its_hour_stays() -> None:
    other = DIRECTORY.replace("12", "13")
    files = [a_file("a"), a_file("b", directory=other)]
    assert planned_compactions(files, NOON + timedelta(days=1), 100) == []


def test_a_directory_is_never_in_two_rounds() -> None:
    files = [a_file(f"o-b-0-{number}-9") for number in range(8)]
    compactions = planned_compactions(files, NOON + timedelta(days=1), 20)
    assert len(compactions) == 4
    assert list(in_rounds(compactions, 1)) == [compactions]


def test_every_message_is_there_once_afterwards_and_later_ones_come_beside_them(
    lake: Lake,
) -> None:
    sent = publish_small_files(lake, hours=2, files=5, rows=10)
    compact_all(lake)
    assert len(lake.state.files) == len(list(lake.path.rglob("*.parquet"))) == 2
    assert found_by_arrow(lake.path) == found_by_duckdb(lake.path) == sent
    lake.publish(staged_rows(lake, message_batch(5, range(100, 110))))
    sent.update((5, offset) for offset in range(100, 110))
    assert found_by_arrow(lake.path) == sent
    assert compact_all(lake) == 1
    assert found_by_arrow(lake.path) == sent
    assert [each.name for each in lake.path.parent.iterdir()] == ["lake"]


def test_files_that_others_put_there_stay(lake: Lake) -> None:
    publish_small_files(lake, hours=1, files=2, rows=3)
    note = lake.path / DIRECTORY / "read-me.txt"
    note.write_text("mine")
    compact_all(lake)
    assert note.read_text() == "mine"


def test_a_column_that_was_added_later_is_null_in_earlier_rows(lake: Lake) -> None:
    lake.publish(staged_rows(lake, message_batch(0, [0, 1])))
    later = message_batch(0, [2], bodies=[b'{"price": 5}'])
    lake.publish(staged_rows(lake, later, JsonColumns("price int")))
    compact_all(lake)
    [path] = lake.state.files
    table = pq.read_table(lake.path / path, partitioning=None)
    assert table["queueOffset"].to_pylist() == [0, 1, 2]
    assert table["price"].to_pylist() == [None, None, 5]


def test_files_that_are_gone_or_not_what_the_log_says_are_not_compacted(lake: Lake) -> None:
    publish_small_files(lake, hours=1, files=2, rows=3)
    [compaction] = planned_compactions(lake.state.files.values(), NOON + timedelta(days=1), 1 << 30)
    path = lake.path / compaction.files[0].path
    pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)
    with pytest.raises(BadLake, match="messages"):
        write_compaction(lake.staging, compaction, (9, 0))
    path.write_bytes(b"PAR1")
    with pytest.raises(BadLake, match="cannot be compacted"):
        write_compaction(lake.staging, compaction, (9, 0))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        write_compaction(lake.staging, compaction, (9, 0))


def _read(lake: Path) -> Found | None:
    """None for a reader that says that its files are gone."""
    try:
        return found_by_arrow(lake)
    except FileNotFoundError:
        return None


@pytest.mark.slow
def test_a_reader_never_sees_a_message_twice_or_too_few_while_files_are_compacted(
    lake: Lake,
) -> None:
    sent = publish_small_files(lake, hours=12, files=3, rows=4)
    compactor = Thread(target=compact_all, args=[lake])
    seen: list[Found | None] = []
    compactor.start()
    while compactor.is_alive():
        seen.append(_read(lake.path))
        try:
            seen.append(found_by_duckdb(lake.path))
        except duckdb.IOException:
            seen.append(None)
    compactor.join()
    seen.append(_read(lake.path))
    assert all(found in (None, sent) for found in seen)
    assert seen[-1] == sent
    assert len(lake.state.files) == 12


@pytest.mark.slow
def test_compaction_may_be_killed_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kill is no power cut, and most of the time would be spent waiting for the disk.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with Lake.open(tmp_path / "lake", LakeSettings(file_rows_max=100)) as made:
        sent = publish_small_files(made, hours=1, files=3, rows=3)
    for step in count(1):
        path = tmp_path / str(step) / "lake"
        shutil.copytree(tmp_path / "lake", path)
        lake = Lake.open_existing(path)
        try:
            with killed_at(step):
                compact_all(lake)
        except Killed:
            os.close(lake._lock)
        else:
            lake.close()
            break
        assert found_by_arrow(path) == found_by_duckdb(path) == sent, step
        with Lake.open_existing(path) as again:
            assert found_by_arrow(path) == found_by_duckdb(path) == sent, step
            compact_all(again)
        assert found_by_arrow(path) == found_by_duckdb(path) == sent, step
        assert len(list(path.rglob("*.parquet"))) == 1
        shutil.rmtree(path.parent)
    assert step > 10


def test_a_compacted_file_has_the_same_columns(lake: Lake) -> None:
    publish_small_files(lake, hours=1, files=2, rows=3)
    [before, *_] = [pq.read_schema(lake.path / path) for path in lake.state.files]
    compact_all(lake)
    [after] = [pq.read_schema(lake.path / path) for path in lake.state.files]
    assert after.equals(before)
    assert isinstance(after, pa.Schema)
