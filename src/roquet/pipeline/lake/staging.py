"""Parquet files as tasks write them: one for each run of messages of the same hour."""

import socket
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roquet.pipeline.durable_files import make_directories, sync_directory, sync_file
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import LakeFile, LakePiece
from roquet.pipeline.lake.files import (
    SETTINGS_FILE,
    MissingRange,
    published_path,
    quarantine_of,
    staged_path,
)
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm

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
# A row group is kept in memory until it is complete.
_GROUP_SIZE_MAX: Final = 64 << 20
_GROUP_ROWS_MAX: Final = 128 << 10


def lake_columns(properties: PropertiesForm) -> list[str]:
    """The columns of the files. Readers get the topic from the directory."""
    left_out = {"topic"} | ({"properties"} if properties is PropertiesForm.NONE else set())
    return [name for name in COLUMN_NAMES if name not in left_out]


def check_visible(lake: Path) -> None:
    """Raises BadLake where a directory of that name would only be created."""
    if not (lake / SETTINGS_FILE).exists():
        raise BadLake(
            f"executor {socket.gethostname()} does not see the lake {lake}: it has to be in a"
            " directory that the driver and all executors share"
        )


class _Run(NamedTuple):
    """Rows of a batch of the same hour, counted from 1970."""

    hour: int
    first_offset: int
    rows: pa.RecordBatch


@final
class StagedWriter:
    """Writes the messages of missing ranges, in their order, below the lake.

    With `json_columns` bodies are decoded; messages that cannot be decoded go to the quarantine.
    """

    def __init__(self, lake: Path, run: str, json_columns: JsonColumns | None = None) -> None:
        self._lake = lake
        self._run = run
        self._json_columns = json_columns

    def write(self, wanted: MissingRange, batches: Iterable[pa.RecordBatch]) -> Iterator[LakePiece]:
        """The pieces, durable on disk. Together they cover every offset of the range.

        Raises BadLake on a machine that does not see the lake.
        """
        check_visible(self._lake)
        hour: int | None = None
        files = self._new_files()
        start = wanted.range.start
        try:
            for batch in batches:
                for run in hour_runs(batch):
                    if hour is not None and run.hour != hour:
                        yield _piece(wanted, (start, run.first_offset), hour, files)
                        start = run.first_offset
                        files = self._new_files()
                    hour = run.hour
                    files.add(run.rows)
            yield _piece(wanted, (start, wanted.range.end), hour, files)
        except BaseException:
            files.abandon()
            raise

    def _new_files(self) -> "_HourFiles":
        return _HourFiles(self._lake, self._run, self._json_columns)


@final
class _HourFiles:
    """The files of an hour: decoded messages, and those in quarantine."""

    def __init__(self, lake: Path, run: str, json_columns: JsonColumns | None) -> None:
        self._lake = lake
        self._run = run
        self._json_columns = json_columns
        self._good: StagedFile | None = None
        self._bad: StagedFile | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        if self._json_columns is None:
            self._add_good(rows)
            return
        decoded = self._json_columns.decode(rows)
        if decoded.good.num_rows:
            self._add_good(decoded.good)
        if decoded.bad.num_rows:
            if self._bad is None:
                quarantine = quarantine_of(self._lake)
                self._bad = StagedFile(quarantine, self._run, decoded.bad.schema)
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

    def _add_good(self, rows: pa.RecordBatch) -> None:
        if self._good is None:
            self._good = StagedFile(self._lake, self._run, rows.schema)
        self._good.add(rows)


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
class StagedFile:
    """A new file below `root` that no reader finds until it is published."""

    def __init__(self, root: Path, run: str, schema: pa.Schema) -> None:
        self._name = staged_path(run)
        self._path = root / self._name
        self._row_count = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_size = 0
        make_directories(self._path.parent)
        self._writer = pq.ParquetWriter(
            self._path, schema, compression=_COMPRESSION, use_dictionary=list(_REPEATING)
        )

    def add(self, rows: pa.RecordBatch) -> None:
        self._row_count += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_size += rows.nbytes
        if self._waiting_size >= _GROUP_SIZE_MAX or self._waiting_rows >= _GROUP_ROWS_MAX:
            self._write_group()

    def close(self, path: str) -> LakeFile:
        """The file, durable, to be published as `path`."""
        if self._waiting:
            self._write_group()
        self._writer.close()
        sync_file(self._path)
        sync_directory(self._path.parent)
        return LakeFile(path, self._name, self._row_count, self._path.stat().st_size)

    def abandon(self) -> None:
        self._writer.close()
        self._path.unlink(missing_ok=True)

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting = []
        self._waiting_rows = self._waiting_size = 0
