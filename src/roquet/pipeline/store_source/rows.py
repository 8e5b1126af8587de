"""From a part of the log to Arrow batches: what a task does."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roquet.pipeline.errors import DamagedStore, NotShared
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.options.reading import OnDamage, StoreOptions
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.record import peek_record
from roquet.protocol.record_columns import decode_records
from roquet.protocol.record_columns.arrays import Mask, Positions, numbers_in
from roquet.protocol.record_columns.record_starts import find_record_starts
from roquet.store.errors import DamagedRange
from roquet.store.offline.log_range import Run, StoreRange
from roquet.store.offline.snapshot import IN_NO_QUEUE, QueueBounds

_TIME_MS_MAX: Final = (2**63 - 1) // 1000
_QUEUE_ID_BITS: Final = 32

Numbers = npt.NDArray[np.int64]
BoundsByQueue = Mapping[tuple[str, int], QueueBounds]


@final
class RowFilter:
    """Which records of the log are rows: by the bounds of their queue, by queue id and by time.

    For many records at once; `QueueBounds.holds` decides the same for one. `needs` are the columns
    that the conditions use.
    """

    def __init__(
        self,
        *,
        topics: Sequence[str],
        bounds: BoundsByQueue | None = None,
        queue_ids: Collection[int] | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
    ) -> None:
        self._queues = None if bounds is None else _QueueRule(topics, bounds)
        self._queue_ids = None if queue_ids is None else np.array(sorted(queue_ids))
        self._begin = _moment(begin_ms)
        self._end = _moment(end_ms)
        needs = list(self._queues.needs) if self._queues is not None else []
        if self._queue_ids is not None:
            needs.append("queueId")
        if begin_ms is not None or end_ms is not None:
            needs.append("storeTimestamp")
        self.needs = tuple(dict.fromkeys(needs))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that meet all conditions, in their order."""
        if not self.needs or not batch.num_rows:
            return batch
        mask = np.ones(batch.num_rows, np.bool_)
        if self._queues is not None:
            mask &= self._queues.holds(batch)
        if self._queue_ids is not None:
            mask &= np.isin(_numbers(batch, "queueId"), self._queue_ids)
        if self._begin is not None:
            mask &= _is_true(pc.greater_equal(batch.column("storeTimestamp"), self._begin))
        if self._end is not None:
            mask &= _is_true(pc.less(batch.column("storeTimestamp"), self._end))
        # Nearly always all rows are kept, and then nothing is copied.
        return batch if mask.all() else batch.filter(_as_array(mask))


class _QueueRule:
    def __init__(self, topics: Sequence[str], bounds: BoundsByQueue) -> None:
        self._topics = topics
        numbers = {topic: number for number, topic in enumerate(topics)}
        rows = [(numbers[topic], queue_id, *each) for (topic, queue_id), each in bounds.items()]
        table = np.array(sorted(rows), np.int64).reshape(-1, 5).T
        self._keys = _keys(table[0], table[1])
        self._min_offsets, self._max_offsets, self._first_places = table[2:]
        # With one topic, only its records are decoded, so the column is not needed.
        of_topics = ("topic",) if len(topics) > 1 else ()
        self.needs = (*of_topics, "queueId", "queueOffset", "physicalOffset", "sysFlag")

    def holds(self, batch: pa.RecordBatch) -> Mask:
        if not self._keys.size:
            return np.zeros(batch.num_rows, np.bool_)
        keys = _keys(self._topic_numbers(batch), _numbers(batch, "queueId"))
        places = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        offsets = _numbers(batch, "queueOffset")
        held: Mask = (
            (self._keys[places] == keys)
            & (offsets >= self._min_offsets[places])
            & (offsets < self._max_offsets[places])
            & (_numbers(batch, "physicalOffset") >= self._first_places[places])
            & (_numbers(batch, "sysFlag") & IN_NO_QUEUE == 0)
        )
        return held

    def _topic_numbers(self, batch: pa.RecordBatch) -> Numbers:
        if len(self._topics) == 1:
            return np.zeros(batch.num_rows, np.int64)
        found = pc.index_in(batch.column("topic"), value_set=pa.array(self._topics, pa.string()))
        numbers: Numbers = found.fill_null(-1).to_numpy().astype(np.int64)
        return numbers


def _keys(topic_numbers: Numbers, queue_ids: Numbers) -> Numbers:
    """One number for both: topics come first, and no queue id has more bits."""
    return (topic_numbers << _QUEUE_ID_BITS) + queue_ids


def _numbers(batch: pa.RecordBatch, name: str) -> Numbers:
    numbers: Numbers = numbers_in(batch.column(name)).astype(np.int64, copy=False)
    return numbers


def _as_array(mask: Mask) -> pa.Array:
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def _moment(time_ms: int | None) -> pa.Scalar | None:
    if time_ms is None:
        return None
    return pa.scalar(min(time_ms, _TIME_MS_MAX) * 1000, pa.timestamp("us", tz="UTC"))


def _is_true(answers: pa.Array) -> Mask:
    """A time out of range is in no interval."""
    mask: Mask = answers.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


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
    """Batches of exactly these columns. Raises DamagedStore at the end, with all damages.

    Raises NotShared on a machine without the store.
    """
    keep_freed_memory()
    directories = {file.path.parent for file in split.part.files}
    for directory in directories:
        if not directory.is_dir():
            raise NotShared("path", directory)
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
