"""State files that speak of the log, and must not know more than it has.

A file with "delivered up to here" while what was delivered is in no log would lose messages.
So each content has a `true_at`: the end of the log when it was proposed. It counts when the log is
safe up to there, and it is used by a log that reaches it and by no other. A log may be shorter:
its end was cut off, because another master never had it, or a disk lost it. For that, a few earlier
contents are kept, with their own `true_at`; without one that fits, everything starts at the first
message again. What was delivered already is then delivered again, and nothing is lost.

    {"offsetTable":{"1":15},"trueAt":52034,"earlier":[{"offsetTable":{"1":9},"trueAt":40120}]}

A file without `trueAt` was written by Apache, or by a broker before there was one: it counts as
true for the log that it lies beside.

A slave proposes what its master sends, and that counts when the slave's log has got there.

`ProgressTables` are all of these: delay levels, timers, the transaction check, and the journal of
popped messages. A master sends
what counts with its end, and a slave proposes it to its own states. Tables may arrive while the
link of the log lags, or is cut: nothing of them is used before its time.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast, final

import msgspec
from msgspec.structs import replace

from roquet.broker.tables.saving import do_nothing
from roquet.protocol.bodies.body import Body, read_body, write_body
from roquet.protocol.bodies.offsets import (
    AllProgress,
    DelayOffsetTable,
    PopProgress,
    TimerProgress,
    TransactionProgress,
)

KNOWN_COUNT_MAX: Final = 8


class Progress(Protocol):
    """A body with a progress; `true_at` is None while that is not known."""

    true_at: int | None


B = TypeVar("B", bound=Progress)


class _Earlier(Body, kw_only=True):
    earlier: list[msgspec.Raw] = msgspec.field(default_factory=list)


@final
class DurableState(Generic[B]):
    """The content of one file, for a `Saver`. `on_change` is called when it has changed."""

    def __init__(self, value: B) -> None:
        """`value` is what is true for every log: that nothing was done yet."""
        self._nothing = value
        # From the shortest log to the longest; the last one counts.
        self._known: list[B] = []
        self._proposed: B | None = None
        self.change_count = 0
        self.on_change: Callable[[], None] = do_nothing

    @property
    def value(self) -> B:
        return self._known[-1] if self._known else self._nothing

    @property
    def known(self) -> Sequence[B]:
        """What counts, after what counted earlier."""
        return self._known

    def propose(self, value: B, log_end: int) -> bool:
        """`value` is true as soon as the log is safe up to `log_end`; whether that is awaited.

        While an earlier proposal waits, later ones are left aside: under load each would have to
        wait longer than the one before, and none would ever be saved.
        """
        if self._proposed is not None:
            return False
        self._proposed = _with_end(value, log_end)
        return True

    def withdraw(self) -> None:
        """What is proposed is about a log that this one may not become."""
        self._proposed = None

    def confirm(self, end: int) -> None:
        """The log is safe up to `end`."""
        if self._proposed is None or _end(self._proposed) > end:
            return
        value, self._proposed = self._proposed, None
        # The same content is worth more with the earlier end: a shorter log can use it.
        if value != _with_end(self.value, value.true_at):
            self._replace(with_newest(self._known, value))

    def value_at(self, end: int) -> B:
        """The newest that a log with this end may use."""
        fitting = [value for value in self._known if _end(value) <= end]
        return fitting[-1] if fitting else self._nothing

    def truncate(self, log_end: int) -> None:
        """This is the log from now on: what is true for a longer one only is forgotten.

        To be saved before the log grows: it may grow into another one than that was.
        """
        self.confirm(log_end)
        self.withdraw()
        known = [
            value if value.true_at is not None else _with_end(value, log_end)
            for value in self._known
        ]
        known = [value for value in known if _end(value) <= log_end]
        if known != self._known:
            self._replace(known)

    def forget(self) -> None:
        """What it is about is gone."""
        self.withdraw()
        if self._known:
            self._replace([])

    def adopt(self, values: Sequence[B]) -> None:
        """What a file has, from the earliest to that which counts."""
        self._known = list(values)[-KNOWN_COUNT_MAX:]

    def to_bytes(self) -> bytes:
        text = write_body(self.value)
        earlier = [msgspec.Raw(write_body(value)) for value in self._known[:-1]]
        if not earlier:
            return text
        return b"%b,%b" % (text[:-1], write_body(_Earlier(earlier=earlier))[1:])

    def load(self, data: bytes) -> list[str]:
        """Raises BadBody. No content has names in it that could be left out."""
        kind = type(self._nothing)
        earlier = [read_body(kind, bytes(raw)) for raw in read_body(_Earlier, data).earlier]
        self.adopt([*earlier, read_body(kind, data)])
        return []

    def _replace(self, known: list[B]) -> None:
        self._known = known
        self.change_count += 1
        self.on_change()


def with_newest(known: Sequence[B], newest: B, count_max: int = KNOWN_COUNT_MAX) -> list[B]:
    """What is kept when one more counts: nothing of a longer log, and not too many.

    They become rarer with the distance from the end, so a few reach far back: the one that goes is
    that whose neighbours are nearest to each other, in proportion to how far back it is.
    """
    kept = [value for value in known if _end(value) < _end(newest)] + [newest]
    while len(kept) > count_max:
        ends = [_end(value) for value in kept]
        gaps = {
            index: (ends[index + 1] - ends[index - 1]) / (ends[-1] - ends[index])
            for index in range(1, len(ends) - 1)
        }
        del kept[min(gaps, key=gaps.__getitem__)]
    return kept


def _end(value: Progress) -> int:
    """An unknown one is that of the present log."""
    return value.true_at or 0


def _with_end(value: B, end: int | None) -> B:
    # Every content is a struct, which a protocol cannot express.
    return cast("B", replace(cast("msgspec.Struct", value), true_at=end))


_NAME_SIZE: Final = 8


def _new_name() -> str:
    return os.urandom(_NAME_SIZE).hex()


class ProgressTables(msgspec.Struct):
    """Belongs to the event loop."""

    levels: DurableState[DelayOffsetTable]
    timers: DurableState[TimerProgress]
    transactions: DurableState[TransactionProgress]
    pops: DurableState[PopProgress]
    # No other tables have it, nor these after a restart.
    name: str = msgspec.field(default_factory=_new_name)

    @property
    def version(self) -> str:
        """The same again means that nothing has changed."""
        counts = (
            self.levels.change_count,
            self.timers.change_count,
            self.transactions.change_count,
            self.pops.change_count,
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
            pops=self.pops.value,
        )

    def follow(self, progress: AllProgress, log_end: int) -> bool:
        """Proposes the master's progress; whether all of it was taken.

        A progress without a log end is true for a log that reaches `log_end`.
        """
        levels = DelayOffsetTable(offset_table=progress.offset_table, true_at=progress.true_at)
        is_taken = _propose(self.levels, levels, log_end)
        if progress.timers is not None:
            is_taken &= _propose(self.timers, progress.timers, log_end)
        if progress.transactions is not None:
            is_taken &= _propose(self.transactions, progress.transactions, log_end)
        if progress.pops is not None:
            is_taken &= _propose(self.pops, progress.pops, log_end)
        return is_taken

    def confirm(self, end: int) -> None:
        """The log is safe up to `end`."""
        self.levels.confirm(end)
        self.timers.confirm(end)
        self.transactions.confirm(end)
        self.pops.confirm(end)

    def withdraw(self) -> None:
        self.levels.withdraw()
        self.timers.withdraw()
        self.transactions.withdraw()
        self.pops.withdraw()

    def truncate(self, log_end: int) -> None:
        """This is the log from now on. To be saved before it grows."""
        self.levels.truncate(log_end)
        self.timers.truncate(log_end)
        self.transactions.truncate(log_end)
        self.pops.truncate(log_end)


def new_progress(
    transactions: DurableState[TransactionProgress], pops: DurableState[PopProgress]
) -> ProgressTables:
    """Of a broker that has delivered nothing yet; both parameters are in the file of offsets."""
    return ProgressTables(
        DurableState(DelayOffsetTable()), DurableState(TimerProgress()), transactions, pops
    )


P = TypeVar("P", DelayOffsetTable, TimerProgress, TransactionProgress, PopProgress)


def _propose(state: DurableState[P], value: P, log_end: int) -> bool:
    return state.propose(value, log_end if value.true_at is None else value.true_at)
