"""Which records of the log are rows: by the bounds of their queue, by queue id and by time.

For many records at once; `QueueBounds.holds` decides the same for one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roquet.store.offline.snapshot import IN_NO_QUEUE, QueueBounds

_TIME_MS_MAX: Final = (2**63 - 1) // 1000
_QUEUE_ID_BITS: Final = 32

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
BoundsByQueue = Mapping[tuple[str, int], QueueBounds]


@final
class RowFilter:
    """The conditions on a record. `needs` are the columns that they use."""

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
        return batch if mask.all() else batch.filter(pa.array(mask))


class _QueueRule:
    def __init__(self, topics: Sequence[str], bounds: BoundsByQueue) -> None:
        self._topics = pa.array(topics, pa.string())
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
        found = pc.index_in(batch.column("topic"), value_set=self._topics)
        numbers: Numbers = found.fill_null(-1).to_numpy().astype(np.int64)
        return numbers


def _keys(topic_numbers: Numbers, queue_ids: Numbers) -> Numbers:
    """One number for both: topics come first, and no queue id has more bits."""
    return (topic_numbers << _QUEUE_ID_BITS) + queue_ids


def _numbers(batch: pa.RecordBatch, name: str) -> Numbers:
    numbers: Numbers = batch.column(name).to_numpy().astype(np.int64, copy=False)
    return numbers


def _moment(time_ms: int | None) -> pa.Scalar | None:
    if time_ms is None:
        return None
    return pa.scalar(min(time_ms, _TIME_MS_MAX) * 1000, pa.timestamp("us", tz="UTC"))


def _is_true(answers: pa.Array) -> Mask:
    """A time out of range is in no interval."""
    mask: Mask = answers.fill_null(False).to_numpy(zero_copy_only=False)
    return mask
