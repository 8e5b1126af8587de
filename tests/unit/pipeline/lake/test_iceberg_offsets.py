"""The offsets of an Iceberg table without its library: what the library finds, and nothing else."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.iceberg_catalog import SQLITE_FILE, catalog_of
from roquet.pipeline.lake.iceberg_offsets import OFFSETS_PROPERTY, IcebergOffsets
from roquet.pipeline.lake.iceberg_table import IcebergLakeTable
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.opening import open_lake
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.planning import QueueRange
from tests.support.lake_pieces import QUEUE
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.table_judges import iceberg_table
from tests.support.table_places import catalog_for, new_settings, table_place

RANGES = [QueueRange(QUEUE, 0, 20), QueueRange(QueueRef("orders", "broker-a", 1), 5, 9)]
BORN = {QUEUE: QueueIncarnation(0, 1_700_000_000_000)}


@pytest.fixture
def lake(tmp_path: Path) -> TableLake:
    opened = open_lake(tmp_path / "lake", new_settings("iceberg"))
    assert isinstance(opened, TableLake)
    return opened


def offsets_of(lake: TableLake) -> IcebergOffsets:
    reference = catalog_of(lake.place)
    assert reference is not None
    return IcebergOffsets(lake.place, reference.absolute(lake.place))


def metadata_file(lake: TableLake) -> Path:
    table = iceberg_table(lake.place)
    table.catalog.close()
    return Path(table.metadata_location)


@pytest.mark.parametrize("where", ["directory", "s3"])
def test_what_is_missing_is_what_writers_find(tmp_path: Path, where: str) -> None:
    with table_place(where, tmp_path) as place:
        catalog = catalog_for("iceberg", place, tmp_path)
        lake = open_lake(place, new_settings("iceberg"), catalog=catalog)
        assert isinstance(lake, TableLake)
        offsets = offsets_of(lake)
        assert offsets.missing(RANGES, {}) == lake.missing(RANGES, {})
        for start, end in ((0, 3), (3, 4), (7, 12)):
            lake.publish(staged_rows(lake, message_batch(0, range(start, end))))
            assert offsets.missing(RANGES, BORN) == lake.missing(RANGES, BORN)
        assert [each.range[1:] for each in offsets.missing(RANGES, {}).wanted] == [
            (4, 7),
            (12, 20),
            (5, 9),
        ]


def test_ranges_are_cut_where_the_quarantine_has_a_part(
    lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = JsonColumns("id bigint")
    rows = message_batch(0, range(4), bodies=[b'{"id": 1}', b"no JSON", b'{"id": 2}', b"{"])
    commit = IcebergLakeTable.commit

    def killed(table: IcebergLakeTable, *arguments: object) -> int:
        commit(table, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(IcebergLakeTable, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.publish(staged_rows(lake, rows.slice(0, 3), columns), columns.ddl)
    found = offsets_of(lake).missing([QueueRange(QUEUE, 0, 4)], {})
    assert [each.range[1:] for each in found.wanted] == [(0, 3), (3, 4)]


def test_metadata_that_another_program_compressed_is_read_too(lake: TableLake) -> None:
    lake.publish(staged_rows(lake, message_batch(0, range(3))))
    file = metadata_file(lake)
    file.write_bytes(gzip.compress(file.read_bytes()))
    found = offsets_of(lake).missing([QueueRange(QUEUE, 0, 4)], {})
    assert [each.range[1:] for each in found.wanted] == [(3, 4)]


def test_the_library_is_not_loaded(lake: TableLake) -> None:
    lake.publish(staged_rows(lake, message_batch(0, range(3))))
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from roquet.client.queue_ref import QueueRef\n"
        "from roquet.pipeline.planning import QueueRange\n"
        "from roquet.pipeline.source.lake_staging import missing_finder\n"
        "find = missing_finder(Path(sys.argv[1]))\n"
        "print(len(find([QueueRange(QueueRef('orders', 'broker-a', 0), 0, 9)], {}).wanted))\n"
        "print({'pandas', 'pyiceberg', 'sqlalchemy'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", program, str(lake.place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["1", "set()"]


def test_a_missing_file_of_metadata_is_named(lake: TableLake) -> None:
    location = metadata_file(lake)
    location.unlink()
    with pytest.raises(BadLake, match=f"lists {location}, which is missing"):
        offsets_of(lake).missing(RANGES, {})


@pytest.mark.parametrize("content", [b"{", b'{"properties": 1}'])
def test_a_damaged_file_of_metadata_is_named(lake: TableLake, content: bytes) -> None:
    location = metadata_file(lake)
    location.write_bytes(content)
    with pytest.raises(BadLake, match=f"{location} is damaged"):
        offsets_of(lake).missing(RANGES, {})


def test_damaged_offsets_are_named(lake: TableLake) -> None:
    table = iceberg_table(lake.place)
    with table.transaction() as transaction:
        transaction.set_properties({OFFSETS_PROPERTY: "?"})
    table.catalog.close()
    with pytest.raises(BadLake, match=f"property {OFFSETS_PROPERTY} of .* is damaged"):
        offsets_of(lake).missing(RANGES, {})


def test_a_damaged_catalog_is_named(lake: TableLake) -> None:
    offsets = offsets_of(lake)
    assert isinstance(lake.place, Path)
    (lake.place / SQLITE_FILE).write_bytes(b"no database, but as long as the header of one" * 20)
    with pytest.raises(BadLake, match=r"catalog\.sqlite reports: file is not a database"):
        offsets.missing(RANGES, {})
