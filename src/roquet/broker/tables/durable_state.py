"""State files that speak of the log, and must not know more than the disk does.

A file that says "delivered up to here" while what was delivered is only in memory would lose
messages in a power cut. So new content is proposed together with the end of the log at that
moment, and becomes what is saved only when the log is safe up to there.
"""

from collections.abc import Callable
from typing import Generic, TypeVar, final

from roquet.broker.tables.saving import do_nothing
from roquet.protocol.bodies.body import Body, read_body, write_body

B = TypeVar("B", bound=Body)


@final
class DurableState(Generic[B]):
    """The content of one file, for a `Saver`. `on_change` is called when it has changed."""

    def __init__(self, value: B) -> None:
        self.value = value
        self.change_count = 0
        self.on_change: Callable[[], None] = do_nothing
        self._proposed: tuple[B, int] | None = None

    def propose(self, value: B, log_end: int) -> None:
        """`value` is true as soon as the log is safe up to `log_end`.

        While an earlier proposal waits, later ones are left aside: under load each would have to
        wait longer than the one before, and none would ever be saved.
        """
        if self._proposed is None:
            self._proposed = (value, log_end)

    def confirm(self, synced_end: int) -> None:
        """The log is safe up to `synced_end`."""
        if self._proposed is None:
            return
        value, log_end = self._proposed
        if log_end <= synced_end:
            self._proposed = None
            if value != self.value:
                self.value = value
                self.change_count += 1
                self.on_change()

    def take_over(self, value: B) -> None:
        """What the master has saved, and a slave saves, too."""
        if value != self.value:
            self.value = value
            self.change_count += 1
            self.on_change()

    def to_bytes(self) -> bytes:
        return write_body(self.value)

    def load(self, data: bytes) -> list[str]:
        """Raises BadBody. No content has names in it that could be left out."""
        self.value = read_body(type(self.value), data)
        return []
