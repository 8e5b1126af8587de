"""How fast one task may send: on average, so that a request of many messages goes at once."""

import asyncio
from typing import final


@final
class Pace:
    """Belongs to one task, whichever of its loops asks. Without a limit nobody waits."""

    def __init__(self, messages_per_second: int | None) -> None:
        self._rate = messages_per_second
        self._free_s = 0.0

    @property
    def has_limit(self) -> bool:
        return self._rate is not None

    async def admit(self, message_count: int) -> None:
        """Returns when they may be sent. Who asks first goes first."""
        if self._rate is None:
            return
        now_s = asyncio.get_running_loop().time()
        start_s = max(self._free_s, now_s)
        self._free_s = start_s + message_count / self._rate
        await asyncio.sleep(start_s - now_s)
