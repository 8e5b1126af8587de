"""How long an event loop is kept from other work, in CPU time of its thread: other processes do not
count."""

import asyncio
import time
from typing import Final

_TICK_S: Final = 0.0005


class LoopHolds:
    """The longest one since `start`."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._last_s = time.thread_time()
        self._tick()

    def stop(self) -> None:
        assert self._handle is not None
        self._handle.cancel()

    def _tick(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self._handle = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
