"""A lake that is a Delta table, in a directory and in S3: each message once, whoever writes."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from roquet.pipeline.errors import BadLake, BadOption, PlanOutdated
from roquet.pipeline.lake import table as table_module
from roquet.pipeline.lake.compaction import planned_compactions, write_compaction
from roquet.pipeline.lake.delta_log import DeltaTransactions
from roquet.pipeline.lake.delta_table import DeltaLakeTable
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import (
    OpenLake,
    format_of,
    json_columns_of,
    open_existing_lake,
    open_lake,
    settings_of,
)
from roquet.pipeline.lake.places import LakePlace, LakeStoreError, S3Location, Storage, beside
from roquet.pipeline.lake.table import CommitRefused, TableLake
from roquet.pipeline.planning import QueueRange
from tests.support.lake_pieces import QUEUE
from tests.support.lake_rows import (
    NOON,
    Found,
    compact_all,
    message_batch,
    publish_small_files,
    staged_rows,
)
from tests.support.raising import raises
from tests.support.s3_store import S3Store

SETTINGS = LakeSettings(file_rows_max=100, format=LakeFormat.DELTA)


@pytest.fixture(scope="module")
def store() -> Iterator[S3Store]:
    with S3Store() as started:
        yield started


@pytest.fixture(
    params=["directory", pytest.param("s3", marks=pytest.mark.full("the same in an object store"))]
)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LakePlace:
    if request.param == "directory":
        return tmp_path / "lake"
    store: S3Store = request.getfixturevalue("store")
    store.use(monkeypatch)
    return store.location(tmp_path.name)


@pytest.fixture
def lake(place: LakePlace) -> OpenLake:
    return open_lake(place, SETTINGS)


def delta(place: LakePlace) -> DeltaTable:
    storage = Storage(place)
    return DeltaTable(storage.url, storage_options=storage.options)


def found_by_delta(place: LakePlace) -> Found:
    table = delta(place).to_pyarrow_table(columns=["queueId", "queueOffset"])
    return Counter(zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True))


def test_one_transaction_has_files_and_offsets(lake: OpenLake) -> None:
    sent = publish_small_files(lake, hours=2, files=2, rows=3)
    assert found_by_delta(lake.place) == sent
    table = delta(lake.place)
    assert table.transaction_version("orders@broker-a@0") == 12
    assert table.version() == 8
    rows = table.to_pyarrow_table()
    assert rows["topic"].unique().to_pylist() == ["orders"]
    assert sorted(rows["hour"].unique().to_pylist()) == [12, 13]
    again = open_existing_lake(lake.place)
    assert again.state.covered(QUEUE) == [(0, 12)]
    assert again.totals() == (24, 8, 0)


def test_files_have_statistics_to_skip_them_by(lake: OpenLake) -> None:
    lake.publish(staged_rows(lake, message_batch(3, range(5, 9))))
    [added] = pa.table(delta(lake.place).get_add_actions(flatten=True)).to_pylist()
    assert (added["min.queueOffset"], added["max.queueOffset"]) == (5, 8)
    assert (added["min.queueId"], added["max.queueId"]) == (3, 3)
    assert added["min.storeTimestamp"] == NOON + timedelta(seconds=5)
    assert added["num_records"] == 4


def test_what_was_committed_meanwhile_is_not_committed_again(lake: OpenLake) -> None:
    other = open_existing_lake(lake.place)
    pieces = staged_rows(lake, message_batch(0, range(3)))
    others = staged_rows(other, message_batch(0, range(3)))
    assert other.publish(others) is not None
    assert lake.publish(pieces) is None
    more = [*pieces, *staged_rows(lake, message_batch(0, range(3, 6)))]
    entry = lake.publish(more)
    assert entry is not None
    assert [each.start for each in entry.added] == [3]
    assert found_by_delta(lake.place) == Counter((0, offset) for offset in range(6))


def test_a_plan_of_which_another_writer_added_a_part_is_thrown_away(lake: OpenLake) -> None:
    other = open_existing_lake(lake.place)
    pieces = staged_rows(lake, message_batch(0, range(6)))
    other.publish(staged_rows(other, message_batch(0, range(3))))
    with pytest.raises(PlanOutdated):
        lake.publish(pieces)
    missing = lake.missing([QueueRange(QUEUE, 0, 6)], {})
    assert [each.range[1:] for each in missing.wanted] == [(3, 6)]


def test_a_commit_between_reading_and_committing_is_noticed(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_existing_lake(lake.place)
    pieces = staged_rows(lake, message_batch(0, range(3)))
    commit = DeltaLakeTable.commit
    refusals: list[CommitRefused] = []

    def overtaken(table: DeltaLakeTable, *arguments: object) -> int:
        monkeypatch.setattr(DeltaLakeTable, "commit", commit)
        other.publish(staged_rows(other, message_batch(0, range(3))))
        try:
            return table.commit(*arguments)  # type: ignore[arg-type]
        except CommitRefused as error:
            refusals.append(error)
            raise

    monkeypatch.setattr(DeltaLakeTable, "commit", overtaken)
    assert lake.publish(pieces) is None
    assert len(refusals) == 1
    assert found_by_delta(lake.place) == Counter((0, offset) for offset in range(3))


def test_a_writer_whose_commits_are_always_refused_ends(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: object) -> int:
        raise CommitRefused("again")

    monkeypatch.setattr(DeltaLakeTable, "commit", refused)
    monkeypatch.setattr(table_module, "_RETRY_S", 0)
    with pytest.raises(BadLake, match="at once"):
        lake.publish(staged_rows(lake, message_batch(0, range(3))))


def test_writers_and_a_compactor_work_at_once(lake: OpenLake) -> None:
    """Both writers want the same messages of one queue, and each its own of another."""

    def write(own_queue: int) -> None:
        writer = open_existing_lake(lake.place)
        for start in range(0, 24, 4):
            offsets = range(start, start + 4)
            shared = staged_rows(writer, message_batch(0, offsets))
            own = staged_rows(writer, message_batch(own_queue, offsets))
            writer.publish([*shared, *own])

    def compact() -> None:
        for _ in range(4):
            compact_all(open_existing_lake(lake.place))

    with ThreadPoolExecutor(3) as pool:
        for each in (pool.submit(write, 1), pool.submit(write, 2), pool.submit(compact)):
            each.result()
    compact_all(lake)
    assert found_by_delta(lake.place) == Counter(
        (queue, offset) for queue in range(3) for offset in range(24)
    )
    assert lake.totals().files == 1


def test_compacted_files_replace_others_and_older_versions_can_be_read(lake: OpenLake) -> None:
    sent = publish_small_files(lake, hours=1, files=3, rows=2)
    before = delta(lake.place).version()
    compact_all(lake)
    table = delta(lake.place)
    assert found_by_delta(lake.place) == sent
    assert len(table.file_uris()) == 1
    table.load_as_version(before)
    assert table.to_pyarrow_table().num_rows == 12
    assert lake.publish(staged_rows(lake, message_batch(0, range(6)))) is None


def test_files_that_another_compacted_are_not_compacted_again(lake: OpenLake) -> None:
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    [planned] = planned_compactions(lake.files(), NOON + timedelta(days=1), 1 << 30)
    made = [write_compaction(lake.staging, planned, (1, number)) for number in range(2)]
    assert lake.compact(made[:1]).compacted
    assert not lake.compact(made[1:]).compacted
    assert found_by_delta(lake.place) == sent


def test_columns_of_bodies_are_added_to_the_table(lake: OpenLake) -> None:
    lake.publish(staged_rows(lake, message_batch(0, [0])))
    columns = JsonColumns("price int, who struct<name:string>")
    body = b'{"price": 5, "who": {"name": "x"}}'
    later = message_batch(0, [1], bodies=[body])
    lake.publish(staged_rows(lake, later, columns), columns.ddl)
    table = delta(lake.place).to_pyarrow_table().sort_by("queueOffset")
    assert table["price"].to_pylist() == [None, 5]
    assert table["who"].to_pylist() == [None, {"name": "x"}]
    kept = json_columns_of(lake.place, None)
    assert kept is not None
    assert kept.ddl == columns.ddl


def test_what_cannot_be_decoded_is_set_apart_once_though_a_driver_is_killed(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = JsonColumns("price int")
    rows = message_batch(0, range(4), bodies=[b"{}", b"no", b"{}", b"no"])
    commit = DeltaLakeTable.commit

    def killed(table: DeltaLakeTable, *arguments: object) -> int:
        commit(table, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DeltaLakeTable, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.publish(staged_rows(lake, rows.slice(0, 3), columns), columns.ddl)
    assert not found_by_delta(lake.place)
    again = open_existing_lake(lake.place)
    missing = again.missing([QueueRange(QUEUE, 0, 4)], {})
    assert [each.range[1:] for each in missing.wanted] == [(0, 3), (3, 4)]
    with pytest.raises(PlanOutdated):
        again.publish(staged_rows(again, rows, columns), columns.ddl)
    for _, start, end in (each.range for each in missing.wanted):
        part = staged_rows(again, rows.slice(start, end - start), columns)
        again.publish(part, columns.ddl)
    assert found_by_delta(lake.place) == Counter([(0, 0), (0, 2)])
    assert found_by_delta(beside(lake.place, "-quarantine")) == Counter([(0, 1), (0, 3)])
    assert again.totals() == (2, 1, 2)


def test_a_topic_created_again_is_another_generation(lake: OpenLake) -> None:
    first, later = QueueIncarnation(0, 1000), QueueIncarnation(0, 2000)
    [made] = staged_rows(lake, message_batch(0, range(3)))
    lake.publish([msgspec.structs.replace(made, incarnation=first)])
    again = open_existing_lake(lake.place)
    assert not again.missing([QueueRange(QUEUE, 0, 3)], {QUEUE: first}).wanted
    missing = again.missing([QueueRange(QUEUE, 0, 3)], {QUEUE: later})
    assert missing.recreated == [QUEUE]
    assert [each.generation for each in missing.wanted] == [1]


def test_a_file_that_is_not_there_is_not_committed(lake: OpenLake) -> None:
    pieces = staged_rows(lake, message_batch(0, range(3)))
    storage = Storage(lake.place)
    storage.filesystem.delete_file(storage.path(pieces[0].path))
    with pytest.raises(BadLake, match="missing or incomplete"):
        lake.publish(pieces)
    assert not found_by_delta(lake.place)


def test_the_state_survives_checkpoints_and_a_log_that_was_cleaned_up(lake: OpenLake) -> None:
    for start in range(0, 9, 3):
        lake.publish(staged_rows(lake, message_batch(0, range(start, start + 3))))
    delta(lake.place).create_checkpoint()
    lake.publish(staged_rows(lake, message_batch(0, range(20, 22))))
    storage = Storage(lake.place)
    for number in range(4):
        storage.filesystem.delete_file(storage.path(f"_delta_log/{number:020}.json"))
    again = open_existing_lake(lake.place)
    assert again.state.covered(QUEUE) == [(0, 9), (20, 22)]
    versions = DeltaTransactions(storage)
    versions.read_to(4)
    assert versions.versions["orders@broker-a@0"] == 22


def test_a_lake_stays_what_it_is(lake: OpenLake) -> None:
    assert format_of(lake.place, None) is LakeFormat.DELTA
    found = settings_of(lake.place)
    assert found == lake.settings
    assert open_lake(lake.place, LakeSettings(format=LakeFormat.DELTA)).settings == found


def test_a_table_of_another_program_is_refused(place: LakePlace) -> None:
    storage = Storage(place)
    schema = message_batch(0, [0]).schema
    DeltaTable.create(storage.url, schema, storage_options=storage.options)
    with pytest.raises(BadLake, match="not created by"):
        open_lake(place, SETTINGS)


def test_files_that_were_compacted_or_left_behind_are_removed(place: LakePlace) -> None:
    lake = open_lake(place, SETTINGS)
    assert isinstance(lake, TableLake)
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    compact_all(lake)
    staged_rows(lake, message_batch(0, range(50, 60)))
    assert lake.remove_orphans(timedelta(hours=1)) == 0
    assert lake.expire(timedelta(0)) == 4
    assert lake.remove_orphans(timedelta(0)) == 1
    assert found_by_delta(place) == sent
    assert open_existing_lake(place).state.covered(QUEUE) == [(0, 4)]


# What is wrong in S3.


def test_a_lake_in_s3_is_filled_and_compacted(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use(monkeypatch)
    lake = open_lake(store.location("lake"), SETTINGS)
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    compact_all(lake)
    assert found_by_delta(lake.place) == sent
    assert open_existing_lake(lake.place).state.covered(QUEUE) == [(0, 4)]


def test_plain_parquet_needs_a_directory(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.use(monkeypatch)
    with raises(BadOption, name="format"):
        format_of(store.location("plain"), None)


def test_a_missing_bucket_is_reported(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.use(monkeypatch)
    with raises(LakeStoreError, code="NoSuchBucket"):
        open_lake(S3Location("missing", "lake"), SETTINGS)


@pytest.mark.full("waits between attempts")
def test_a_busy_store_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Store("--busy", "5") as busy:
        busy.use(monkeypatch)
        lake = open_lake(busy.location("lake"), SETTINGS)
        sent = publish_small_files(lake, hours=1, files=2, rows=2)
        assert found_by_delta(lake.place) == sent


def test_a_store_without_conditional_puts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Store("--without-conditions") as simple:
        simple.use(monkeypatch)
        with raises(LakeStoreError, code="NotImplemented"):
            open_lake(simple.location("lake"), SETTINGS)
