"""Messages with a delay level: where they wait, and which of them are due.

A message of level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX, and its queue entry holds the
time of its delivery in place of a tags code. All messages of a level wait equally long, so a
queue is in the order of delivery, and its first message determines when to look again.

    config/delayOffset.json   {"offsetTable": {"1": 15}, ...}   level -> offset of its first message

The rest of that file is explained in `tables/durable_state.py`.

For operators, the offsets of waiting messages are kept by topic, in eight bytes a message: an
append adds to them, and after a start they are read from the queues, a few at a time.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, final

from roquet.broker.delays.due import ClockSteps, SliceBudget, due_count, due_first, real_topic_of
from roquet.broker.tables.durable_state import DurableState
from roquet.clock import Clock
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.protocol.messages.record import peek_record
from roquet.protocol.names import SCHEDULE_TOPIC
from roquet.store.consume_queue import QueueEntry
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits

# Of messages that are counted at once after a start.
_COUNT_LIMITS: Final = QueueReadLimits(count_max=256, size_max=1 << 19)
_TRIM_COUNT_MIN: Final = 1024


@final
class OffsetsByTopic:
    """Which messages of one queue are for which topic, in ascending order of their offsets."""

    def __init__(self, end: int) -> None:
        # Just past the last message that was added.
        self.end = end
        self._offsets: dict[str, array[int]] = {}
        self._count = 0
        self._trim_count = _TRIM_COUNT_MIN

    def add(self, offset: int, topic: str, first: int) -> None:
        """`first` is the first message that still waits."""
        if self._count >= self._trim_count:
            self._trim(first)
        found = self._offsets.get(topic)
        if found is None:
            found = self._offsets[topic] = array("q")
        found.append(offset)
        self._count += 1
        self.end = offset + 1

    def waiting(self, first: int) -> Iterator[tuple[str, int, int]]:
        """Topics, how many messages they have from `first` on, and where the first of them is."""
        for topic, offsets in self._offsets.items():
            index = bisect_left(offsets, first)
            if index < len(offsets):
                yield topic, len(offsets) - index, offsets[index]

    def _trim(self, first: int) -> None:
        for topic, offsets in list(self._offsets.items()):
            del offsets[: bisect_left(offsets, first)]
            if not offsets:
                del self._offsets[topic]
        self._count = sum(map(len, self._offsets.values()))
        # Twice as many as wait are kept, so that an append costs next to nothing.
        self._trim_count = max(_TRIM_COUNT_MIN, 2 * self._count)


@final
class _Level:
    __slots__ = ("by_topic", "delay_ms", "freed_at_s", "offset", "queue_id", "suspect_end")

    def __init__(self, queue_id: int, delay_ms: int, offset: int) -> None:
        self.queue_id = queue_id
        self.delay_ms = delay_ms
        self.offset = offset  # of the first message that waits
        self.by_topic = OffsetsByTopic(offset)
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
        self._by_queue_id = {level.queue_id: level for level in self._levels}

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

    def appended(self, queue_id: int, offset: int, topic: str) -> None:
        """A message for `topic` was stored here."""
        level = self._by_queue_id.get(queue_id)
        # Earlier ones that are not counted yet come first.
        if level is not None and level.by_topic.end == offset:
            level.by_topic.add(offset, topic, level.offset)

    def waiting(self) -> Iterator[tuple[str, int, int]]:
        """Topics with the count of messages that wait for them, and the time of the next one.

        A topic comes once for each level; after a start, `is_counted` says whether all are known.
        """
        now_ms = self._clock.now_ms()
        for level in self._levels:
            for topic, count, offset in level.by_topic.waiting(level.offset):
                entries = self._store.entries(SCHEDULE_TOPIC, level.queue_id, offset, 1)
                due_ms = now_ms + level.delay_ms
                if entries:  # Otherwise it is being stored.
                    due_ms = self._due_ms(level, offset, entries[0], now_ms)
                yield topic, count, due_ms

    def due_counts(self, bounds_s: Sequence[int]) -> Iterator[list[int]]:
        """Of each level in use, the messages that are due within these spans from now."""
        now_ms = self._clock.now_ms()
        for level in self._levels:
            end = self._store.max_offset(SCHEDULE_TOPIC, level.queue_id)
            if level.offset < end:
                yield list(self._counts_of(level, end, [now_ms + 1000 * each for each in bounds_s]))

    def _counts_of(self, level: _Level, end: int, bounds_ms: Iterable[int]) -> Iterator[int]:
        """Messages of a level are in the order of their times, so each bound is searched for."""
        latest_ms = self._clock.now_ms() + level.delay_ms

        def due_ms(offset: int) -> int:
            entries = self._store.entries(SCHEDULE_TOPIC, level.queue_id, offset, 1)
            if not entries:
                return latest_ms  # It is being stored.
            (entry,) = entries
            return min(entry.tags_code + self._steps.since(entry.physical_offset), latest_ms)

        start = max(level.offset, self._store.min_offset(SCHEDULE_TOPIC, level.queue_id))
        counted = start
        for bound_ms in bounds_ms:
            is_all = bound_ms >= latest_ms
            offsets = range(counted, end)
            found = end if is_all else counted + bisect_right(offsets, bound_ms, key=due_ms)
            yield found - counted
            counted = found
        yield end - counted

    @property
    def is_counted(self) -> bool:
        return self._uncounted() is None

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

    def count_some(self) -> bool:
        """Counts a few messages that came before the start; whether there may be others."""
        level = self._uncounted()
        if level is None:
            return False
        by_topic = level.by_topic
        start = max(by_topic.end, level.offset)
        result = self._store.read(SCHEDULE_TOPIC, level.queue_id, start, _COUNT_LIMITS)
        for record in result.records:
            head = peek_record(record)
            by_topic.add(head.queue_offset, real_topic_of(record, head), level.offset)
        by_topic.end = max(start + 1, result.next_offset)
        return True

    def _uncounted(self) -> _Level | None:
        for level in self._levels:
            if level.by_topic.end < self._store.max_offset(SCHEDULE_TOPIC, level.queue_id):
                return level
        return None

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
