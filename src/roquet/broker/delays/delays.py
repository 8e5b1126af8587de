"""Everything that waits for its time, and when to look at it again."""

import asyncio
from typing import Final, final

from roquet.broker.delays.clock_steps import ClockSteps
from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.delays.slice import DeliverySlice
from roquet.broker.delays.timers import Timers
from roquet.clock import Clock

# Times of delivery are by the wall clock, which somebody may set meanwhile.
_SLEEP_S_MAX: Final = 1.0


@final
class Delays:
    """Belongs to the event loop. What takes the messages to their places is in `delivering.py`."""

    def __init__(
        self, clock: Clock, steps: ClockSteps, levels: DelayLevels, timers: Timers
    ) -> None:
        self._clock = clock
        self._steps = steps
        self.levels = levels
        self.timers = timers
        self._sources: list[DelayLevels | Timers] = [levels, timers]
        self._is_rung = asyncio.Event()
        # What is not proposed yet.
        self._has_delivered = asyncio.Event()
        self._wake_ms: int | None = None

    def deliver(self, part: DeliverySlice) -> None:
        """Hands over what is due; see `DelayLevels` and `Timers`."""
        self._steps.look()
        # Whoever was second comes first: one that is behind must not stop the other.
        self._sources.reverse()
        count_left = part.count_left
        try:
            for source in self._sources:
                source.deliver(part)
        finally:
            if part.count_left < count_left:
                self._has_delivered.set()

    @property
    def next_due_ms(self) -> int | None:
        """Nothing is due before this; None if nothing waits."""
        times = [source.next_due_ms() for source in self._sources]
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def accept(self) -> None:
        """To be called before a message is stored that has to wait."""
        self._steps.look()

    def ring(self, due_ms: int) -> None:
        """A message that can be read now is due at that time."""
        if self._wake_ms is None or due_ms < self._wake_ms:
            self._is_rung.set()

    async def until_due(self) -> None:
        """Returns when something is due, at once if it already is; now and then for no reason."""
        self._is_rung.clear()
        self._wake_ms = self.next_due_ms
        timeout_s = None
        if self._wake_ms is not None:
            timeout_s = min((self._wake_ms - self._clock.now_ms()) / 1000, _SLEEP_S_MAX)
            if timeout_s <= 0:
                return
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_rung.wait()
        except TimeoutError:
            pass

    async def until_delivered(self) -> None:
        """Returns when something was delivered that no file says yet, nor will say soon."""
        await self._has_delivered.wait()

    def propose(self) -> None:
        """Lets the files follow, as soon as what was delivered is safe."""
        is_levels_taken, is_timers_taken = self.levels.propose(), self.timers.propose()
        if is_levels_taken and is_timers_taken:
            self._has_delivered.clear()
