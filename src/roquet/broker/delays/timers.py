"""Messages with a delivery time of their own, as 5.x clients ask for it.

They wait in queue 0 of rmq_sys_wheel_timer, in the order they came, with the second before their
delivery in TIMER_OUT_MS: Apache 5.x keeps them in the same way, and 4.9 shows them as messages of
that topic. Which of them is due when is kept in memory only, in an index that follows the queue:
it continues with the new messages and, after a start, with those that were not delivered yet. Of
Apache's own files for this, only `config/timercheck` is read, once, to learn
what Apache has delivered.

    config/timers.json   {"deliveredUntilS": 1700000000, "firstOffset": 15, "nextOffset": 40, ...}

    firstOffset       the first message that was not delivered
    nextOffset        just past the last message that was indexed
    deliveredUntilS   of those between the two, all that were due in this second or before it
                      are delivered
    trueAt, earlier   see `tables/durable_state.py`
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, final

from roquet.broker.delays.due import ClockSteps, SliceBudget, real_topic_of
from roquet.broker.delays.timer_minute import split_minute
from roquet.broker.tables.durable_state import DurableState
from roquet.clock import Clock
from roquet.protocol.bodies.brokers import read_timer_checkpoint
from roquet.protocol.bodies.offsets import TimerProgress
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.properties import property_of_bytes
from roquet.protocol.messages.record import peek_record
from roquet.protocol.names import TIMER_TOPIC
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits, ReadResult

_MINUTE_S: Final = 60
_SECOND_SHIFT: Final = 57
_OFFSET_MASK: Final = (1 << _SECOND_SHIFT) - 1


@final
class TimerWheel:
    """Which messages are due when, in eight bytes a message.

        minutes   minute -> second of the minute << 57 | offset of the message, for each message
        seconds   second -> offsets of its messages, of the minutes that have begun

    Time is in seconds since 1970; a minute is split into seconds when it starts. Offsets are added
    in ascending order, so the first one in a bucket is the smallest.
    """

    def __init__(self) -> None:
        self._minutes: dict[int, array[int]] = {}
        self._seconds: dict[int, array[int]] = {}
        self._first_minute: int | None = None  # of `_minutes`
        self._last_begun = -1
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, due_s: int, offset: int) -> None:
        minute, second = divmod(due_s, _MINUTE_S)
        self._count += 1
        if minute <= self._last_begun:
            _bucket(self._seconds, due_s).append(offset)
            return
        _bucket(self._minutes, minute).append(second << _SECOND_SHIFT | offset)
        if self._first_minute is None or minute < self._first_minute:
            self._first_minute = minute

    def due(self, now_s: int, count_max: int) -> "array[int]":
        """Offsets of the first second that is due, up to `count_max`; empty if none is."""
        while self._first_minute is not None and self._first_minute * _MINUTE_S <= now_s:
            self._begin(self._first_minute)
        first_s = min(self._seconds, default=None)
        if first_s is None or first_s > now_s:
            return array("q")
        return self._seconds[first_s][:count_max]

    def remove(self, count: int) -> None:
        """Forgets the first ones that `due` returned."""
        first_s = min(self._seconds)
        bucket = self._seconds[first_s]
        del bucket[:count]
        self._count -= count
        if not bucket:
            del self._seconds[first_s]

    @property
    def next_s(self) -> int | None:
        """No message is due before this; None if there is none. A minute counts from its start."""
        if self._seconds:
            return min(self._seconds)
        return None if self._first_minute is None else self._first_minute * _MINUTE_S

    def counts(self, bounds_s: Sequence[int]) -> list[int]:
        """Messages up to each of these times and after the one before, and those after the last.

        A minute that has not begun counts from its start.
        """
        counts = [0] * (len(bounds_s) + 1)
        for minute, bucket in self._minutes.items():
            counts[bisect_left(bounds_s, minute * _MINUTE_S)] += len(bucket)
        for second, bucket in self._seconds.items():
            counts[bisect_left(bounds_s, second)] += len(bucket)
        return counts

    @property
    def first_offset(self) -> int | None:
        """The smallest offset of all; None if there is none."""
        buckets = (*self._minutes.values(), *self._seconds.values())
        return min((bucket[0] & _OFFSET_MASK for bucket in buckets), default=None)

    def _begin(self, minute: int) -> None:
        for second, offsets in split_minute(self._minutes.pop(minute).tobytes()):
            _bucket(self._seconds, minute * _MINUTE_S + second).frombytes(offsets)
        self._last_begun = max(self._last_begun, minute)
        self._first_minute = min(self._minutes, default=None)


def _bucket(buckets: "dict[int, array[int]]", time: int) -> "array[int]":
    found = buckets.get(time)
    if found is None:
        found = buckets[time] = array("q")
    return found


PRECISION_MS: Final = 1000
TIMER_QUEUE_ID: Final = 0

# At most this many are indexed in one slice, whatever else is done in it.
_INDEX_COUNT_MAX: Final = 256
_INDEX_SIZE_MAX: Final = 1 << 19

_TIMERCHECK_SIZE: Final = 56  # after that, the file is empty
_OUT_MS: Final = Property.TIMER_OUT_MS.encode()
_OUT_MS_DIGITS_MAX: Final = 15
_DELETE_KEY: Final = Property.TIMER_DELETE_UNIQUE_KEY.encode()
_UNIQUE_KEY: Final = Property.UNIQUE_KEY.encode()
_REAL_TOPIC: Final = Property.REAL_TOPIC.encode()


@final
class Timers:
    """Belongs to the event loop. `state` is what `timers.json` has, or will have."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        steps: ClockSteps,
        state: DurableState[TimerProgress],
    ) -> None:
        self._store = store
        self._clock = clock
        self._steps = steps
        self.state = state
        # By era, as `ClockSteps` has it: in each, times are by the clock as it was then.
        self._wheels: dict[int, TimerWheel] = {}
        # Keys of messages that are not to be delivered: the recall mark of each waits, too.
        self._recalled: set[bytes] = set()
        # Where the queue ended at the start: a mark may be among what was not indexed since then.
        self._start_end = self._max_offset
        # How many of those in the wheels are for which topic.
        self.topic_counts: Counter[str] = Counter()
        # What lies before it was indexed before the start, and partly delivered.
        self._loaded_end = min(state.value.next_offset, self._max_offset)
        self._delivered_until_s = state.value.delivered_until_s
        # Just past the last message that was indexed.
        self._offset = min(state.value.first_offset, self._max_offset)

    @property
    def pending_count(self) -> int:
        return sum(map(len, self._wheels.values())) + self._max_offset - self._offset

    @property
    def is_indexed(self) -> bool:
        return self._offset >= self._max_offset

    def due(self, budget: SliceBudget) -> Iterator[list[bytes]]:
        """Indexes new records, then gives batches of those that are due.

        Asking for the next batch confirms the last one; one that is not confirmed is due again.
        """
        self._index_new()
        while self._offset < self._start_end and not budget.is_spent:
            self._index_new()
        if self._offset < self._start_end:
            return
        now_ms = self._clock.now_ms()
        while not budget.is_spent:
            era = self._most_overdue(now_ms)
            if era is None:
                break
            wheel = self._wheels[era]
            offsets = wheel.due(self._second(era, now_ms), budget.batch_count)
            first, count = offsets[0], _run_length(offsets)
            result = self._read(first, count, budget.size_left)
            yield self._kept(result.records)
            budget.spend(result.records)
            self._count_delivered(result.records)
            self._forget_marks(result.records)
            # An expired message is skipped, and perhaps others that are not in the run.
            wheel.remove(max(1, min(count, result.next_offset - first)))
            if not wheel:
                del self._wheels[era]
        if not self._wheels:
            self.topic_counts.clear()  # With those that expired before they were delivered.

    def recall(self, key: bytes) -> None:
        """The message is not to be delivered. A mark of it was stored, and will be indexed."""
        self._recalled.add(key)

    def _kept(self, records: list[bytes]) -> list[bytes]:
        """Without those that were recalled, and without the marks of recalls."""
        if not self._recalled:
            return records
        return [
            record
            for record in records
            if (keys := _RecallKeys.of(record)).mark is None
            and self._recalled.isdisjoint((keys.own, keys.own_without_topic))
        ]

    def _forget_marks(self, records: Sequence[bytes]) -> None:
        if self._recalled:
            self._recalled -= {_RecallKeys.of(record).mark for record in records}

    def next_due_ms(self) -> int | None:
        """No message is due before this; None if none waits."""
        if self._offset < self._max_offset:
            return self._clock.now_ms()
        times = (
            wheel.next_s * 1000 + self._steps.since(era)
            for era, wheel in self._wheels.items()
            if wheel.next_s is not None
        )
        return min(times, default=None)

    def due_counts(self, bounds_s: Sequence[int]) -> Iterator[list[int]]:
        """Of each wheel, the messages that are due within these spans from now."""
        now_ms = self._clock.now_ms()
        for era, wheel in self._wheels.items():
            now_s = self._second(era, now_ms)
            yield wheel.counts([now_s + bound_s for bound_s in bounds_s])

    def propose(self) -> bool:
        """Lets the file follow, as soon as what was delivered is safe; whether that is awaited."""
        if self._offset < self._loaded_end:
            return False  # Only the file has what was delivered before the start.
        wheels = self._wheels.values()
        # The smallest of all: a second is over when it is for every message that waits.
        next_s = min((each.next_s for each in wheels if each.next_s is not None), default=1)
        firsts = (each.first_offset for each in wheels if each.first_offset is not None)
        progress = TimerProgress(
            delivered_until_s=next_s - 1,
            first_offset=min(firsts, default=self._offset),
            next_offset=self._offset,
        )
        return self.state.propose(progress, self._store.log_end)

    def _second(self, era: int, now_ms: int) -> int:
        """The time of the clock now if it had not been set since then."""
        return (now_ms - self._steps.since(era)) // 1000

    def _most_overdue(self, now_ms: int) -> int | None:
        """The era of the message that should have come first; None if none is due."""
        late_s = {
            era: self._second(era, now_ms) - wheel.next_s
            for era, wheel in self._wheels.items()
            # Looking takes the minutes apart that are due: the next second is that of a message.
            if wheel.due(self._second(era, now_ms), 1) and wheel.next_s is not None
        }
        return max(late_s, key=late_s.__getitem__, default=None)

    def _index_new(self) -> None:
        """Adds some messages to the wheels that are not in them yet."""
        end = min(self._offset + _INDEX_COUNT_MAX, self._max_offset)
        size_left = _INDEX_SIZE_MAX
        while self._offset < end and size_left > 0:
            result = self._read(self._offset, end - self._offset, size_left)
            for record in result.records:
                self._add(record)
                size_left -= len(record)
            self._offset = result.next_offset

    def _add(self, record: bytes) -> None:
        head = peek_record(record)
        properties = record[head.properties_start : head.properties_end]
        due_s = _due_second(properties)
        if due_s is None:
            return  # It was sent to this topic directly, and waits for nothing.
        # Not `in`, which takes twice as long.
        if properties.find(_DELETE_KEY) >= 0:
            mark = property_of_bytes(properties, _DELETE_KEY)
            if mark is not None:
                self._recalled.add(mark)
        is_old = head.queue_offset < self._loaded_end
        if not (is_old and due_s <= self._delivered_until_s):
            era = self._steps.era_of(head.physical_offset)
            self._wheels.setdefault(era, TimerWheel()).add(due_s, head.queue_offset)
            self.topic_counts[real_topic_of(record, head)] += 1

    def _count_delivered(self, records: Sequence[bytes]) -> None:
        for record in records:
            topic = real_topic_of(record, peek_record(record))
            if self.topic_counts[topic] > 1:
                self.topic_counts[topic] -= 1
            else:
                del self.topic_counts[topic]

    def _read(self, offset: int, count: int, size: int) -> ReadResult:
        return self._store.read(TIMER_TOPIC, TIMER_QUEUE_ID, offset, QueueReadLimits(count, size))

    @property
    def _max_offset(self) -> int:
        return self._store.max_offset(TIMER_TOPIC, TIMER_QUEUE_ID)


class _RecallKeys(NamedTuple):
    """What a message is recalled by, with or without its topic; and what a mark recalls."""

    own: bytes
    own_without_topic: bytes
    mark: bytes | None

    @classmethod
    def of(cls, record: bytes) -> "_RecallKeys":
        head = peek_record(record)
        properties = record[head.properties_start : head.properties_end]
        key = property_of_bytes(properties, _UNIQUE_KEY) or b""
        topic = property_of_bytes(properties, _REAL_TOPIC) or b""
        return cls(topic + key, key, property_of_bytes(properties, _DELETE_KEY))


def apache_progress(data: bytes) -> TimerProgress:
    """The content of `config/timercheck`. Raises BadBody."""
    checkpoint = read_timer_checkpoint(data[:_TIMERCHECK_SIZE])
    return TimerProgress(
        # What its TIMER_OUT_MS puts before this time is delivered; we count one second more.
        delivered_until_s=checkpoint.last_read_time_ms // 1000,
        next_offset=min(checkpoint.timer_queue_offset, checkpoint.master_timer_queue_offset),
    )


def out_ms(delivery_ms: int) -> int:
    """TIMER_OUT_MS of a message for this time: the last full second before it."""
    return (delivery_ms - 1) // PRECISION_MS * PRECISION_MS


def _run_length(offsets: Sequence[int]) -> int:
    """How many follow one another, from the first on."""
    count = 1
    while count < len(offsets) and offsets[count] == offsets[0] + count:
        count += 1
    return count


def _due_second(properties: bytes) -> int | None:
    """The first full second in which a message may be delivered; None if it is no timer."""
    text = property_of_bytes(properties, _OUT_MS)
    if text is None or not text.isdigit() or len(text) > _OUT_MS_DIGITS_MAX:
        return None
    return -(-(int(text) + PRECISION_MS) // 1000)
