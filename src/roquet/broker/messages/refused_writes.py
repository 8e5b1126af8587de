"""Messages that the store did not take, told once a minute: a full disk must not fill the log."""

import logging
from typing import Final, final

from roquet.clock import Clock
from roquet.store.errors import StoreUnavailable, TooManyFiles

log = logging.getLogger(__name__)

_PERIOD_S: Final = 60.0


@final
class RefusedWrites:
    """The first refusal is told at once; those of the minute behind it are counted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._untold_count = 0
        self._reason: StoreUnavailable | None = None
        self._told_at_s = -_PERIOD_S

    def note(self, error: StoreUnavailable, count: int) -> None:
        """`count` messages were refused for the same reason."""
        self._untold_count += count
        self._reason = error
        self.tell()

    def tell(self) -> None:
        """To be called now and then: what was counted is told when its minute is over."""
        now_s = self._clock.monotonic_s()
        if self._untold_count and now_s >= self._told_at_s + _PERIOD_S:
            # Files are closed by themselves; a disk is not.
            level = logging.WARNING if isinstance(self._reason, TooManyFiles) else logging.ERROR
            log.log(level, "messages refused: %d (%s)", self._untold_count, self._reason)
            self._untold_count = 0
            self._told_at_s = now_s
