"""All messages that wait for their time, which of them are due, and when the next one is.

append_when_due -> SCHEDULE_TOPIC_XXXX or rmq_sys_wheel_timer       `postponing`
deliver_delayed -> Delays.due -> DelayLevels.due, Timers.due        `delivering`, here
                -> redeliver -> the topic of the message            `delivering`
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, final

from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.delays.due import ClockSteps, SliceBudget
from roquet.broker.delays.timers import Timers
from roquet.broker.tables.durable_state import ProgressTables
from roquet.clock import Clock
from roquet.store.message_store import MessageStore

# Times of delivery are by the wall clock, which may be set meanwhile.
_SLEEP_S_MAX: Final = 1.0


@final
class Delays:
    """Belongs to the event loop."""

    def __init__(
        self, clock: Clock, steps: ClockSteps, levels: DelayLevels, timers: Timers
    ) -> None:
        self._clock = clock
        self._steps = steps
        self.levels = levels
        self.timers = timers
        self._sources: list[DelayLevels | Timers] = [levels, timers]
        self._is_woken = asyncio.Event()
        # What is not proposed yet.
        self._has_delivered = asyncio.Event()
        self._wake_ms: int | None = None

    def due(self, budget: SliceBudget) -> Iterator[list[bytes]]:
        """Batches of records that are due.

        Asking for the next batch confirms the last one; one that is not confirmed is due again.
        """
        self._steps.check()
        # The second of the last slice comes first: one that is late must not stop the other.
        self._sources.reverse()
        for source in self._sources:
            for records in source.due(budget):
                yield records
                if records:
                    self._has_delivered.set()

    @property
    def next_due_ms(self) -> int | None:
        """Nothing is due before this; None if nothing waits."""
        times = [source.next_due_ms() for source in self._sources]
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def waiting(self) -> Iterator[tuple[str, int, int | None]]:
        """Topics with a count of messages that wait for them, and when the next of them is due.

        A topic may come several times. When timers are due is known by the second alone, not by
        topic: None.
        """
        yield from self.levels.waiting()
        for topic, count in self.timers.topic_counts.items():
            yield topic, count, None

    def due_counts(self, bounds_s: Sequence[int]) -> list[int]:
        """Messages that are due within each of these spans from now, and not within one before.

        The last count is of those beyond.
        """
        parts = [*self.levels.due_counts(bounds_s), *self.timers.due_counts(bounds_s)]
        nothing = [0] * (len(bounds_s) + 1)
        return [sum(each) for each in zip(nothing, *parts, strict=True)]

    @property
    def is_counted(self) -> bool:
        """Whether `waiting` has all of them; shortly after a start, some are not counted yet."""
        return self.levels.is_counted and self.timers.is_indexed

    def check_clock(self) -> None:
        """To be called before a message is stored that has to wait."""
        self._steps.check()

    def wake_at(self, due_ms: int) -> None:
        """A message that can be read now is due at that time."""
        if self._wake_ms is None or due_ms < self._wake_ms:
            self._is_woken.set()

    async def until_due(self) -> None:
        """Returns when something is due, at once if it already is; now and then for no reason."""
        self._is_woken.clear()
        self._wake_ms = self.next_due_ms
        timeout_s = None
        if self._wake_ms is not None:
            timeout_s = min((self._wake_ms - self._clock.now_ms()) / 1000, _SLEEP_S_MAX)
            if timeout_s <= 0:
                return
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_woken.wait()
        except TimeoutError:
            pass

    async def until_delivered(self) -> None:
        """Returns when a delivery is in no file yet, and no save of it is due soon."""
        await self._has_delivered.wait()

    def propose(self) -> None:
        """Lets the files follow, as soon as what was delivered is safe."""
        is_levels_taken, is_timers_taken = self.levels.propose(), self.timers.propose()
        if is_levels_taken and is_timers_taken:
            self._has_delivered.clear()


def loaded_delays(
    store: MessageStore,
    clock: Clock,
    delay_levels_ms: tuple[int, ...],
    progress: ProgressTables,
) -> Delays:
    """All that waits, as the log and the files have it."""
    steps = ClockSteps(store, clock)
    levels = DelayLevels(store, clock, steps, delay_levels_ms, progress.levels)
    return Delays(clock, steps, levels, Timers(store, clock, steps, progress.timers))
