"""Which messages are due when, in eight bytes a message.

    minutes   minute -> second of the minute << 57 | offset of the message, for each message
    seconds   second -> offsets of its messages, of the minutes that have begun

Time is in seconds since 1970; a minute is taken apart into seconds when it begins. Offsets are
added in ascending order, so the first one in a bucket is the smallest.
"""

from array import array
from typing import Final, final

from roquet.broker.delays.timer_minute import split_minute

_MINUTE_S: Final = 60
_SECOND_SHIFT: Final = 57
_OFFSET_MASK: Final = (1 << _SECOND_SHIFT) - 1


@final
class TimerWheel:
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
