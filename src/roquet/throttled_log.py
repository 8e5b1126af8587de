"""Log lines that would repeat: the first at once, then at most one a period with a count.

A scanner, a peer that retries for ever, or a full disk must not fill the log with lines that all
are the same; and a condition that lasts must not be logged once and then forgotten.
"""

import logging
from collections.abc import Callable, Hashable
from typing import Final, final

import msgspec

PERIOD_S: Final = 60.0


@final
class _Repeated(msgspec.Struct):
    next_at_s: float
    count: int = 0
    level: int = logging.WARNING
    last: str = ""


@final
class ThrottledLog:
    """Lines with the same key are counted together. Belongs to one thread, like its owner."""

    def __init__(
        self, log: logging.Logger, now_s: Callable[[], float], period_s: float = PERIOD_S
    ) -> None:
        self._log = log
        self._now_s = now_s
        self._period_s = period_s
        self._by_key: dict[Hashable, _Repeated] = {}

    def warning(self, key: Hashable, text: str) -> None:
        self.add(key, text)

    def error(self, key: Hashable, text: str) -> None:
        self.add(key, text, level=logging.ERROR)

    def add(
        self, key: Hashable, text: str, *, level: int = logging.WARNING, count: int = 1
    ) -> None:
        """Logs `text` now if its key is new or its period is over, and counts it otherwise.

        With `count=0` it is a condition that lasts, not an event.
        """
        repeated = self._by_key.get(key)
        if repeated is None:
            self._by_key[key] = _Repeated(self._now_s() + self._period_s)
            self._log.log(level, "%s", text)
            return
        repeated.count += count
        repeated.level = level
        repeated.last = text
        if self._now_s() >= repeated.next_at_s:
            self._write(repeated)

    def flush(self) -> None:
        """Logs what was counted in periods that are over. Keys that fell silent are forgotten."""
        now_s = self._now_s()
        for key, repeated in list(self._by_key.items()):
            if now_s < repeated.next_at_s:
                continue
            if repeated.count:
                self._write(repeated)
            else:
                del self._by_key[key]

    def clear(self, key: Hashable) -> bool:
        """The condition is over: its next line is a first one. Returns whether it was logged."""
        return self._by_key.pop(key, None) is not None

    def clear_all(self) -> None:
        """All conditions are over."""
        self._by_key.clear()

    def _write(self, repeated: _Repeated) -> None:
        if repeated.count <= 1:
            self._log.log(repeated.level, "%s", repeated.last)
        else:
            self._log.log(repeated.level, "%s (%d times)", repeated.last, repeated.count)
        repeated.count = 0
        repeated.next_at_s = self._now_s() + self._period_s
