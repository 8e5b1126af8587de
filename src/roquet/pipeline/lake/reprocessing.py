"""Rows of the quarantine that can be decoded now: read by tasks, moved to the messages by a driver.

A lake of plain Parquet has one log for both, so one entry moves them. Of a table, three commits do:

1. In the quarantine, the rows that are to leave it get files of their own, named by a step.
2. The messages get the decoded rows, and the name of the step, in one commit.
3. The quarantine loses the files of the step.

A job that is killed before 2 has changed nothing but files: the next one abandons its step, in a
commit to the messages, after which the step can never be completed, and starts a new one. Killed
after 2, its rows are in both tables until the next job, which finds the step, does 3.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, final

import pyarrow as pa
import pyarrow.parquet as pq

from roquet.pipeline.errors import PlanOutdated
from roquet.pipeline.lake.entries import LakeFile, Reprocessed
from roquet.pipeline.lake.files import (
    directory_of,
    moving_path,
    reprocessed_path,
    step_of,
    topic_of,
)
from roquet.pipeline.lake.schemas.body_schema import read_body_schema
from roquet.pipeline.lake.schemas.decoding import REASON_COLUMN, BodyDecoder, DecodedRows
from roquet.pipeline.lake.schemas.evolution import check_schema
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from roquet.pipeline.lake.staging import OpenFile, Staging
from roquet.pipeline.lake.table import Rewrite, TableLake, until_accepted
from roquet.pipeline.lake.table_offsets import (
    ReprocessedRange,
    abandoned_name,
    abandoned_steps,
    reprocessed_ranges,
)

_ROWS_AT_ONCE: Final = 16_384
# Of rows that a job was killed with before they left.
_MOVING_REASON: Final = "it can be decoded, by the schema of a job that was interrupted"


class Rereading(NamedTuple):
    """What tasks know. `step` names files of a table; plain Parquet needs none."""

    staging: Staging
    schema: str
    step: str | None


class Reread(NamedTuple):
    """What a task found: `moved` is None if no row of the file can be decoded.

    `unknown` are keys of schemas that were missing.
    """

    rows: int
    moved: Reprocessed | None = None
    unknown: frozenset[str] = frozenset()


def reread(work: Rereading, path: str) -> Reread | None:
    """Of a file of the quarantine; None if it is gone. What is written is not listed yet."""
    decoder = decoder_of(read_body_schema(work.schema))
    unknown: set[str] = set()
    count = 0
    try:
        with work.staging.quarantine().read(path) as source:
            for rows in source.iter_batches(_ROWS_AT_ONCE):
                decoded = _decoded(decoder, rows)
                unknown |= decoded.unknown
                if decoded.good.num_rows:
                    # From the start again: files are written only if something leaves.
                    return _moved(work, path, source, decoder)
                count += rows.num_rows
    except FileNotFoundError:
        return None
    return Reread(count, None, frozenset(unknown))


def _moved(work: Rereading, path: str, source: pq.ParquetFile, decoder: BodyDecoder) -> Reread:
    quarantine, directory = work.staging.quarantine(), directory_of(path)
    good = _LazyFile(work.staging, reprocessed_path(directory))
    bad = _LazyFile(quarantine, reprocessed_path(directory))
    moving = None if work.step is None else _LazyFile(quarantine, moving_path(directory, work.step))
    unknown: set[str] = set()
    try:
        for rows in source.iter_batches(_ROWS_AT_ONCE):
            decoded = _decoded(decoder, rows)
            unknown |= decoded.unknown
            good.add(decoded.good)
            bad.add(decoded.bad.select(rows.schema.names))
            if moving is not None:
                moving.add(_as_before(decoded.good, rows.schema))
        moved = Reprocessed(path, good.made(), bad.close(), moving and moving.close())
        return Reread(source.metadata.num_rows, moved, frozenset(unknown))
    except BaseException:
        for file in (good, bad, moving):
            if file is not None:
                file.abandon()
        raise


def _decoded(decoder: BodyDecoder, rows: pa.RecordBatch) -> DecodedRows:
    return decoder.decode(rows.drop_columns([REASON_COLUMN]))


def _as_before(good: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """As rows of the quarantine."""
    reasons = pa.array([_MOVING_REASON] * good.num_rows, pa.string())
    return good.append_column(REASON_COLUMN, reasons).select(schema.names)


@final
class _LazyFile:
    """Of at least one row, or none."""

    def __init__(self, staging: Staging, path: str) -> None:
        self._staging = staging
        self._path = path
        self._file: OpenFile | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._file is None:
            self._file = self._staging.new_reprocessed_file(rows.schema, self._path)
        self._file.add(rows)

    def close(self) -> LakeFile | None:
        return None if self._file is None else self._file.close(self._path)

    def made(self) -> LakeFile:
        """As `close`, of a file that has rows."""
        file = self.close()
        assert file is not None
        return file

    def abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()


def finish_steps(lake: TableLake) -> None:
    """What jobs that were killed left. Raises BadLake."""
    until_accepted(lake.place, partial(_abandon_steps, lake))
    until_accepted(lake.place, partial(_remove_moved, lake))


def move_rows(lake: TableLake, moved: Sequence[Reprocessed], schema: str, seen: str | None) -> None:
    """From the quarantine to the messages. `seen` is the schema that the table had before.

    Raises PlanOutdated if another process changed the quarantine or the schema, and BadLake.
    """
    until_accepted(lake.place, partial(_set_apart, lake, moved))
    until_accepted(lake.place, partial(_add, lake, moved, schema, seen))
    until_accepted(lake.place, partial(_remove_moved, lake))


def _set_apart(lake: TableLake, moved: Sequence[Reprocessed]) -> None:
    listed = _quarantined_paths(lake)
    if listed.issuperset(_moving(moved)):
        # Committed, and the answer of the store was lost.
        return
    _check_listed(lake, listed, [each.path for each in moved])
    added = [file for each in moved for file in (each.moving, each.bad) if file is not None]
    lake.quarantine.rewrite(Rewrite([each.path for each in moved], added))


def _add(lake: TableLake, moved: Sequence[Reprocessed], schema: str, seen: str | None) -> None:
    moving = _moving(moved)
    step = step_of(moving[0])
    assert step is not None
    state = lake.table.refresh()
    offsets = lake.table.offsets()
    if step in {each.step for each in reprocessed_ranges(offsets)}:
        return
    check_schema(state.body_schema, schema, seen)
    if step in abandoned_steps(offsets):
        raise PlanOutdated(f"{lake.place}: another job reads the quarantine again")
    _check_listed(lake, _quarantined_paths(lake), moving)
    added = [each.good for each in moved]
    ranges = ranges_in(step, added)
    marks = {each.name: each.end for each in ranges}
    lake.table.rewrite(Rewrite([], added, body_schema=schema, marks=marks))


def _abandon_steps(lake: TableLake) -> None:
    lake.table.refresh()
    offsets = lake.table.offsets()
    known = abandoned_steps(offsets) | {each.step for each in reprocessed_ranges(offsets)}
    steps = {step for path in _quarantined_paths(lake) if (step := step_of(path)) is not None}
    if left := sorted(steps - known):
        lake.table.rewrite(Rewrite([], [], marks={abandoned_name(each): 1 for each in left}))


def _remove_moved(lake: TableLake) -> None:
    lake.table.refresh()
    done = {each.step for each in reprocessed_ranges(lake.table.offsets())}
    moved = sorted(path for path in _quarantined_paths(lake) if step_of(path) in done)
    if moved:
        lake.quarantine.rewrite(Rewrite(moved, []))


def ranges_in(step: str, files: Iterable[LakeFile]) -> list[ReprocessedRange]:
    """One for each topic and number of a queue, around all rows."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for file in files:
        assert file.bounds is not None
        (first, last), (start, end) = file.bounds.queue_id, file.bounds.offset
        for queue_id in range(first, last + 1):
            key = topic_of(file.path), queue_id
            known = spans.get(key, (start, end + 1))
            spans[key] = (min(start, known[0]), max(end + 1, known[1]))
    return [ReprocessedRange(topic, step, each, *span) for (topic, each), span in spans.items()]


def _moving(moved: Sequence[Reprocessed]) -> list[str]:
    return [each.moving.path for each in moved if each.moving is not None]


def _quarantined_paths(lake: TableLake) -> set[str]:
    return {each.path for each in lake.quarantined_files()}


def _check_listed(lake: TableLake, listed: set[str], paths: Iterable[str]) -> None:
    """Raises PlanOutdated."""
    if gone := [path for path in paths if path not in listed]:
        raise PlanOutdated(f"{lake.place}: {gone[0]} left the quarantine meanwhile")
