"""A lake on disk: what is published is there once, whoever dies in between."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from roquet.pipeline.errors import BadLake, BadSchema
from roquet.pipeline.lake import lake as lake_module, metadata
from roquet.pipeline.lake.compaction import planned_compactions, write_compaction
from roquet.pipeline.lake.entries import ENTRY_VERSION, Compaction, LakeEntry, LakeFile
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.lake import (
    Lake,
    LakeRole,
    check_free,
    exchange_compacted,
    move_pieces,
)
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings, PublishLog
from roquet.pipeline.lake.opening import (
    body_schema_of,
    check_settings,
    format_of,
    open_lake,
    settings_of,
)
from roquet.pipeline.lake.schemas.body_schema import BodySchema
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from tests.support.lake_pieces import QUEUE, parquet_names, staged
from tests.support.lake_rows import (
    NOON,
    compact_all,
    found_by_arrow,
    message_batch,
    publish_small_files,
    staged_rows,
)

# Of the error when another process has the same role.
BUSY = "one of a kind at a time"
SETTINGS = LakeSettings(file_rows_max=100)
LATER = NOON + timedelta(days=9)


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_is_published_is_visible_and_survives_a_new_start(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", SETTINGS) as lake:
        lake.publish([staged(lake, 0, 10), staged(lake, 10, 20)])
    with Lake.open(tmp_path / "lake", LakeSettings(file_rows_max=7)) as again:
        assert again.settings == SETTINGS
        assert again.state.covered(QUEUE) == [(0, 20)]
        assert again.state.row_count == 20
    names = ["orders-broker-a-0-0-10.parquet", "orders-broker-a-0-10-20.parquet"]
    assert parquet_names(tmp_path) == names


def test_staged_files_that_no_entry_lists_are_never_seen_and_removed(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as lake:
        staged(lake, 0, 10)
        assert parquet_names(tmp_path) == []
        lake.publish([staged(lake, 0, 10)])
        assert list((tmp_path / "_roquet").rglob("*.staged")) == []
        staged(lake, 10, 20)
    assert list((tmp_path / "_roquet").rglob("*.staged")) == []


def test_a_crash_between_the_entry_and_its_renames_is_made_good(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, SETTINGS)
    pieces = [staged(lake, 0, 10), staged(lake, 10, 20)]
    lake.publish(pieces)
    # As if it had died after the first of two renames.
    (lake.path / pieces[1].staged).parent.mkdir(parents=True)
    (lake.path / pieces[1].path).rename(lake.path / pieces[1].staged)
    left_behind = lake.path / "_roquet/staged/other-run/x.staged"
    left_behind.parent.mkdir()
    left_behind.touch()
    os.close(lake._lock)
    with Lake.open(tmp_path, SETTINGS):
        assert len(parquet_names(tmp_path)) == 2
        assert not left_behind.exists()


def test_a_file_that_the_last_entry_lists_and_that_is_missing_is_reported(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as lake:
        piece = staged(lake, 0, 10)
        lake.publish([piece])
    (tmp_path / piece.path).unlink()
    with pytest.raises(BadLake, match="entry 1"):
        Lake.open(tmp_path, SETTINGS)
    # And whoever failed to open it does not keep others out.
    (tmp_path / piece.path).write_bytes(b"PAR1")
    Lake.open(tmp_path, SETTINGS).close()


def test_a_second_writer_is_refused_while_the_first_one_lives(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS), pytest.raises(BadLake, match=BUSY):
        Lake.open(tmp_path, SETTINGS)
    Lake.open(tmp_path, SETTINGS).close()


def test_of_two_writers_of_the_same_offsets_one_fails_and_adds_nothing(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as first:
        # Where locks do not reach, on another machine.
        (tmp_path / "_roquet/writer.lock").unlink()
        with Lake.open(tmp_path, SETTINGS) as second:
            late = staged(first, 0, 20)
            second.publish([staged(second, 0, 10)])
            with pytest.raises(BadLake, match="would be in the lake twice"):
                first.publish([late])
    assert parquet_names(tmp_path) == ["orders-broker-a-0-0-10.parquet"]


def test_files_are_compacted_while_messages_are_added(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", SETTINGS) as writer:
        sent = publish_small_files(writer, hours=2, files=3, rows=2)
        staged_before = staged_rows(writer, message_batch(0, range(100, 110)))
        with Lake.open_existing(writer.path, LakeRole.COMPACTOR) as compactor:
            planned, *rest = planned_compactions(compactor.state.files.values(), LATER, 1 << 30)
            made = write_compaction(compactor.staging, planned, (99, 0))
            writer.publish(staged_before)
            compactor.compact([made])
            writer.publish(staged_rows(writer, message_batch(0, range(110, 120))))
            compact_all(compactor)
        sent.update((0, offset) for offset in range(100, 120))
        assert rest
        assert found_by_arrow(writer.path) == sent
        writer.publish(staged_rows(writer, message_batch(0, range(120, 121))))
        assert writer.state.row_count == len(sent) + 1
        # One for each hour, and what was added since the second compaction was planned.
        assert len(writer.state.files) == 4


def test_what_a_killed_compactor_left_undone_is_done_by_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake.open(tmp_path / "lake", SETTINGS) as writer:
        sent = publish_small_files(writer, hours=1, files=3, rows=2)
        compactor = Lake.open_existing(writer.path, LakeRole.COMPACTOR)
        with monkeypatch.context() as patched:
            patched.setattr(lake_module, "exchange_compacted", killed)
            with pytest.raises(KeyboardInterrupt):
                compact_all(compactor)
        os.close(compactor._lock)
        assert found_by_arrow(writer.path) == sent
        writer.publish(staged_rows(writer, message_batch(0, range(100, 110))))
        sent.update((0, offset) for offset in range(100, 110))
        assert found_by_arrow(writer.path) == sent
        assert len(parquet_names(writer.path)) == 2


def test_files_that_were_compacted_meanwhile_are_not_compacted_again(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", SETTINGS) as lake:
        sent = publish_small_files(lake, hours=1, files=3, rows=2)
        (planned,) = planned_compactions(lake.state.files.values(), LATER, 1 << 30)
        twice = [write_compaction(lake.staging, planned, (99, each)) for each in range(2)]
        lake.compact(twice[:1])
        with pytest.raises(BadLake, match="compacted by another process"):
            lake.compact(twice[1:])
        assert found_by_arrow(lake.path) == sent


def test_whether_a_role_is_taken_is_known_without_opening_the_lake(tmp_path: Path) -> None:
    check_free(tmp_path / "none", LakeRole.WRITER)
    with Lake.open(tmp_path, SETTINGS):
        check_free(tmp_path, LakeRole.COMPACTOR)
        with pytest.raises(BadLake, match=BUSY):
            check_free(tmp_path, LakeRole.WRITER)
    check_free(tmp_path, LakeRole.WRITER)


def test_a_lake_is_opened_by_its_snapshot_and_the_entries_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "SNAPSHOT_INTERVAL", 5)
    with Lake.open(tmp_path, SETTINGS) as lake:
        for start in range(0, 120, 10):
            lake.publish([staged(lake, start, start + 10)])
    read: list[int] = []
    read_entry = PublishLog._read

    def counted(log: PublishLog, number: int) -> LakeEntry | None:
        read.append(number)
        return read_entry(log, number)

    monkeypatch.setattr(PublishLog, "_read", counted)
    with Lake.open(tmp_path, SETTINGS) as again:
        assert again.state.covered(QUEUE) == [(0, 120)]
        assert len(again.state.files) == 12
        assert again.state.row_count == 120
    # The snapshot has the tenth; the last number is that of the next one.
    assert set(read) == {10, 11, 12, 13}


@pytest.mark.parametrize("damage", [b"{", b'{"version": 9}', b""])
def test_a_damaged_snapshot_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    monkeypatch.setattr(metadata, "SNAPSHOT_INTERVAL", 1)
    with Lake.open(tmp_path, SETTINGS) as lake:
        lake.publish([staged(lake, 0, 10)])
    (tmp_path / "_roquet/snapshot.json").write_bytes(damage)
    with Lake.open(tmp_path, SETTINGS) as again:
        assert again.state.covered(QUEUE) == [(0, 10)]
    assert "all entries of the log are read" in caplog.text


def test_an_entry_that_appears_at_the_last_moment_wins(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as lake:
        late = staged(lake, 0, 20)
        log = tmp_path / "_roquet/log"
        # It is there, and cannot be read yet: as if it came after the log was read.
        (log / f"{1:020}.json").symlink_to(log / "nowhere")
        with pytest.raises(BadLake, match=BUSY):
            lake.publish([late])
    assert parquet_names(tmp_path) == []


def test_nothing_is_published_whose_file_is_gone_or_that_is_there_twice(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as lake:
        gone = staged(lake, 0, 10)
        (tmp_path / gone.staged).unlink()
        with pytest.raises(BadLake, match="executors do not see the directory of the driver"):
            lake.publish([gone])
        with pytest.raises(BadLake, match="twice"):
            lake.publish([staged(lake, 0, 10), staged(lake, 5, 15)])
        assert lake.state.entry_number == 0
        assert lake.publish([]) is None


def test_a_directory_with_other_things_in_it_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(BadLake, match=r"thesis\.txt"):
        Lake.open(tmp_path, SETTINGS)
    with pytest.raises(BadLake, match="not a directory"):
        Lake.open(tmp_path / "thesis.txt", SETTINGS)


@pytest.mark.parametrize("damage", [b"{", b'{"version": 2}', b'{"grid": 0}'])
def test_settings_that_cannot_be_followed_are_refused(tmp_path: Path, damage: bytes) -> None:
    Lake.open(tmp_path, SETTINGS).close()
    (tmp_path / "_roquet/lake.json").write_bytes(damage)
    with pytest.raises(BadLake, match=r"lake\.json"):
        Lake.open(tmp_path, SETTINGS)


def test_a_lake_stays_what_it_is_unless_something_else_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    assert format_of(path, None) is LakeFormat.PARQUET
    with open_lake(path, LakeSettings(format=format_of(path, "delta"))):
        pass
    assert format_of(path, None) is LakeFormat.DELTA
    with pytest.raises(BadLake, match="format 'delta', not 'parquet'"):
        check_settings(path, settings_of(path), LakeSettings(format=LakeFormat.PARQUET))


def test_without_the_library_delta_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.pipeline.lake.delta_table.find_spec", lambda _: None)
    with pytest.raises(BadLake, match=r"pip install roquet\[delta\]"):
        format_of(tmp_path, "delta")


def test_bodies_are_decoded_as_before_unless_columns_are_added(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    unchanged = BodyOptions()
    assert body_schema_of(path, LakeFormat.PARQUET, unchanged) is None
    columns = JsonColumns("a int")
    with Lake.open(path, LakeSettings()) as lake:
        assert body_schema_of(path, LakeFormat.PARQUET, unchanged) is None
        rows = message_batch(0, [0], bodies=[b"{}"])
        lake.publish(staged_rows(lake, rows, columns), columns.ddl)
    assert body_schema_of(path, LakeFormat.PARQUET, unchanged) == BodySchema(columns.ddl)
    more = BodyOptions(json_schema="a int, b string")
    assert body_schema_of(path, LakeFormat.PARQUET, more) == BodySchema("`a` int, `b` string")
    with pytest.raises(BadSchema, match="'a'"):
        body_schema_of(path, LakeFormat.PARQUET, BodyOptions(json_schema="b string"))


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
            *("lake.json", "log", "staged", "writer.lock", "commit.lock")
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
