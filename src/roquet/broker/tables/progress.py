"""How far a broker is with messages that wait: delay levels, timers, and the transaction check.

Each is a `DurableState`, so each has an end that a log must reach for it to be true. A master sends
what counts with that end, and a slave proposes it to its own states, where it counts as soon as the
slave's log reaches it. Tables may go on coming while the link of the log lags behind, or is cut:
nothing of them is used before its time.
"""

import os
from typing import Final, TypeVar

import msgspec

from roquet.broker.tables.durable_state import DurableState
from roquet.broker.tables.offsets import OffsetTable
from roquet.protocol.bodies.offsets import (
    AllProgress,
    DelayOffsetTable,
    TimerProgress,
    TransactionProgress,
)

_NAME_SIZE: Final = 8


def _new_name() -> str:
    return os.urandom(_NAME_SIZE).hex()


class ProgressTables(msgspec.Struct):
    """Belongs to the event loop."""

    levels: DurableState[DelayOffsetTable]
    timers: DurableState[TimerProgress]
    transactions: DurableState[TransactionProgress]
    # No other tables have it, nor these after a restart.
    name: str = msgspec.field(default_factory=_new_name)

    @property
    def version(self) -> str:
        """The same again means that nothing has changed."""
        counts = (
            self.levels.change_count,
            self.timers.change_count,
            self.transactions.change_count,
        )
        return f"{self.name}-{sum(counts)}"

    def snapshot(self) -> AllProgress:
        """What a slave of ours is sent."""
        levels = self.levels.value
        return AllProgress(
            offset_table=levels.offset_table,
            true_at=levels.true_at,
            timers=self.timers.value,
            transactions=self.transactions.value,
        )

    def follow(self, progress: AllProgress, log_end: int) -> bool:
        """Proposes what the master says; whether all of it was taken.

        What does not say for which log it is true is true for one that reaches `log_end`.
        """
        levels = DelayOffsetTable(offset_table=progress.offset_table, true_at=progress.true_at)
        is_taken = _propose(self.levels, levels, log_end)
        if progress.timers is not None:
            is_taken &= _propose(self.timers, progress.timers, log_end)
        if progress.transactions is not None:
            is_taken &= _propose(self.transactions, progress.transactions, log_end)
        return is_taken

    def confirm(self, end: int) -> None:
        """The log is safe up to `end`."""
        self.levels.confirm(end)
        self.timers.confirm(end)
        self.transactions.confirm(end)

    def withdraw(self) -> None:
        self.levels.withdraw()
        self.timers.withdraw()
        self.transactions.withdraw()

    def settle(self, log_end: int) -> None:
        """This is the log from now on. To be saved before it grows."""
        self.levels.settle(log_end)
        self.timers.settle(log_end)
        self.transactions.settle(log_end)


def progress_of(offsets: OffsetTable) -> ProgressTables:
    """Of a broker that has done nothing yet; that of transactions is in the file of offsets."""
    return ProgressTables(
        DurableState(DelayOffsetTable()), DurableState(TimerProgress()), offsets.transactions
    )


P = TypeVar("P", DelayOffsetTable, TimerProgress, TransactionProgress)


def _propose(state: DurableState[P], value: P, log_end: int) -> bool:
    return state.propose(value, log_end if value.true_at is None else value.true_at)
