"""Messages with a delay level: where they wait, and which of them are due.

A message of level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX, and its queue entry holds the
time of its delivery in place of a tags code. All messages of a level wait equally long, so a
queue is in the order of delivery, and its first message determines when to look again.

    config/delayOffset.json   {"offsetTable": {"1": 15}, ...}   level -> offset of its first message

The rest of that file is explained in `tables/durable_state.py`.
"""

import math
from collections.abc import Iterator
from itertools import zip_longest
from typing import final

from roquet.broker.delays.due import ClockSteps, SliceBudget, due_count, due_first
from roquet.broker.tables.durable_state import DurableState
from roquet.clock import Clock
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.protocol.names import SCHEDULE_TOPIC
from roquet.store.consume_queue import QueueEntry
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits


@final
class _Level:
    __slots__ = ("delay_ms", "freed_at_s", "offset", "queue_id", "suspect_end")

    def __init__(self, queue_id: int, delay_ms: int, offset: int) -> None:
        self.queue_id = queue_id
        self.delay_ms = delay_ms
        self.offset = offset  # of the first message that waits
        # See `_due_ms`.
        self.suspect_end = 0
        self.freed_at_s = 0.0


@final
class DelayLevels:
    """Belongs to the event loop. `state` is what `delayOffset.json` has, or will have."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        steps: ClockSteps,
        delays_ms: tuple[int, ...],
        state: DurableState[DelayOffsetTable],
    ) -> None:
        self._store = store
        self._clock = clock
        self._steps = steps
        self.state = state
        # A broker that was set up with more levels may have left messages in their queues.
        queue_ids = {*range(len(delays_ms)), *store.queues().get(SCHEDULE_TOPIC, ())}
        self._levels = [
            _Level(queue_id, delay_ms, self._loaded_offset(queue_id))
            for queue_id, delay_ms in zip_longest(
                sorted(queue_ids), delays_ms, fillvalue=delays_ms[-1]
            )
        ]

    def due(self, budget: SliceBudget) -> Iterator[list[bytes]]:
        """Batches of records that are due, those that waited longest first.

        Asking for the next batch confirms the last one; one that is not confirmed is due again.
        """
        now_ms = self._clock.now_ms()
        first_ms = {level: self._first_due_ms(level, now_ms) for level in self._levels}
        for level in due_first(first_ms, now_ms):
            while not budget.is_spent:
                count = due_count(self._due_times_ms(level, budget.batch_count, now_ms), now_ms)
                if count == 0:
                    break
                limits = QueueReadLimits(count, budget.size_left)
                result = self._store.read(SCHEDULE_TOPIC, level.queue_id, level.offset, limits)
                yield result.records
                budget.spend(result.records)
                level.offset = result.next_offset

    def next_due_ms(self) -> int | None:
        """When the next message is due; None if none waits."""
        now_ms = self._clock.now_ms()
        times = [self._first_due_ms(level, now_ms) for level in self._levels]
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def offsets(self) -> dict[int, int]:
        """How far each level is delivered."""
        return {level.queue_id + 1: level.offset for level in self._levels}

    def runtime_entries(self) -> dict[str, str]:
        """The part of a broker's runtime values (28) that is known here, of levels in use.

        Each has how far the level is delivered, and where it ends.
        """
        ends = {
            level: self._store.max_offset(SCHEDULE_TOPIC, level.queue_id) for level in self._levels
        }
        return {
            f"scheduleMessageOffset_{level.queue_id + 1}": f"{level.offset},{end}"
            for level, end in ends.items()
            if end
        }

    def propose(self) -> bool:
        """Lets the file follow, as soon as what was delivered is safe; whether that is awaited."""
        # A level that is not set up any more, and has no queue, is still in the file.
        offsets = self.state.value.offset_table | self.offsets()
        return self.state.propose(DelayOffsetTable(offset_table=offsets), self._store.log_end)

    def _loaded_offset(self, queue_id: int) -> int:
        """The offset in the file, if the queue has it: a power cut may have cut the queue."""
        store = self._store
        offset = self.state.value.offset_table.get(queue_id + 1, 0)
        max_offset = store.max_offset(SCHEDULE_TOPIC, queue_id)
        return min(max(offset, store.min_offset(SCHEDULE_TOPIC, queue_id)), max_offset)

    def _due_times_ms(self, level: _Level, count_max: int, now_ms: int) -> Iterator[int]:
        entries = self._store.entries(SCHEDULE_TOPIC, level.queue_id, level.offset, count_max)
        for offset, entry in enumerate(entries, level.offset):
            yield self._due_ms(level, offset, entry, now_ms)

    def _first_due_ms(self, level: _Level, now_ms: int) -> int | None:
        store = self._store
        queue_id = level.queue_id
        if level.offset >= store.max_offset(SCHEDULE_TOPIC, queue_id):
            return None
        # The log may have expired below us.
        level.offset = max(level.offset, store.min_offset(SCHEDULE_TOPIC, queue_id))
        (first,) = store.entries(SCHEDULE_TOPIC, queue_id, level.offset, 1)
        return self._due_ms(level, level.offset, first, now_ms)

    def _due_ms(self, level: _Level, offset: int, entry: QueueEntry, now_ms: int) -> int:
        """When a message is due by the clock as it goes now.

        No message waits longer than its level. One that seems to was stored before the
        clock was set back, in an earlier run, as was everything before it. How long it has waited
        is not known, so all that is stored by now waits the whole time once more, by a clock that
        is never set back.
        """
        due_ms = entry.tags_code + self._steps.since(entry.physical_offset)
        if due_ms - now_ms <= level.delay_ms:
            return due_ms
        if offset >= level.suspect_end:
            level.suspect_end = self._store.max_offset(SCHEDULE_TOPIC, level.queue_id)
            level.freed_at_s = self._clock.monotonic_s() + level.delay_ms / 1000
        return now_ms + math.ceil((level.freed_at_s - self._clock.monotonic_s()) * 1000)
