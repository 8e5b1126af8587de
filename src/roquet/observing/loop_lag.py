"""How late the event loop is: everybody who is served waits at least as long."""

import asyncio
from typing import Final, final

from roquet.histogram import Histogram

_PERIOD_S: Final = 0.1


@final
class LoopLag:
    """Asks to be woken ten times a second, and notes by how much that came too late."""

    def __init__(self) -> None:
        self.lags = Histogram()

    async def keep_measuring(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _PERIOD_S
            await asyncio.sleep(_PERIOD_S)
            # Clocks of a loop are rounded, and waking early is not a lag.
            self.lags.add(max(0.0, loop.time() - due_s))
