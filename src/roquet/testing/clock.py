"""A clock that runs as clocks do, and that a test can put forward."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, final

from roquet.client.errors import BadArgument
from roquet.clock import SystemClock

_MILLISECOND: Final = timedelta(milliseconds=1)


@final
class MovableClock:
    """The clock on the wall of a cluster, by which messages are delayed, retried and checked.

    Only that: connections, locks and long polls go by the time that really passes, or all of them
    would be taken for dead after a leap of an hour. And clients have clocks of their own: the
    moment that is an hour away for the brokers is `clock.now() + timedelta(hours=1)`.
    """

    def __init__(self) -> None:
        self._real = SystemClock()
        self._ahead_ms = 0
        self._listeners: list[Callable[[], object]] = []

    def advance(self, time: timedelta) -> None:
        """What is due by then is delivered at once. There is no way back. Raises BadArgument."""
        if time < timedelta(0):
            raise BadArgument(f"a cluster's clock is put forward only, not by {time}", "time")
        self._ahead_ms += time // _MILLISECOND
        for listener in self._listeners:
            listener()

    def now(self) -> datetime:
        """The time in the cluster."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def now_ms(self) -> int:
        """The same in milliseconds since 1970, as it is stored in messages."""
        return self._real.now_ms() + self._ahead_ms

    def monotonic_s(self) -> float:
        """Time that really passes; it cannot be moved."""
        return self._real.monotonic_s()

    def jumped_ms(self) -> int:
        """Time that is advanced here has passed: nothing waits for it."""
        return self._real.jumped_ms()

    @contextmanager
    def notifying(self, listener: Callable[[], object]) -> Iterator[None]:
        """Within the block, `listener` is called after each move, in the thread that made it."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
