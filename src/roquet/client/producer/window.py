"""Limits what is in flight: back-pressure for programs that send faster than brokers store."""

import asyncio
from collections import OrderedDict
from typing import final

from roquet.client.producer.fast_batches import Occupancy


@final
class Window:
    """Bounded in count and bytes; first come, first served. Belongs to the event loop.

    Something larger than the window enters when it is empty, or it never could.
    """

    __slots__ = ("_is_empty", "_waiting", "occupancy")

    def __init__(self, count_max: int, size_max: int) -> None:
        self.occupancy = Occupancy(count_max, size_max)
        # Sizes by what each waits for, in order of arrival. Any of many may give up, and none of
        # them is searched for; a dict would search for its first one.
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self._is_empty: asyncio.Event | None = None  # while `until_empty` waits for it

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
        may_enter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[may_enter] = size
        self.occupancy.is_watched = True
        try:
            async with asyncio.timeout(timeout_s):
                await may_enter
        except BaseException:
            self._give_up(may_enter, size)
            raise

    def leave(self, size: int) -> None:
        room = self.occupancy
        room.leave(size)
        if room.is_watched:
            self.let_in()

    def let_in(self) -> None:
        """Uses the room that others left."""
        waiting = self._waiting
        while waiting and self.occupancy.has_room(waiting[next(iter(waiting))]):
            may_enter, size = waiting.popitem(last=False)
            if not may_enter.done():
                # The room is taken here: the woken task may run much later.
                self.occupancy.try_enter(size)
                may_enter.set_result(None)
        self.occupancy.is_watched = bool(waiting) or self._is_empty is not None
        if not self.count and self._is_empty is not None:
            self._is_empty.set()

    async def until_empty(self) -> None:
        while self.count:
            self._is_empty = self._is_empty or asyncio.Event()
            self._is_empty.clear()
            self.occupancy.is_watched = True
            await self._is_empty.wait()

    def _give_up(self, may_enter: asyncio.Future[None], size: int) -> None:
        if may_enter.done() and not may_enter.cancelled():
            self.leave(size)  # Let in, and given up in the same moment.
        elif self._waiting.pop(may_enter, None) is not None:
            self.let_in()  # A smaller one may be next.
