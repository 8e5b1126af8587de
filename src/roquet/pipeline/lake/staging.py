"""Parquet files as a task writes them: one for each run of messages that share an hour."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roquet.pipeline.lake.durable import make_directories, sync_directory, sync_file
from roquet.pipeline.lake.entries import Piece
from roquet.pipeline.lake.file_names import published_path, staged_path
from roquet.pipeline.lake.state import Wanted
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
# A row group is held in memory until it is whole.
_GROUP_SIZE_MAX: Final = 64 << 20
_GROUP_ROWS_MAX: Final = 128 << 10


def lake_columns(properties: PropertiesForm) -> list[str]:
    """Those of the files. The topic is not among them: readers get it from the directory."""
    left_out = {"topic"} | ({"properties"} if properties is PropertiesForm.NONE else set())
    return [name for name in COLUMN_NAMES if name not in left_out]


class _Run(NamedTuple):
    """Rows of a batch that share an hour, counted from 1970."""

    hour: int
    first_offset: int
    rows: pa.RecordBatch


@final
class StagedWriter:
    """Writes the messages of what is wanted, in their order, below the lake."""

    def __init__(self, lake: Path, run: str) -> None:
        self._lake = lake
        self._run = run

    def write(self, wanted: Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
        """The pieces, safe on disk. Together they cover every offset that was wanted."""
        hour: int | None = None
        file: _StagedFile | None = None
        start = wanted.range.start
        try:
            for batch in batches:
                for run in hour_runs(batch):
                    if file is not None and run.hour != hour:
                        yield self._piece(wanted, (start, run.first_offset), hour, file)
                        start = run.first_offset
                        file = None
                    if file is None:
                        file = self._new_file(batch.schema)
                    hour = run.hour
                    file.add(run.rows)
            yield self._piece(wanted, (start, wanted.range.end), hour, file)
            file = None
        finally:
            if file is not None:
                file.abandon()

    def _new_file(self, schema: pa.Schema) -> "_StagedFile":
        name = staged_path(self._run)
        make_directories((self._lake / name).parent)
        return _StagedFile(self._lake, name, schema)

    def _piece(
        self,
        wanted: Wanted,
        span: tuple[int, int],
        hour: int | None,
        file: "_StagedFile | None",
    ) -> Piece:
        queue = wanted.range.queue
        start, end = span
        is_file = file is not None and hour is not None
        return Piece(
            topic=queue.topic,
            broker=queue.broker_name,
            queue=queue.queue_id,
            start=start,
            end=end,
            rows=file.row_count if file is not None else 0,
            bytes=file.close() if file is not None else 0,
            path=published_path(wanted, start, end, hour) if is_file and hour is not None else "",
            staged=file.name if file is not None else "",
            generation=wanted.generation,
            birth=wanted.birth,
        )


def hour_runs(batch: pa.RecordBatch) -> Iterator[_Run]:
    """The batch, cut wherever the hour changes: forward, or back where a clock was set."""
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
class _StagedFile:
    def __init__(self, lake: Path, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.row_count = 0
        self._path = lake / name
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_size = 0
        self._writer = pq.ParquetWriter(
            self._path, schema, compression=_COMPRESSION, use_dictionary=list(_REPEATING)
        )

    def add(self, rows: pa.RecordBatch) -> None:
        self.row_count += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_size += rows.nbytes
        if self._waiting_size >= _GROUP_SIZE_MAX or self._waiting_rows >= _GROUP_ROWS_MAX:
            self._write_group()

    def close(self) -> int:
        """The size of the file, which is safe."""
        if self._waiting:
            self._write_group()
        self._writer.close()
        sync_file(self._path)
        sync_directory(self._path.parent)
        return self._path.stat().st_size

    def abandon(self) -> None:
        self._writer.close()
        self._path.unlink(missing_ok=True)

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting = []
        self._waiting_rows = self._waiting_size = 0
