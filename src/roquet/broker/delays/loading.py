"""Everything that waits, as the log and the files have it."""

from roquet.broker.delays.clock_steps import ClockSteps
from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.delays.delays import Delays
from roquet.broker.delays.timers import TimerProgress, Timers
from roquet.broker.tables.durable_state import DurableState
from roquet.clock import Clock
from roquet.protocol.bodies.offset_table import DelayOffsetTable
from roquet.store.message_store import MessageStore


def loaded_delays(
    store: MessageStore,
    clock: Clock,
    delay_levels_ms: tuple[int, ...],
    level_state: DurableState[DelayOffsetTable],
    timer_state: DurableState[TimerProgress],
) -> Delays:
    steps = ClockSteps(store, clock)
    levels = DelayLevels(store, clock, steps, delay_levels_ms, level_state)
    return Delays(clock, steps, levels, Timers(store, clock, steps, timer_state))
