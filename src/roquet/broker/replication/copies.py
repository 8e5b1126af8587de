"""Which slaves a master has, and how far each has confirmed the log. State; it knows no sockets.

A SYNC_MASTER answers a send when one slave has confirmed it. With none that is near enough it does
not wait, and says so:

    nobody      no slave has reported, or all are `lag_size_max` behind     SLAVE_NOT_AVAILABLE
    somebody    at least one is nearer                                      wait, but not for ever

While somebody is waited for, readers are shown only what was confirmed, or given up: what a reader
has seen does not vanish with the master. What was readable stays so when a slave comes.
"""

from collections.abc import Callable
from typing import Final, final

import msgspec

EVERYTHING: Final = 2**63 - 1


def do_nothing() -> None:
    """For a master that waits for nobody."""


@final
class Slave(msgspec.Struct, eq=False):
    """One link, from its first report on."""

    address: str
    confirmed_end: int
    sent_end: int


@final
class Copies:
    """Belongs to the event loop. `on_change` is called after every change that is made here."""

    def __init__(self, lag_size_max: int, log_end: Callable[[], int]) -> None:
        self._lag_size_max = lag_size_max
        self._log_end = log_end
        self.slaves: list[Slave] = []
        # The most that any slave ever confirmed.
        self.confirmed_end = 0
        # What readers were shown while nobody was waited for, or given up.
        self._shown_end = 0
        self.on_change: Callable[[], None] = do_nothing

    def join(self, slave: Slave) -> None:
        self._note_shown()
        self.slaves.append(slave)
        self.confirm(slave, slave.confirmed_end)

    def leave(self, slave: Slave) -> None:
        self.slaves.remove(slave)
        self.on_change()

    def confirm(self, slave: Slave, end: int) -> None:
        self._note_shown()
        slave.confirmed_end = end
        self.confirmed_end = max(self.confirmed_end, end)
        self.on_change()

    def give_up(self, end: int) -> None:
        """A sender has waited long enough for what ends there."""
        self._shown_end = max(self._shown_end, end)

    def is_awaited(self, end: int) -> bool:
        """Whether it makes sense to wait for what ends there in the log."""
        return bool(self.slaves) and end - self.confirmed_end < self._lag_size_max

    @property
    def shown_end(self) -> int:
        """What lies behind it in the log is not shown to readers yet."""
        if not self.is_awaited(self._log_end()):
            return EVERYTHING
        return max(self.confirmed_end, self._shown_end)

    def _note_shown(self) -> None:
        if self.shown_end == EVERYTHING:
            self._shown_end = self._log_end()
