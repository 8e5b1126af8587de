"""Pulls and pops that wait for a message, and how they are woken.

A pull that finds nothing registers here, looks again, and only then sleeps: what arrives in
between is not missed. LongPolls of one turn of the loop wake a pull once, so a burst of sends is
answered with one batch and not with its first message.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar, final

from roquet.clock import Clock

K = TypeVar("K")

# How late a pull may time out. Its client waits seconds longer than that.
_TICK_S: Final = 0.1
# In a queue's place: a request that waits for a message in any queue of a topic.
ANY_QUEUE: Final = -1


class QueueName(NamedTuple):
    topic: str
    queue_id: int


class WaitingRequest(Protocol):
    """One waiting pull or pop, or a test's."""

    @property
    def queues(self) -> tuple[QueueName, ...]:
        """Those in which a message wakes it."""

    # Set by `LongPolls.wait`.
    last_tick: int

    def look(self) -> bool:
        """Answers it and returns True, or returns False: keep waiting."""

    def give_up(self) -> None:
        """Answers it when its time is over."""


@final
class LongPolls:
    """Belongs to the event loop, like everything it wakes."""

    def __init__(self, clock: Clock, *, on_awaited: Callable[[], None] = lambda: None) -> None:
        """`on_awaited` is called for the first message that cannot be read yet."""
        self._clock = clock
        self._on_awaited = on_awaited
        # Not sets: the pull that waited longest is served first, and a run can be repeated.
        self._by_queue: dict[QueueName, dict[WaitingRequest, None]] = {}
        # Deadlines are rounded up to ticks, so that one timer serves any number of pulls and a
        # pull that is woken early leaves nothing to cancel.
        self._by_tick: dict[int, dict[WaitingRequest, None]] = {}
        self._arrived: dict[QueueName, None] = {}
        # Queues with messages that cannot be read yet, and where in the log the last one ends.
        self._awaited: dict[QueueName, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        # Grows with each time that requests are woken: what one of them did not find, no other
        # will in the same turn.
        self.turn = 0

    def wait(self, request: WaitingRequest, timeout_s: float) -> None:
        """Registers `request`, lets it look once more, and keeps it if it found nothing."""
        if self._is_closed:
            request.give_up()
            return
        request.last_tick = int((self._clock.monotonic_s() + timeout_s) / _TICK_S) + 1
        for queue in request.queues:
            self._by_queue.setdefault(queue, {})[request] = None
        self._by_tick.setdefault(request.last_tick, {})[request] = None
        if request.look():
            self.forget(request)
        elif self._timer is None:
            self._set_timer()

    def forget(self, request: WaitingRequest) -> None:
        """The pull was answered, or its connection is gone."""
        for queue in request.queues:
            _discard(self._by_queue, queue, request)
        _discard(self._by_tick, request.last_tick, request)

    def announce(self, topic: str, queue_id: int) -> None:
        """A message of this queue can be read now. Costs next to nothing if no pull waits."""
        if not self._by_queue:
            return
        for queue in (QueueName(topic, queue_id), QueueName(topic, ANY_QUEUE)):
            if queue in self._by_queue:
                if not self._arrived:
                    asyncio.get_running_loop().call_soon(self._wake_arrived)
                self._arrived[queue] = None

    def announce_when_safe(self, topic: str, queue_id: int, end: int) -> None:
        """The same for a message that can be read when the log is safe up to its `end`."""
        if not self._awaited:
            self._on_awaited()
        self._awaited[QueueName(topic, queue_id)] = end

    def log_is_safe(self, safe_end: int) -> None:
        """The log is safe up to here."""
        # A queue may have messages on both sides: a pull that is woken for nothing keeps waiting.
        for topic, queue_id in self._awaited:
            self.announce(topic, queue_id)
        self._awaited = {queue: end for queue, end in self._awaited.items() if end > safe_end}

    def close(self) -> None:
        """Answers all pulls now, and later ones at once: the broker stops.

        A client that waits for an answer does not notice when its connection ends: 4.9.7 would
        wait for half a minute before it looks for the broker again.
        """
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = {request: None for each in self._by_queue.values() for request in each}
        self._by_queue.clear()
        self._by_tick.clear()
        for request in waiting:
            request.give_up()

    def _wake_arrived(self) -> None:
        arrived, self._arrived = self._arrived, {}
        self.turn += 1
        for queue in arrived:
            for request in tuple(self._by_queue.get(queue, ())):
                if request.look():
                    self.forget(request)

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_tick = int(self._clock.monotonic_s() / _TICK_S)
        for tick in [each for each in self._by_tick if each <= now_tick]:
            for request in tuple(self._by_tick.get(tick, ())):
                self.forget(request)
                request.give_up()
        if self._by_tick and self._timer is None:
            self._set_timer()


def _discard(table: dict[K, dict[WaitingRequest, None]], key: K, request: WaitingRequest) -> None:
    members = table.get(key)
    if members is not None:
        members.pop(request, None)
        if not members:
            del table[key]
