"""Which files are compacted, and how: small ones of an hour that is over, into larger ones."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyarrow as pa

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import Compaction, LakeFile
from roquet.pipeline.lake.files import compacted_path, directory_of, hour_of
from roquet.pipeline.lake.staging import Staging

_HOUR_S: Final = 3600
_ROWS_AT_ONCE: Final = 16_384


class PlannedCompaction(NamedTuple):
    """Files of one directory that become one file."""

    directory: str
    files: Sequence[LakeFile]

    @property
    def size(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def row_count(self) -> int:
        return sum(file.rows for file in self.files)


def planned_compactions(
    files: Iterable[LakeFile], closed_before: datetime, target_size: int
) -> list[PlannedCompaction]:
    """By directory. An hour is closed if it ended by then; large files stay as they are."""
    closed_hour = int(closed_before.timestamp()) // _HOUR_S
    found: list[PlannedCompaction] = []
    ordered = sorted(files, key=lambda file: (directory_of(file.path), _natural(file.path)))
    for directory, its_files in groupby(ordered, key=lambda file: directory_of(file.path)):
        small = [file for file in its_files if file.bytes < target_size]
        if len(small) > 1 and hour_of(directory) < closed_hour:
            found += (
                PlannedCompaction(directory, share)
                for share in _shares(small, target_size)
                if len(share) > 1
            )
    return found


def in_rounds(
    compactions: Sequence[PlannedCompaction], size: int
) -> Iterator[list[PlannedCompaction]]:
    """Compactions that are published together: a directory is exchanged once."""
    waiting: list[PlannedCompaction] = []
    for _, of_directory in groupby(compactions, key=lambda compaction: compaction.directory):
        waiting += of_directory
        if sum(compaction.size for compaction in waiting) >= size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def write_compaction(
    staging: Staging, planned: PlannedCompaction, name: tuple[int, int]
) -> Compaction:
    """Writes the file in a task; it is durable, and no reader sees it yet.

    `name` are the numbers of an entry and of the file. Raises BadLake, and FileNotFoundError for
    a file that another process compacted or rewrote, and removed.
    """
    staging.check_visible()
    try:
        made = _write(staging, planned, name)
    except pa.ArrowException as error:
        raise BadLake(f"files of {planned.directory} cannot be compacted: {error}") from None
    if made.rows != planned.row_count:
        raise BadLake(
            f"the files of {planned.directory} have {made.rows} messages, not"
            f" {planned.row_count} as in the log: another program wrote there"
        )
    return Compaction([each.path for each in planned.files], made)


def _write(staging: Staging, planned: PlannedCompaction, name: tuple[int, int]) -> LakeFile:
    schemas = []
    for each in planned.files:
        with staging.read(each.path) as source:
            schemas.append(source.schema_arrow)
    # A column may have become wider, and a struct may have got fields.
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    file = staging.new_compacted_file(schema, planned.directory)
    try:
        for each in planned.files:
            with staging.read(each.path) as source:
                for batch in source.iter_batches(_ROWS_AT_ONCE):
                    file.add(_conformed(batch, schema))
        return file.close(compacted_path(planned.directory, *name))
    except BaseException:
        file.abandon()
        raise


def _shares(files: Sequence[LakeFile], target_size: int) -> Iterator[list[LakeFile]]:
    share: list[LakeFile] = []
    size = 0
    for file in files:
        if share and size + file.bytes > target_size:
            yield share
            share, size = [], 0
        share.append(file)
        size += file.bytes
    yield share


def _natural(path: str) -> list[Any]:
    """Sorts numbers in names as numbers, so that offsets are in order."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", path)]


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With the columns of all files: a column that was added later is null in earlier rows."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
