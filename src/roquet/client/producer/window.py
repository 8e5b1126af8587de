"""How much may be on its way at once: back-pressure for whoever sends too fast."""

import asyncio
from collections import deque
from typing import NamedTuple, final

from roquet.client.producer.occupancy import Occupancy


class _Waiting(NamedTuple):
    size: int
    may_enter: asyncio.Future[None]


@final
class Window:
    """Bounded in count and bytes; first come, first served. Belongs to the event loop.

    Something larger than the window enters when that is empty, or it could never.
    """

    __slots__ = ("_is_empty", "_waiting", "occupancy")

    def __init__(self, count_max: int, size_max: int) -> None:
        self.occupancy = Occupancy(count_max, size_max)
        self._waiting: deque[_Waiting] = deque()
        self._is_empty: asyncio.Event | None = None  # while somebody waits for that

    def __str__(self) -> str:
        return f"{self.count} sends of {self.size} bytes"

    @property
    def count(self) -> int:
        return self.occupancy.count

    @property
    def size(self) -> int:
        return self.occupancy.size

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def try_enter(self, size: int) -> bool:
        """Whether there was room at once, which is taken then."""
        return not self._waiting and self.occupancy.try_enter(size)

    async def enter(self, size: int, timeout_s: float) -> None:
        """Returns when there is room, which is taken then. Raises TimeoutError."""
        if self.try_enter(size):
            return
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self.occupancy.is_watched = True
        try:
            async with asyncio.timeout(timeout_s):
                await waiting.may_enter
        except BaseException:
            self._give_up(waiting)
            raise

    def leave(self, size: int) -> None:
        room = self.occupancy
        room.leave(size)
        if room.is_watched:
            self.look()

    def look(self) -> None:
        """Somebody left while others waited for that."""
        self._let_in()
        if not self.count and self._is_empty is not None:
            self._is_empty.set()

    async def until_empty(self) -> None:
        while self.count:
            self._is_empty = self._is_empty or asyncio.Event()
            self._is_empty.clear()
            self.occupancy.is_watched = True
            await self._is_empty.wait()

    def _let_in(self) -> None:
        while self._waiting and self.occupancy.has_room(self._waiting[0].size):
            size, may_enter = self._waiting.popleft()
            if not may_enter.done():
                # The room is taken here: whoever is awoken may run much later.
                self.occupancy.try_enter(size)
                may_enter.set_result(None)
        self.occupancy.is_watched = bool(self._waiting) or self._is_empty is not None

    def _give_up(self, waiting: _Waiting) -> None:
        if waiting.may_enter.done() and not waiting.may_enter.cancelled():
            self.leave(waiting.size)  # Let in, and given up in the same moment.
        elif waiting in self._waiting:
            self._waiting.remove(waiting)
            self._let_in()  # One that is smaller may stand behind it.
