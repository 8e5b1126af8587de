"""What became of the wall clock since messages were accepted: a delay stays as long as it was.

The time of a delivery is stored by the wall clock as it was when the message came. When somebody
sets the clock, all messages that were accepted in this run move along with it. Those of earlier
runs do not: the clock on the wall is all that they and we have in common, and setting it is mostly
putting it right. After a restart nobody knows of the steps before it.
"""

import logging
from typing import Final, final

import msgspec

from roquet.clock import Clock
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

# Less than this is not worth a line, and timers count in whole seconds anyway.
STEP_MS_MIN: Final = 1_000
# A clock that is set again and again: what came before the oldest steps goes by the wall.
STEP_COUNT_MAX: Final = 1_000


class _Step(msgspec.Struct, frozen=True):
    log_end: int  # All before it was accepted before the step.
    size_ms: int


@final
class ClockSteps:
    """Belongs to the event loop."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._run_start = store.log_end
        self._jumped_ms = clock.jumped_ms()
        self._steps: list[_Step] = []

    def look(self) -> None:
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
            "the clock was set %s by %.1f seconds: delayed messages of this run wait as long as"
            " they were to, those of earlier runs go by the clock",
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
