"""What is special about a lake that is an Iceberg table; `test_table.py` has the rest."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake import iceberg_library
from roquet.pipeline.lake.files import HIDDEN_PARTITIONING, hidden_partitioning
from roquet.pipeline.lake.iceberg_catalog import CATALOG_FILE
from roquet.pipeline.lake.iceberg_table import IcebergLakeTable
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import OpenLake, open_existing_lake, open_lake
from roquet.pipeline.lake.table import TableLake
from tests.support.lake_pieces import QUEUE, piece
from tests.support.lake_rows import (
    NOON,
    compact_all,
    message_batch,
    publish_small_files,
    staged_rows,
)
from tests.support.table_judges import found_in, iceberg_table

SETTINGS = LakeSettings(
    file_rows_max=100, format=LakeFormat.ICEBERG, partitioning=HIDDEN_PARTITIONING
)


@pytest.fixture
def lake(tmp_path: Path) -> OpenLake:
    return open_lake(tmp_path / "lake", SETTINGS)


def planned(table: Table, column: str, least: str | int) -> int:
    """The number of files that a reader with this condition opens."""
    return len(list(table.scan(f"{column} >= {least!r}").plan_files()))


def test_one_transaction_has_files_and_offsets(lake: OpenLake) -> None:
    sent = publish_small_files(lake, hours=2, files=2, rows=3)
    table = iceberg_table(lake.place)
    rows = table.scan().to_arrow()
    assert found_in(rows) == sent
    assert rows["topic"].unique().to_pylist() == ["orders"]
    offsets = msgspec.json.decode(table.properties["roquet.offsets"])
    assert offsets["orders@broker-a@0"] == 12
    assert len(table.snapshots()) == 8
    again = open_existing_lake(lake.place)
    assert again.state.covered(QUEUE) == [(0, 12)]
    assert again.totals() == (24, 8, 0)


def test_the_library_does_not_repeat_commits_by_itself(lake: OpenLake) -> None:
    """It would add the files again, whatever another writer committed meanwhile."""
    first, second = iceberg_table(lake.place), iceberg_table(lake.place)
    assert first.properties["commit.retry.num-retries"] == "0"
    with first.transaction() as transaction, transaction.update_snapshot().fast_append():
        pass
    with (
        pytest.raises(CommitFailedException),
        second.transaction() as transaction,
        transaction.update_snapshot().fast_append(),
    ):
        pass
    for each in (first, second):
        each.catalog.close()


def test_files_are_skipped_by_offsets_and_by_hidden_hours(lake: OpenLake) -> None:
    publish_small_files(lake, hours=3, files=1, rows=4)
    table = iceberg_table(lake.place)
    assert planned(table, "queueOffset", 0) == 6
    assert planned(table, "queueOffset", 8) == 2
    assert planned(table, "queueOffset", 12) == 0
    assert planned(table, "queueId", 1) == 3
    assert planned(table, "storeTimestamp", (NOON + timedelta(hours=2)).isoformat()) == 2
    assert {"dt", "hour"}.isdisjoint(table.schema().column_names)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("topic", ["topic"]),
        ("days(storeTimestamp)", ["topic", "storeTimestamp_day"]),
        ("topic, months(storeTimestamp)", ["topic", "storeTimestamp_month"]),
        ("year(storeTimestamp),topic", ["topic", "storeTimestamp_year"]),
    ],
)
def test_partitions_are_those_that_were_asked_for(
    tmp_path: Path, given: str, names: list[str]
) -> None:
    partitioning = hidden_partitioning(given)
    assert partitioning is not None
    settings = msgspec.structs.replace(SETTINGS, partitioning=partitioning)
    lake = open_lake(tmp_path / "lake", settings)
    sent = publish_small_files(lake, hours=2, files=1, rows=2)
    compact_all(lake)
    table = iceberg_table(lake.place)
    assert [field.name for field in table.spec().fields] == names
    assert found_in(table.scan().to_arrow()) == sent
    assert open_existing_lake(lake.place).settings == settings


def test_offsets_without_messages_are_committed_and_overtaken_like_others(lake: OpenLake) -> None:
    other = open_existing_lake(lake.place)
    nothing = msgspec.structs.replace(piece(0, 5), rows=0, path="", staged="")
    assert lake.publish([nothing]) is not None
    assert other.publish([nothing]) is None
    other.publish(staged_rows(other, message_batch(0, range(5, 8))))
    assert lake.missing([], {}).wanted == []
    assert open_existing_lake(lake.place).state.covered(QUEUE) == [(0, 8)]
    assert lake.totals() == (3, 1, 0)


def test_offsets_survive_the_snapshots_that_they_came_with(lake: OpenLake) -> None:
    assert isinstance(lake, TableLake)
    publish_small_files(lake, hours=1, files=3, rows=2)
    compact_all(lake)
    lake.expire(timedelta(0))
    assert len(iceberg_table(lake.place).snapshots()) == 1
    assert lake.publish(staged_rows(lake, message_batch(0, range(6)))) is None


def test_a_table_of_many_commits_keeps_few_snapshots_and_all_that_was_compacted(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_library, "SNAPSHOTS_MAX", 6)
    monkeypatch.setattr(iceberg_library, "SNAPSHOTS_KEPT", 3)
    sent = publish_small_files(lake, hours=1, files=3, rows=1)
    before = iceberg_table(lake.place).current_snapshot()
    assert before is not None
    compact_all(lake)
    for offset in range(10, 30):
        lake.publish(staged_rows(lake, message_batch(0, [offset])))
    table = iceberg_table(lake.place)
    assert len(table.snapshots()) <= 7
    assert found_in(table.scan(snapshot_id=before.snapshot_id).to_arrow()) == sent
    assert table.scan().to_arrow().num_rows == 26
    assert open_existing_lake(lake.place).state.covered(QUEUE) == [(0, 3), (10, 30)]


def test_snapshots_that_two_processes_forget_at_once_do_no_harm(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_library, "SNAPSHOTS_MAX", 3)
    monkeypatch.setattr(iceberg_library, "SNAPSHOTS_KEPT", 2)
    sent = publish_small_files(lake, hours=1, files=2, rows=1)
    other = open_existing_lake(lake.place)
    assert isinstance(other, TableLake)
    commit = IcebergLakeTable.commit

    def overtaken(table: IcebergLakeTable, *arguments: object) -> int:
        monkeypatch.setattr(IcebergLakeTable, "commit", commit)
        other.expire(timedelta(0))
        return table.commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(IcebergLakeTable, "commit", overtaken)
    assert lake.publish(staged_rows(lake, message_batch(5, [0]))) is not None
    assert found_in(iceberg_table(lake.place).scan().to_arrow()) == sent + Counter([(5, 0)])


def test_what_was_compacted_a_moment_ago_can_still_be_read(lake: OpenLake) -> None:
    """However old its snapshot is: until then it was the newest."""
    assert isinstance(lake, TableLake)
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    before = iceberg_table(lake.place).current_snapshot()
    assert before is not None
    compact_all(lake)
    assert lake.expire(timedelta(hours=1)) == 0
    old = iceberg_table(lake.place).scan(snapshot_id=before.snapshot_id)
    assert found_in(old.to_arrow()) == sent


def test_orphans_are_files_of_messages_and_of_metadata_but_not_the_catalog(lake: OpenLake) -> None:
    assert isinstance(lake, TableLake)
    assert isinstance(lake.place, Path)
    sent = publish_small_files(lake, hours=1, files=1, rows=2)
    staged_rows(lake, message_batch(0, range(50, 60)))
    left_behind = lake.place / "metadata/left-behind-m0.avro"
    left_behind.write_bytes(b"")
    assert lake.remove_orphans(timedelta(0)) == 1
    assert not left_behind.exists()
    assert found_in(iceberg_table(lake.place).scan().to_arrow()) == sent
    assert open_existing_lake(lake.place).totals().files == 2


def test_a_creator_that_was_killed_does_no_harm(lake: OpenLake) -> None:
    assert isinstance(lake.place, Path)
    (lake.place / CATALOG_FILE).unlink()
    again = open_lake(lake.place, SETTINGS)
    assert again.settings == lake.settings


def test_two_lakes_of_one_name_do_not_share_a_table(tmp_path: Path) -> None:
    catalog = f"sqlite={tmp_path / 'shared.sqlite'}"
    open_lake(tmp_path / "a/lake", SETTINGS, catalog=catalog)
    open_lake(tmp_path / "a/other", SETTINGS, catalog=catalog)
    with pytest.raises(BadLake, match="another name"):
        open_lake(tmp_path / "b/lake", SETTINGS, catalog=catalog)


def test_a_catalog_that_is_gone_is_reported_and_not_created_empty(tmp_path: Path) -> None:
    file = tmp_path / "shared.sqlite"
    lake = open_lake(tmp_path / "lake", SETTINGS, catalog=f"sqlite={file}")
    file.unlink()
    with pytest.raises(BadLake, match="does not exist"):
        open_existing_lake(lake.place)
    assert not file.exists()


def test_a_table_of_another_program_is_refused(lake: OpenLake) -> None:
    table = iceberg_table(lake.place)
    with table.transaction() as transaction:
        transaction.remove_properties("roquet.settings")
    table.catalog.close()
    with pytest.raises(BadLake, match="not created by"):
        open_existing_lake(lake.place)
