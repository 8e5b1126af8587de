"""From a part of the log to Arrow batches: what a task does."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from roquet.pipeline.errors import DamagedStore
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.options.reading import OnDamage, StoreOptions
from roquet.pipeline.store_source.row_filter import RowFilter
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.record import peek_record
from roquet.protocol.record_columns import decode_records
from roquet.protocol.record_columns.arrays import Positions
from roquet.protocol.record_columns.record_starts import find_record_starts
from roquet.store.errors import DamagedRange
from roquet.store.offline.log_range import Run, StoreRange
from roquet.store.offline.snapshot import QueueBounds

log = logging.getLogger(__name__)

ROWS_MIN: Final = 4_096
ROWS_MAX: Final = 16_384
SIZE_MAX: Final = 8 << 20


class StoreSplit(NamedTuple):
    """What one task reads, and everything it has to know of the store."""

    part: StoreRange
    topics: tuple[str, ...]
    # None if every record of the topics is read.
    bounds: Mapping[tuple[str, int], QueueBounds] | None


def read_split(
    options: StoreOptions, columns: Sequence[str], split: StoreSplit
) -> Iterator[pa.RecordBatch]:
    """Batches of exactly these columns. Raises DamagedStore at the end, with all damages."""
    keep_freed_memory()
    return rebatched(_SplitReader(options, columns, split).batches())


class _SplitReader:
    def __init__(self, options: StoreOptions, columns: Sequence[str], split: StoreSplit) -> None:
        self._options = options
        self._columns = list(columns)
        self._split = split
        self._rules = RowFilter(
            topics=split.topics,
            bounds=split.bounds,
            queue_ids=options.queue_ids,
            begin_ms=options.starting_timestamp,
            end_ms=options.ending_timestamp,
        )
        self._names = list(dict.fromkeys([*columns, *self._rules.needs]))
        self._damages: list[DamagedRange] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        for each in self._split.part.read():
            if isinstance(each, DamagedRange):
                self._damages.append(each)
            elif not self._has_failed:
                for batch in self._decoded(each, None):
                    yield self._rules.kept(batch).select(self._columns)
        self._report()

    @property
    def _has_failed(self) -> bool:
        """Then rows are not needed any more; other damages are still searched for."""
        return bool(self._damages) and self._options.on_damage is OnDamage.FAIL

    def _decoded(self, run: Run, starts: Positions | None) -> Iterator[pa.RecordBatch]:
        """In one batch; or in halves, down to a record that its producer compressed wrongly."""
        try:
            batch = decode_records(
                run.records,
                self._names,
                starts=starts,
                topics=self._split.topics,
                properties=self._options.properties,
                broker_name=self._options.broker_name,
                # They were checked when the run was found.
                check_bodies=False,
            )
        except (BadMessage, TooLarge) as error:
            if starts is None:
                starts = find_record_starts(np.frombuffer(run.records, np.uint8))
            if starts.size == 1:
                self._damages.append(_damage(run, int(starts[0]), str(error)))
                return
            middle = starts.size // 2
            yield from self._decoded(run, starts[:middle])
            yield from self._decoded(run, starts[middle:])
        else:
            yield batch

    def _report(self) -> None:
        """Raises DamagedStore."""
        if not self._damages:
            return
        files = self._split.part.files
        error = DamagedStore(
            files[0].path.parent if files else self._options.path,
            [f"{each.start} to {each.end} ({each.reason})" for each in self._damages],
            sum(each.end - each.start for each in self._damages),
        )
        if self._options.on_damage is OnDamage.FAIL:
            raise error
        log.warning("skipped: %s", error.what)


def _damage(run: Run, position: int, reason: str) -> DamagedRange:
    """One record of a run that cannot become a row."""
    start = run.physical_offset + position
    return DamagedRange(start, start + peek_record(run.records, position).size, reason)


def rebatched(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches neither small, which cost as much as large ones, nor too large.

    Only the last batch, or one of large rows, is small.
    """
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= ROWS_MIN or 2 * size >= SIZE_MAX:
            yield from _cut(_combined(waiting))
            waiting = []
            count = size = 0
    if waiting:
        yield from _cut(_combined(waiting))


def _combined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (combined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return combined


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    count = batch.num_rows
    if count > 1 and (count > ROWS_MAX or batch.nbytes > SIZE_MAX):
        middle = count // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    else:
        yield batch
