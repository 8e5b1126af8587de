"""The files of an Iceberg table: as its manifests list them, and which ones nothing lists any more.

Statistics come from the task that wrote a file: the driver does not open it.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyarrow import fs

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import FileBounds, LakeFile
from roquet.pipeline.lake.files import directory_of, hour_of, topic_of
from roquet.pipeline.lake.places import Storage

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.transforms import Transform

_TOPIC: Final = "topic"
_STORED: Final = "storeTimestamp"
_BOUNDED: Final = ("queueId", "queueOffset", _STORED)
_HOUR_US: Final = 3_600_000_000
_METADATA: Final = "metadata/"
_DATA_SUFFIX: Final = ".parquet"


def data_file(table: "Table", url: str, file: LakeFile) -> "DataFile":
    """Raises BadLake."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat  # noqa: PLC0415
    from pyiceberg.typedef import Record  # noqa: PLC0415

    values = [_partition_value(table, field, file.path) for field in table.spec().fields]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{url}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **_statistics(table, file),
    )


def _partition_value(table: "Table", field: "PartitionField", path: str) -> Any:
    """Of a topic and an hour: files have messages of one of each."""
    source = table.schema().find_field(field.source_id)
    if source.name == _TOPIC:
        value: Any = topic_of(path)
    elif source.name == _STORED:
        value = hour_of(directory_of(path)) * _HOUR_US
    else:
        raise BadLake(
            f"the table is partitioned by {source.name!r}, by which Roquet does not divide files:"
            " only by topic and by hours, days, months or years of storeTimestamp"
        )
    return field.transform.transform(source.field_type)(value)


def _statistics(table: "Table", file: LakeFile) -> dict[str, Any]:
    """For readers that skip files."""
    from pyiceberg.conversions import to_bytes  # noqa: PLC0415
    from pyiceberg.types import PrimitiveType  # noqa: PLC0415

    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for name, (least, most) in _bounds(file.bounds):
        field = table.schema().find_field(name)
        assert isinstance(field.field_type, PrimitiveType)
        lower[field.field_id] = to_bytes(field.field_type, least)
        upper[field.field_id] = to_bytes(field.field_type, most)
    return {
        "column_sizes": None,
        "value_counts": dict.fromkeys(lower, file.rows),
        "null_value_counts": dict.fromkeys(lower, 0),
        "nan_value_counts": None,
        "lower_bounds": lower,
        "upper_bounds": upper,
        "split_offsets": None,
    }


def _bounds(bounds: FileBounds | None) -> Iterator[tuple[str, tuple[int, int]]]:
    if bounds is not None:
        yield from zip(_BOUNDED, (bounds.queue_id, bounds.offset, bounds.stored_us), strict=True)


def listed_bounds(table: "Table", file: "DataFile") -> FileBounds | None:
    """None if the file has no such statistics."""
    from pyiceberg.conversions import from_bytes  # noqa: PLC0415
    from pyiceberg.types import PrimitiveType  # noqa: PLC0415

    found: list[tuple[int, int]] = []
    for name in _BOUNDED:
        field = table.schema().find_field(name)
        assert isinstance(field.field_type, PrimitiveType)
        lower = (file.lower_bounds or {}).get(field.field_id)
        upper = (file.upper_bounds or {}).get(field.field_id)
        if lower is None or upper is None:
            return None
        least: Any = from_bytes(field.field_type, lower)
        most: Any = from_bytes(field.field_type, upper)
        found.append((least, most))
    return FileBounds(*found)


def time_transforms() -> "dict[str, Transform[Any, Any]]":
    from pyiceberg.transforms import (  # noqa: PLC0415
        DayTransform,
        HourTransform,
        MonthTransform,
        YearTransform,
    )

    return {
        "hours": HourTransform(),
        "days": DayTransform(),
        "months": MonthTransform(),
        "years": YearTransform(),
    }


def listed_files(table: "Table", snapshots: "Iterable[Snapshot]") -> "dict[str, DataFile]":
    """By their paths, those that some of the snapshots have."""
    found: dict[str, DataFile] = {}
    for manifest in _manifests(table, snapshots).values():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            found[entry.data_file.file_path] = entry.data_file
    return found


def current_files(table: "Table") -> "dict[str, DataFile]":
    snapshot = table.current_snapshot()
    return {} if snapshot is None else listed_files(table, [snapshot])


def _manifests(table: "Table", snapshots: "Iterable[Snapshot]") -> "dict[str, ManifestFile]":
    """Many snapshots have the same ones."""
    return {
        manifest.manifest_path: manifest
        for snapshot in snapshots
        for manifest in snapshot.manifests(table.io)
    }


def replaced_before(table: "Table", moment: datetime) -> list[int]:
    """Snapshots that were followed by another one before `moment`.

    A snapshot without a successor at that time could still be read a moment ago, however old it is.
    """
    ordered = sorted(table.snapshots(), key=lambda each: (each.timestamp_ms, each.sequence_number))
    moment_ms = moment.timestamp() * 1000
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    return [
        each.snapshot_id
        for each, next_one in pairwise(ordered)
        if next_one.timestamp_ms <= moment_ms and each.snapshot_id not in kept
    ]


def paths_in_use(table: "Table") -> set[str]:
    """Of everything that a snapshot, or the table itself, refers to."""
    snapshots = table.snapshots()
    manifests = _manifests(table, snapshots)
    found = {*listed_files(table, snapshots), *manifests, table.metadata_location}
    found |= {each.manifest_list for each in snapshots}
    found |= {each.metadata_file for each in table.metadata.metadata_log}
    found |= {each.statistics_path for each in table.metadata.statistics}
    return found


def remove_unused(
    storage: Storage, table: "Table", there: Iterable[fs.FileInfo], age: timedelta
) -> int:
    """Removes those older than that which nothing refers to; the number of files of messages."""
    before = datetime.now(UTC) - age
    used = paths_in_use(table)
    old = [_relative(storage, each) for each in there if each.mtime <= before]
    return remove(storage, [path for path in old if f"{storage.url}/{path}" not in used])


def remove(storage: Storage, paths: Iterable[str]) -> int:
    """The number of files of messages among them that were there."""
    count = 0
    for path in paths:
        try:
            storage.filesystem.delete_file(storage.path(path))
        except FileNotFoundError:
            continue
        count += path.endswith(_DATA_SUFFIX)
    return count


def files_below(storage: Storage) -> list[fs.FileInfo]:
    """Those of the table: its catalog is no part of it."""
    selector = fs.FileSelector(storage.root, recursive=True, allow_not_found=True)
    return [
        info
        for info in storage.filesystem.get_file_info(selector)
        for path in (_relative(storage, info),)
        if info.is_file and (path.startswith(_METADATA) or path.endswith(_DATA_SUFFIX))
    ]


def _relative(storage: Storage, info: fs.FileInfo) -> str:
    path: str = info.path
    return path.removeprefix(f"{storage.root}/")
