"""Pauses whose length is a setting: a change counts at once and not when the old time is over."""

import asyncio
from collections.abc import Callable
from typing import final


@final
class Pauses:
    def __init__(self) -> None:
        self._has_changed = asyncio.Event()

    async def pause(self, interval_ms: Callable[[], int]) -> None:
        """Returns when that much time has passed since the call."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        while (left_s := begin_s + interval_ms() / 1000 - loop.time()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._has_changed.wait()
            except TimeoutError:
                return

    def settings_changed(self) -> None:
        """All who pause look again at how long."""
        self._has_changed.set()
        self._has_changed.clear()
