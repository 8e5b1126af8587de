"""When a message that waits is due, and how many are delivered in one slice.

What is due is decided by the pure functions below, with times that `ClockSteps` has corrected: the
time of a delivery is stored by the wall clock as it was when the message came. When the clock is
set, all messages that were accepted in this run move along with it, so a delay stays as long as it
was. Those of earlier runs do not: the wall clock is all that they and we have in common, and
setting it mostly corrects it. Steps are forgotten at a restart.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar, final

import msgspec

from roquet.clock import Clock
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.properties import property_of_bytes
from roquet.protocol.messages.record import RecordHead
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

SLICE_COUNT_MAX: Final = 1024
SLICE_SIZE_MAX: Final = 1 << 20
BATCH_COUNT_MAX: Final = 32

# Of the time that others had.
_SHARE: Final = 0.2
_SLICE_S_MAX: Final = 0.005

# Less than this is not worth a line, and timers count in whole seconds anyway.
STEP_MS_MIN: Final = 1_000
# For a clock that is set again and again: what came before the oldest steps goes by the wall.
STEP_COUNT_MAX: Final = 1_000

K = TypeVar("K")

_REAL_TOPIC: Final = Property.REAL_TOPIC.encode()


def real_topic_of(record: bytes, head: RecordHead) -> str:
    """The topic that a waiting message is for; "" if it has none."""
    properties = record[head.properties_start : head.properties_end]
    topic = property_of_bytes(properties, _REAL_TOPIC) or b""
    return topic.decode(errors="replace")


def due_first(times_ms: Mapping[K, int | None], now_ms: int) -> list[K]:
    """The keys of those that are due, the one that has waited longest first."""
    due = {key: ms for key, ms in times_ms.items() if ms is not None and ms <= now_ms}
    return sorted(due, key=due.__getitem__)


def due_count(times_ms: Iterable[int], now_ms: int) -> int:
    """How many are due, from the first on."""
    count = 0
    for due_ms in times_ms:
        if due_ms > now_ms:
            break
        count += 1
    return count


def slice_length_s(since_last_s: float, *, is_alone: bool) -> float:
    """How long a slice may take that starts this long after the end of the last one."""
    return _SLICE_S_MAX if is_alone else min(_SLICE_S_MAX, since_last_s * _SHARE)


@final
class SliceBudget:
    """How much one slice may still deliver: the event loop serves nothing else while it lasts."""

    __slots__ = ("_batch_max", "_clock", "_ends_at_s", "count_left", "size_left")

    def __init__(
        self,
        clock: Clock,
        *,
        length_s: float = math.inf,
        count_max: int = SLICE_COUNT_MAX,
        batch_max: int = BATCH_COUNT_MAX,
    ) -> None:
        self._clock = clock
        self._ends_at_s = clock.monotonic_s() + length_s
        self.count_left = count_max
        self.size_left = SLICE_SIZE_MAX
        self._batch_max = batch_max

    @property
    def is_spent(self) -> bool:
        return (
            self.count_left <= 0
            or self.size_left <= 0
            or self._clock.monotonic_s() > self._ends_at_s
        )

    @property
    def batch_count(self) -> int:
        """How many may be delivered together."""
        return min(self._batch_max, self.count_left)

    def spend(self, records: Sequence[bytes]) -> None:
        self.count_left -= len(records)
        self.size_left -= sum(map(len, records))


class _Step(msgspec.Struct, frozen=True):
    log_end: int  # All before it was accepted before the step.
    size_ms: int


@final
class ClockSteps:
    """How far the wall clock was set, and when. Belongs to the event loop."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._run_start = store.log_end
        self._jumped_ms = clock.jumped_ms()
        self._steps: list[_Step] = []

    def check(self) -> None:
        """To be called before a message is accepted that has to wait, and before one is due."""
        jumped_ms = self._clock.jumped_ms()
        size_ms = jumped_ms - self._jumped_ms
        if abs(size_ms) < STEP_MS_MIN:
            return
        self._jumped_ms = jumped_ms
        self._steps.append(_Step(self._store.log_end, size_ms))
        if len(self._steps) > STEP_COUNT_MAX:
            self._run_start = self._steps.pop(0).log_end
        log.warning(
            "the clock was set %s by %.1f seconds: messages delayed since the start of this broker"
            " keep their delay, earlier ones follow the clock",
            "forward" if size_ms > 0 else "back",
            abs(size_ms) / 1000,
        )

    def era_of(self, physical_offset: int) -> int:
        """The first physical offset of those that were accepted with no step in between."""
        if physical_offset < self._run_start:
            return 0
        starts = (step.log_end for step in self._steps if step.log_end <= physical_offset)
        return max(starts, default=self._run_start)

    def since(self, physical_offset: int) -> int:
        """How far the clock was set, in milliseconds, since a message was accepted."""
        if physical_offset < self._run_start or not self._steps:
            return 0
        return sum(step.size_ms for step in self._steps if physical_offset < step.log_end)
