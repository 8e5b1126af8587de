"""Everything that waits, as the log and the files have it."""

from roquet.broker.delays.clock_steps import ClockSteps
from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.delays.delays import Delays
from roquet.broker.delays.timers import Timers
from roquet.broker.tables.progress import ProgressTables
from roquet.clock import Clock
from roquet.store.message_store import MessageStore


def loaded_delays(
    store: MessageStore,
    clock: Clock,
    delay_levels_ms: tuple[int, ...],
    progress: ProgressTables,
) -> Delays:
    steps = ClockSteps(store, clock)
    levels = DelayLevels(store, clock, steps, delay_levels_ms, progress.levels)
    return Delays(clock, steps, levels, Timers(store, clock, steps, progress.timers))
