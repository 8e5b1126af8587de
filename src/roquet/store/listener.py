"""What a store tells its owner without being asked.

`flushed`, `flush_postponed` and `flush_failed` are called by the thread that flushes, everything
else by the caller of the store. They must return quickly and raise nothing.
"""

from typing import Protocol

from roquet.store.damage import Damage
from roquet.store.errors import SyncFailed


class StoreListener(Protocol):
    def flushed(self, end: int) -> None:
        """All records before the physical offset `end` survive a power cut."""

    def flush_postponed(self, reason: str) -> None:
        """A round of syncs could not begin, or go on; the next one tries again. Said once."""

    def flush_failed(self, error: SyncFailed) -> None:
        """Nothing appended since the last `flushed` may be acknowledged, now or later."""

    def damaged(self, damage: Damage) -> None:
        """Something was found damaged while reading, and was not handed out."""


class NoListener:
    """For owners who do not want to know."""

    def flushed(self, end: int) -> None:
        pass

    def flush_postponed(self, reason: str) -> None:
        pass

    def flush_failed(self, error: SyncFailed) -> None:
        pass

    def damaged(self, damage: Damage) -> None:
        pass
