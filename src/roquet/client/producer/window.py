"""How much may be on its way at once: back-pressure for whoever sends too fast."""

import asyncio
from collections import deque
from typing import NamedTuple, final


class _Waiting(NamedTuple):
    size: int
    may_enter: asyncio.Future[None]


@final
class Window:
    """Bounded in count and bytes; first come, first served. Belongs to the event loop.

    Something larger than the window enters when that is empty, or it could never.
    """

    __slots__ = ("_count_max", "_is_empty", "_size_max", "_waiting", "count", "size")

    def __init__(self, count_max: int, size_max: int) -> None:
        self._count_max = count_max
        self._size_max = size_max
        self._waiting: deque[_Waiting] = deque()
        self._is_empty: asyncio.Event | None = None  # while somebody waits for that
        self.count = 0
        self.size = 0

    def __str__(self) -> str:
        return f"{self.count} sends of {self.size} bytes"

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def try_enter(self, size: int) -> bool:
        """Whether there was room at once, which is taken then."""
        # As `_has_room` and `_take`, without calling them: every send comes by here.
        count = self.count
        if self._waiting or (
            count and (count >= self._count_max or self.size + size > self._size_max)
        ):
            return False
        self.count = count + 1
        self.size += size
        return True

    async def enter(self, size: int, timeout_s: float) -> None:
        """Returns when there is room, which is taken then. Raises TimeoutError."""
        if self.try_enter(size):
            return
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(timeout_s):
                await waiting.may_enter
        except BaseException:
            self._give_up(waiting)
            raise

    def leave(self, size: int) -> None:
        self.count -= 1
        self.size -= size
        assert self.count >= 0
        if self._waiting:
            self._let_in()
        if not self.count and self._is_empty is not None:
            self._is_empty.set()

    async def until_empty(self) -> None:
        while self.count:
            self._is_empty = self._is_empty or asyncio.Event()
            self._is_empty.clear()
            await self._is_empty.wait()

    def _has_room(self, size: int) -> bool:
        return not self.count or (
            self.count < self._count_max and self.size + size <= self._size_max
        )

    def _take(self, size: int) -> None:
        self.count += 1
        self.size += size

    def _let_in(self) -> None:
        while self._waiting and self._has_room(self._waiting[0].size):
            size, may_enter = self._waiting.popleft()
            if not may_enter.done():
                # The room is taken here: whoever is awoken may run much later.
                self._take(size)
                may_enter.set_result(None)

    def _give_up(self, waiting: _Waiting) -> None:
        if waiting.may_enter.done() and not waiting.may_enter.cancelled():
            self.leave(waiting.size)  # Let in, and given up in the same moment.
        elif waiting in self._waiting:
            self._waiting.remove(waiting)
            self._let_in()  # One that is smaller may stand behind it.
