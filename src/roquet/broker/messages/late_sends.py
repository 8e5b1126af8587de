"""Sends that waited too long are refused, so that their senders go elsewhere.

Apache calls it fast failure, and looks at its queue of requests; we have none. What waits here
waits in sockets, as long as the loop is busy with something else. So the loop notes again and again
that it is alive, and whatever it finds after too long a silence may have waited all that time.
"""

import asyncio
from typing import Final, final

from roquet.clock import Clock
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode

# Signs of life in the time that a send may wait.
_SIGN_COUNT: Final = 8


@final
class LateSends:
    """`wait_s_max` is the time that a send may wait; with 0 it may wait for ever."""

    __slots__ = ("_alive_s", "_clock", "refused_count", "wait_s_max")

    def __init__(self, clock: Clock, wait_s_max: float) -> None:
        self._clock = clock
        self.wait_s_max = wait_s_max
        self._alive_s = clock.monotonic_s()
        self.refused_count = 0

    @property
    def is_watched(self) -> bool:
        return self.wait_s_max > 0

    def is_late(self) -> bool:
        """Whether a send that comes now may have waited for too long."""
        return self.is_watched and self._silence_s() > self.wait_s_max

    def check(self) -> None:
        """Raises Refused, in Apache's words."""
        if self.is_late():
            self.refused_count += 1
            waited_ms = round(self._silence_s() * 1000)
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in "
                f"queue: {waited_ms}ms, size of queue: 0",
            )

    def note_alive(self) -> None:
        self._alive_s = self._clock.monotonic_s()

    async def keep_noting(self) -> None:
        """For ever."""
        while True:
            self.note_alive()
            await asyncio.sleep(self.wait_s_max / _SIGN_COUNT)

    def _silence_s(self) -> float:
        return self._clock.monotonic_s() - self._alive_s
