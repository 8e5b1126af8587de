"""Whether a store takes messages now, and if not, why and for how long."""

from collections.abc import Callable
from math import inf
from typing import Final, final

from roquet.clock import Clock
from roquet.store.errors import (
    CopiesOnly,
    DiskFull,
    StoreClosed,
    StoreUnavailable,
    SyncFailed,
    refusal_of,
)

# A disk that was full a moment ago is not asked again for every message.
_FULL_DISK_PAUSE_S: Final = 1.0


@final
class AppendAdmission:
    """Belongs to the owner of the store; only `fail` is called by the thread that flushes."""

    def __init__(self, clock: Clock, failure: Callable[[], SyncFailed | None]) -> None:
        self._clock = clock
        self._failure = failure
        self._retry_at_s = 0.0
        # None while messages are taken. Whoever finds something here calls `check`.
        self.refusal: StoreUnavailable | None = None

    @property
    def is_closed(self) -> bool:
        return isinstance(self.refusal, StoreClosed)

    def check(self) -> None:
        """Raises StoreUnavailable, unless it is time to try again."""
        refusal = self.refusal
        if isinstance(refusal, DiskFull) and self._clock.monotonic_s() >= self._retry_at_s:
            # A sync may have failed at this very moment, and that must not be forgotten.
            refusal = self.refusal = self._failure()
        if refusal is not None:
            # A new one: the traceback of an error that is raised again and again would grow.
            raise type(refusal)(*refusal.args)

    def refused(self, error: OSError | StoreUnavailable) -> StoreUnavailable:
        """What to raise when a message could not be written."""
        refusal = error if isinstance(error, StoreUnavailable) else refusal_of(error)
        if isinstance(refusal, DiskFull):
            self.refusal = refusal
            self._retry_at_s = self._clock.monotonic_s() + _FULL_DISK_PAUSE_S
        return refusal

    def set_disk_full(self, used_percent: int) -> None:
        """Take nothing until `set_disk_free`."""
        if self.refusal is None:
            self.refusal = DiskFull(
                f"the disk is full: {used_percent} percent of it is in use, and "
                "diskSpaceWarningLevelRatio says that this is too much"
            )
        self._retry_at_s = inf

    def set_disk_free(self) -> None:
        if self._retry_at_s == inf:
            self._retry_at_s = 0.0

    def fail(self, error: SyncFailed) -> None:
        """Take nothing from now on."""
        self.refusal = error

    def take_copies_only(self) -> None:
        """What is stored comes from another store, and from nobody else."""
        self.refusal = CopiesOnly("this is a slave: messages are taken by its master")

    def take_messages(self) -> None:
        """No longer only copies; what else is refused stays so."""
        if isinstance(self.refusal, CopiesOnly):
            self.refusal = self._failure()

    def close(self) -> None:
        self.refusal = StoreClosed("the store is closed")
