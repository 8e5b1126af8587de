"""Parquet files as tasks write them: one for each run of messages of the same hour.

Files of a Parquet lake are staged, and renamed when they are published: readers find files by their
names. Files of a table are written to their final place, since readers know only those that the
table lists.
"""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roquet.pipeline.durable_files import make_directories, sync_directory, sync_file
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import FileBounds, LakeFile, LakePiece
from roquet.pipeline.lake.files import (
    SETTINGS_FILE,
    MissingRange,
    compacted_table_path,
    published_path,
    quarantine_of,
    staged_path,
    table_path,
)
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.places import LakePlace, Storage, beside
from roquet.pipeline.lake.schemas.decoding import BodyDecoder
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm

_QUEUE_COLUMN: Final = "queueId"
_OFFSET_COLUMN: Final = "queueOffset"
_STORED_COLUMN: Final = "storeTimestamp"
_HOUR_US: Final = 3_600_000_000
_COMPRESSION: Final = "zstd"
# Columns with few values; a dictionary of bodies or ids costs time and saves nothing.
_REPEATING: Final = (
    "brokerName",
    "queueId",
    "tags",
    "reconsumeTimes",
    "flag",
    "sysFlag",
    "bornHost",
    "storeHost",
    "properties.key_value.key",
)
QUARANTINE_SUFFIX: Final = "-quarantine"
LATEST_SUFFIX: Final = "-latest"
# A row group is kept in memory until it is complete.
_GROUP_SIZE_MAX: Final = 64 << 20
_GROUP_ROWS_MAX: Final = 128 << 10


def lake_columns(properties: PropertiesForm) -> list[str]:
    """The columns of the files. Readers get the topic from the directory."""
    left_out = {"topic"} | ({"properties"} if properties is PropertiesForm.NONE else set())
    return [name for name in COLUMN_NAMES if name not in left_out]


class OpenFile(Protocol):
    """A file that is being written."""

    def add(self, rows: pa.RecordBatch) -> None: ...

    def close(self, path: str) -> LakeFile:
        """The file, durable; `path` is what it is to be published as, if it is staged."""

    def abandon(self) -> None: ...


class Staging(Protocol):
    """How tasks write files of a lake, and read them to compact them. Sent to tasks."""

    def check_visible(self) -> None:
        """Raises BadLake on a machine that does not see the lake."""

    def new_file(
        self, schema: pa.Schema, wanted: MissingRange, start: int, hour: int
    ) -> OpenFile: ...

    def new_compacted_file(self, schema: pa.Schema, directory: str) -> OpenFile: ...

    def new_reprocessed_file(self, schema: pa.Schema, path: str) -> OpenFile: ...

    def read(self, path: str) -> pq.ParquetFile:
        """Raises FileNotFoundError."""

    def quarantine(self) -> "Staging":
        """Of messages that cannot be decoded."""


@final
@dataclass(frozen=True)
class PosixStaging:
    """Below the directory of a Parquet lake; `run` names the directory of one writer."""

    lake: Path
    run: str
    is_quarantine: bool = False

    def check_visible(self) -> None:
        # Where the lake is not visible, a directory of that name would only be created.
        if not (self.lake / SETTINGS_FILE).exists():
            raise BadLake(
                f"executor {socket.gethostname()} does not see the lake {self.lake}: it has to be"
                " in a directory that the driver and all executors share"
            )

    def new_file(
        self,
        schema: pa.Schema,
        wanted: MissingRange,  # noqa: ARG002
        start: int,  # noqa: ARG002
        hour: int,  # noqa: ARG002
    ) -> OpenFile:
        return StagedFile(self._root, self.run, schema)

    def new_compacted_file(self, schema: pa.Schema, directory: str) -> OpenFile:  # noqa: ARG002
        return StagedFile(self.lake, self.run, schema)

    def new_reprocessed_file(self, schema: pa.Schema, path: str) -> OpenFile:  # noqa: ARG002
        return StagedFile(self._root, self.run, schema)

    def read(self, path: str) -> pq.ParquetFile:
        return pq.ParquetFile(self._root / path)

    def quarantine(self) -> "PosixStaging":
        return PosixStaging(self.lake, self.run, is_quarantine=True)

    @property
    def _root(self) -> Path:
        return quarantine_of(self.lake) if self.is_quarantine else self.lake


@final
@dataclass(frozen=True)
class TableStaging:
    """Below a table, in a directory that all executors see or in an object store."""

    place: LakePlace

    def check_visible(self) -> None:
        """A table has no file of a known name; that its files exist is checked at the commit."""

    def new_file(self, schema: pa.Schema, wanted: MissingRange, start: int, hour: int) -> OpenFile:
        return TableFile(Storage(self.place), table_path(wanted, start, hour), schema)

    def new_compacted_file(self, schema: pa.Schema, directory: str) -> OpenFile:
        return TableFile(Storage(self.place), compacted_table_path(directory), schema)

    def new_reprocessed_file(self, schema: pa.Schema, path: str) -> OpenFile:
        return TableFile(Storage(self.place), path, schema)

    def read(self, path: str) -> pq.ParquetFile:
        storage = Storage(self.place)
        return pq.ParquetFile(storage.path(path), filesystem=storage.filesystem)

    def quarantine(self) -> "TableStaging":
        return TableStaging(beside(self.place, QUARANTINE_SUFFIX))


def staging_of(place: LakePlace, lake_format: LakeFormat) -> Staging:
    """For tasks that only read."""
    place = place.absolute()
    if lake_format is LakeFormat.PARQUET:
        assert isinstance(place, Path)
        return PosixStaging(place, run="")
    return TableStaging(place)


class _Run(NamedTuple):
    """Rows of a batch of the same hour, counted from 1970."""

    hour: int
    first_offset: int
    rows: pa.RecordBatch


@final
class StagedWriter:
    """Writes the messages of missing ranges, in their order, below the lake.

    With `decoder` bodies are decoded; messages that cannot be decoded go to the quarantine.
    """

    def __init__(self, staging: Staging, decoder: BodyDecoder | None = None) -> None:
        self._staging = staging
        self._decoder = decoder

    def write(self, wanted: MissingRange, batches: Iterable[pa.RecordBatch]) -> Iterator[LakePiece]:
        """The pieces, durable on disk. Together they cover every offset of the range.

        Raises BadLake on a machine that does not see the lake.
        """
        self._staging.check_visible()
        hour: int | None = None
        start = wanted.range.start
        files = self._new_files(wanted, start)
        try:
            for batch in batches:
                for run in hour_runs(batch):
                    if hour is not None and run.hour != hour:
                        yield _piece(wanted, (start, run.first_offset), hour, files)
                        start = run.first_offset
                        files = self._new_files(wanted, start)
                    hour = run.hour
                    files.add(run)
            yield _piece(wanted, (start, wanted.range.end), hour, files)
        except BaseException:
            files.abandon()
            raise

    def _new_files(self, wanted: MissingRange, start: int) -> "_HourFiles":
        return _HourFiles(self._staging, self._decoder, wanted, start)


@final
class _HourFiles:
    """The files of an hour: decoded messages, and those in quarantine."""

    def __init__(
        self, staging: Staging, decoder: BodyDecoder | None, wanted: MissingRange, start: int
    ) -> None:
        # Schemas that some of the messages name, and the decoder lacks.
        self.unknown: set[str] = set()
        self._staging = staging
        self._decoder = decoder
        self._wanted = wanted
        self._start = start
        self._good: OpenFile | None = None
        self._bad: OpenFile | None = None

    def add(self, run: _Run) -> None:
        if self._decoder is None:
            self._add_good(run.rows, run.hour)
            return
        decoded = self._decoder.decode(run.rows)
        self.unknown |= decoded.unknown
        if decoded.good.num_rows:
            self._add_good(decoded.good, run.hour)
        if decoded.bad.num_rows:
            if self._bad is None:
                self._bad = self._new_file(self._staging.quarantine(), decoded.bad, run.hour)
            self._bad.add(decoded.bad)

    def close(self, path: str) -> tuple[LakeFile | None, LakeFile | None]:
        """Both are durable."""
        good = None if self._good is None else self._good.close(path)
        bad = None if self._bad is None else self._bad.close(path)
        return good, bad

    def abandon(self) -> None:
        for file in (self._good, self._bad):
            if file is not None:
                file.abandon()

    def _add_good(self, rows: pa.RecordBatch, hour: int) -> None:
        if self._good is None:
            self._good = self._new_file(self._staging, rows, hour)
        self._good.add(rows)

    def _new_file(self, staging: Staging, rows: pa.RecordBatch, hour: int) -> OpenFile:
        return staging.new_file(rows.schema, self._wanted, self._start, hour)


def _piece(
    wanted: MissingRange, span: tuple[int, int], hour: int | None, files: _HourFiles
) -> LakePiece:
    queue = wanted.range.queue
    path = "" if hour is None else published_path(wanted, *span, hour)
    good, bad = files.close(path)
    return LakePiece(
        topic=queue.topic,
        broker=queue.broker_name,
        queue=queue.queue_id,
        start=span[0],
        end=span[1],
        rows=good.rows if good else 0,
        bytes=good.bytes if good else 0,
        path=good.path if good else "",
        staged=good.staged if good else "",
        generation=wanted.generation,
        incarnation=wanted.incarnation,
        quarantined=bad,
        bounds=good.bounds if good else None,
        unknown_schemas=sorted(files.unknown),
    )


def hour_runs(batch: pa.RecordBatch) -> Iterator[_Run]:
    """The batch, cut where the hour changes: forward, or back if a clock was set."""
    if not batch.num_rows:
        return
    stored_us = batch.column(_STORED_COLUMN).cast(pa.int64()).to_numpy(zero_copy_only=False)
    hours = stored_us // _HOUR_US
    cuts = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), batch.num_rows]
    offsets = batch.column(_OFFSET_COLUMN)
    for first, last in pairwise(cuts):
        rows = batch.slice(first, last - first)
        yield _Run(int(hours[first]), offsets[first].as_py(), rows)


@final
class _RowGroups:
    """Collects rows into row groups of a Parquet file."""

    def __init__(self, where: object, schema: pa.Schema) -> None:
        self.row_count = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_size = 0
        self._writer = pq.ParquetWriter(
            where, schema, compression=_COMPRESSION, use_dictionary=list(_REPEATING)
        )

    def add(self, rows: pa.RecordBatch) -> None:
        self.row_count += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_size += rows.nbytes
        if self._waiting_size >= _GROUP_SIZE_MAX or self._waiting_rows >= _GROUP_ROWS_MAX:
            self._write_group()

    def close(self) -> None:
        if self._waiting:
            self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        self._writer.close()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting = []
        self._waiting_rows = self._waiting_size = 0


@final
class StagedFile:
    """A new file below `root` that no reader finds until it is published."""

    def __init__(self, root: Path, run: str, schema: pa.Schema) -> None:
        self._name = staged_path(run)
        self._path = root / self._name
        make_directories(self._path.parent)
        self._groups = _RowGroups(self._path, schema)

    def add(self, rows: pa.RecordBatch) -> None:
        self._groups.add(rows)

    def close(self, path: str) -> LakeFile:
        """The file, durable, to be published as `path`."""
        self._groups.close()
        sync_file(self._path)
        sync_directory(self._path.parent)
        return LakeFile(path, self._name, self._groups.row_count, self._path.stat().st_size)

    def abandon(self) -> None:
        self._groups.abandon()
        self._path.unlink(missing_ok=True)


@final
class TableFile:
    """A new file of a table, which no reader finds until the table lists it."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self._storage = storage
        self._path = path
        self._bounds: FileBounds | None = None
        if isinstance(storage.place, Path):
            make_directories((storage.place / path).parent)
        with storage.errors_translated():
            self._stream = storage.filesystem.open_output_stream(storage.path(path))
            self._groups = _RowGroups(self._stream, schema)

    def add(self, rows: pa.RecordBatch) -> None:
        self._bounds = joined(self._bounds, bounds_of(rows))
        with self._storage.errors_translated():
            self._groups.add(rows)

    def close(self, path: str) -> LakeFile:  # noqa: ARG002
        with self._storage.errors_translated():
            self._groups.close()
            size = self._stream.tell()
            self._stream.close()
        if isinstance(self._storage.place, Path):
            file = self._storage.place / self._path
            sync_file(file)
            sync_directory(file.parent)
        return LakeFile(self._path, self._path, self._groups.row_count, size, self._bounds)

    def abandon(self) -> None:
        # What is left if the store does not answer is removed as an orphan.
        with suppress(OSError, pa.ArrowException):
            self._groups.abandon()
            self._stream.close()
            self._storage.filesystem.delete_file(self._storage.path(self._path))


def bounds_of(rows: pa.RecordBatch) -> FileBounds:
    """Of at least one row."""
    return FileBounds(
        *(
            (found["min"].as_py(), found["max"].as_py())
            for name in (_QUEUE_COLUMN, _OFFSET_COLUMN, _STORED_COLUMN)
            for found in (pc.min_max(rows.column(name).cast(pa.int64())),)
        )
    )


def joined(first: FileBounds | None, second: FileBounds) -> FileBounds:
    if first is None:
        return second
    pairs = zip(
        (first.queue_id, first.offset, first.stored_us),
        (second.queue_id, second.offset, second.stored_us),
        strict=True,
    )
    return FileBounds(*((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs))
