"""Limits what is in flight: back-pressure for programs that send faster than brokers store."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple, final

from roquet.client.producer.fast_batches import Occupancy

# Senders that give up are woken in turns: the loop has other things to do meanwhile.
_GIVEN_UP_COUNT_MAX: Final = 1000


class _Waiting(NamedTuple):
    size: int
    timeout_s: float
    since_s: float


@final
class Window:
    """Bounded in count and bytes; first come, first served. Belongs to the event loop.

    Something larger than the window enters when it is empty, or it never could. Waiting for room
    ends when nothing was stored for a while, and not before: as long as `stored_count` grows, it
    is only a matter of time.
    """

    __slots__ = (
        "_has_stalled",
        "_is_empty",
        "_last_stored_count",
        "_period_s",
        "_progress_s",
        "_stored_count",
        "_timer",
        "_waiting",
        "occupancy",
    )

    def __init__(
        self, count_max: int, size_max: int, stored_count: Callable[[], int] = lambda: 0
    ) -> None:
        self.occupancy = Occupancy(count_max, size_max)
        # In order of arrival. Any of many may give up, and none of them is searched for; a dict
        # would search for its first one.
        self._waiting: OrderedDict[asyncio.Future[None], _Waiting] = OrderedDict()
        self._is_empty: asyncio.Event | None = None  # while `until_empty` waits for it
        self._stored_count = stored_count
        self._last_stored_count = 0
        self._progress_s = 0.0  # when the count was last seen to have grown
        self._has_stalled = False  # since the last look
        # One timer for all that wait.
        self._timer: asyncio.TimerHandle | None = None
        self._period_s = 0.0

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

    def has_room(self, size: int) -> bool:
        return not self._waiting and self.occupancy.has_room(size)

    def try_enter(self, size: int) -> bool:
        """Whether there was room at once, which is taken then."""
        return not self._waiting and self.occupancy.try_enter(size)

    async def enter(self, size: int, timeout_s: float) -> None:
        """Returns when there is room, which is taken then.

        Raises TimeoutError when there was none, and nothing was stored, for `timeout_s`.
        """
        if self.try_enter(size):
            return
        may_enter = self.room(size, timeout_s)
        try:
            await may_enter
        except BaseException:
            self.give_up(may_enter, size)
            raise

    def room(self, size: int, timeout_s: float) -> asyncio.Future[None]:
        """The same for a caller to await, which has to `give_up` if that raises anything.

        Of a burst of sends nearly all wait here, so a coroutine more is not cheap.
        """
        loop = asyncio.get_running_loop()
        may_enter: asyncio.Future[None] = loop.create_future()
        self._waiting[may_enter] = _Waiting(size, timeout_s, loop.time())
        self.occupancy.is_watched = True
        self._start_looking(timeout_s)
        return may_enter

    def give_up(self, may_enter: asyncio.Future[None], size: int) -> None:
        if may_enter.done() and not may_enter.cancelled() and may_enter.exception() is None:
            self.leave(size)  # Let in, and given up in the same moment.
        elif self._waiting.pop(may_enter, None) is not None:
            self.admit_waiting()  # A smaller one may be next.

    def leave(self, size: int) -> None:
        room = self.occupancy
        room.leave(size)
        if room.is_watched:
            self.admit_waiting()

    def admit_waiting(self) -> None:
        """Uses the room that others left."""
        waiting = self._waiting
        while waiting and self.occupancy.has_room(waiting[next(iter(waiting))].size):
            may_enter, (size, _, _) = waiting.popitem(last=False)
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

    def _start_looking(self, timeout_s: float) -> None:
        """Looks twice in the shortest time that anyone waits."""
        if self._timer is not None and self._period_s <= timeout_s / 2:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._period_s = timeout_s / 2
        self._has_stalled = False
        self._timer = asyncio.get_running_loop().call_later(self._period_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        stored_count = self._stored_count()
        is_stalled = stored_count == self._last_stored_count
        if not is_stalled:
            self._last_stored_count = stored_count
            self._progress_s = now_s
        elif self._has_stalled:
            # Seen twice: between the looks the loop had time to read what brokers answered.
            late_s = now_s + self._period_s / 10
            waiting = self._waiting.items()
            self._end(iter([each for each, of in waiting if self._due_s(of) <= late_s]))
        self._has_stalled = is_stalled
        self._timer = loop.call_later(self._period_s, self._look)

    def _due_s(self, waiting: _Waiting) -> float:
        return max(waiting.since_s, self._progress_s) + waiting.timeout_s

    def _end(self, overdue: Iterator[asyncio.Future[None]]) -> None:
        for may_enter in islice(overdue, _GIVEN_UP_COUNT_MAX):
            if not may_enter.done():
                may_enter.set_exception(TimeoutError())
        if (rest := next(overdue, None)) is not None:
            asyncio.get_running_loop().call_soon(self._end, chain((rest,), overdue))
