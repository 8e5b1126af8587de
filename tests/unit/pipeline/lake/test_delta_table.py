"""A lake that is a Delta table, in a directory and in S3: each message once, whoever writes."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.delta_log import DeltaTransactions
from roquet.pipeline.lake.files import column_partitioning
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import (
    OpenLake,
    format_of,
    open_existing_lake,
    open_lake,
)
from roquet.pipeline.lake.places import LakePlace, LakeStoreError, Storage
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
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


def test_files_are_skipped_by_offsets_queues_and_times(lake: OpenLake) -> None:
    publish_small_files(lake, hours=3, files=1, rows=4)
    dataset = delta(lake.place).to_pyarrow_dataset()

    def opened(column: str, least: object) -> int:
        return len(list(dataset.get_fragments(ds.field(column) >= least)))

    assert opened("queueOffset", 0) == 6
    assert opened("queueOffset", 8) == 2
    assert opened("queueOffset", 12) == 0
    assert opened("queueId", 1) == 3
    assert opened("storeTimestamp", NOON + timedelta(hours=2)) == 2


@pytest.mark.parametrize("given", ["topic", "topic, dt", "topic,dt,hour"])
def test_partitions_are_those_that_were_asked_for(tmp_path: Path, given: str) -> None:
    partitioning = column_partitioning(given)
    assert partitioning is not None
    settings = msgspec.structs.replace(SETTINGS, partitioning=partitioning)
    lake = open_lake(tmp_path / "lake", settings)
    sent = publish_small_files(lake, hours=2, files=2, rows=2)
    compact_all(lake)
    table = delta(lake.place)
    assert table.metadata().partition_columns == list(partitioning)
    assert {"topic", "dt", "hour"} & set(table.to_pyarrow_table().column_names) == set(partitioning)
    assert found_by_delta(lake.place) == sent
    assert open_existing_lake(lake.place).settings == settings
    with run_sql("select hour, count(*) from orders group by all", LakeTables(lake.place)) as rows:
        assert sorted(map(tuple, rows.rows)) == [(12, 8), (13, 8)]


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


def test_a_table_of_another_program_is_refused(place: LakePlace) -> None:
    storage = Storage(place)
    schema = message_batch(0, [0]).schema
    DeltaTable.create(storage.url, schema, storage_options=storage.options)
    with pytest.raises(BadLake, match="not created by"):
        open_lake(place, SETTINGS)


def test_plain_parquet_needs_a_directory(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.use(monkeypatch)
    with raises(BadOption, name="format"):
        format_of(store.location("plain"), None)


def test_a_store_without_conditional_puts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Store("--without-conditions") as simple:
        simple.use(monkeypatch)
        with raises(LakeStoreError, code="NotImplemented"):
            open_lake(simple.location("lake"), SETTINGS)
