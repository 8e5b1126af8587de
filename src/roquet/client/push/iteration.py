"""Programs that iterate over their messages: `async for message in consumer`.

A message is acknowledged when its program asks for the next one. If it leaves the loop instead, the
message is not acknowledged, and the next loop starts with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, Self, TypeVar, final

from roquet.client.push.delivery import Delivery, Running
from roquet.client.push.listeners import ConsumeHooks
from roquet.client.push.outcome import NotStarted, TooSlow
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock

T = TypeVar("T")

log = logging.getLogger(__name__)

# How long messages may wait for a first reader before that is logged.
UNREAD_S: Final = 5.0


@final
class Iterations:
    """The backlog that all loops over one consumer take from."""

    def __init__(
        self, hooks: ConsumeHooks, clock: Clock, note_error: Callable[[str], None]
    ) -> None:
        self._hooks = hooks or None
        self._note_error = note_error
        self._is_read = False
        self._unread_timer: asyncio.TimerHandle | None = None
        self._clock = clock
        self._backlog: deque[Delivery] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_paused = False
        self._is_stopping = False
        self._running: dict[Delivery, Running] = {}
        # The tasks of this loop that took them.
        self._takers: dict[Delivery, asyncio.Task[Any]] = {}
        self._has_stopped = asyncio.Event()

    def start(self) -> None:
        """There is nothing to start: programs call `take`."""

    def put(self, deliveries: Iterable[Delivery]) -> None:
        if not self._is_read and self._unread_timer is None:
            self._unread_timer = asyncio.get_running_loop().call_later(UNREAD_S, self._warn_unread)
        self._backlog.extend(deliveries)
        self._wake()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._wake()

    @property
    def running(self) -> list[Running]:
        return list(self._running.values())

    def give_up(self, running: Running, timeout_s: float) -> None:
        self.end(running.delivery, TooSlow(timeout_s))

    async def stop(self, timeout_s: float) -> None:
        """Loops end when they ask for the next message.

        A task that closes inside its loop would wait for itself, so its message is put back.
        """
        self._is_stopping = True
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        closing = asyncio.current_task()
        for delivery, taker in [*self._takers.items()]:
            if taker is closing or taker.done():
                self._took_out(delivery)
        self._backlog.clear()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        if self._running:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._has_stopped.wait()

    async def take(self, taker: asyncio.Task[Any] | None = None) -> Delivery | None:
        """The next delivery; None after `stop`."""
        self._is_read = True
        while not self._is_stopping:
            if self._backlog and not self._is_paused:
                delivery = self._backlog.popleft()
                if not delivery.feed.is_dropped:
                    self._running[delivery] = Running(delivery, self._clock.monotonic_s())
                    if taker is not None:
                        self._takers[delivery] = taker
                    if self._hooks is not None:
                        self._hooks.before(delivery)
                    return delivery
                delivery.feed.ended(delivery, NotStarted(), 0.0)
                continue
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            finally:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
        return None

    def end(self, delivery: Delivery, error: BaseException | None = None) -> None:
        """A second time, or after `give_up`, does nothing."""
        running = self._took_out(delivery)
        if running is None:
            return
        duration_s = self._clock.monotonic_s() - running.begin_s
        if self._hooks is not None:
            self._hooks.after(delivery, error, duration_s)
        delivery.feed.ended(delivery, error, duration_s)

    def put_back(self, delivery: Delivery) -> None:
        if self._took_out(delivery) is not None and not self._is_stopping:
            self._backlog.appendleft(delivery)
            self._wake()

    def _warn_unread(self) -> None:
        if not self._is_read:
            text = (
                "messages arrived, but the program does not read them: give the consumer a "
                'listener, or use "async for message in consumer"'
            )
            self._note_error(text)
            log.warning("%s", text)

    def _took_out(self, delivery: Delivery) -> Running | None:
        running = self._running.pop(delivery, None)
        self._takers.pop(delivery, None)
        if self._is_stopping and not self._running:
            self._has_stopped.set()
        return running

    def _wake(self) -> None:
        if self._is_paused:
            return
        for _ in range(min(len(self._waiting), len(self._backlog))):
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)


@final
class DeliveryIterator(Generic[T]):
    """One loop over a consumer; `seen` turns messages into what the program gets."""

    def __init__(self, iterations: Iterations, seen: Callable[[list[ReceivedMessage]], T]) -> None:
        self._iterations = iterations
        self._seen = seen
        # The program is in another thread, and each of its calls is a task of its own.
        self.is_of_a_thread = False
        self._current: Delivery | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        current, self._current = self._current, None
        if current is not None:
            self._iterations.end(current)
        taker = None if self.is_of_a_thread else asyncio.current_task()
        current = self._current = await self._iterations.take(taker)
        if current is None:
            raise StopAsyncIteration
        return self._seen(current.messages)

    def close(self) -> None:
        """The loop was left: the next one starts with its message."""
        current, self._current = self._current, None
        if current is not None:
            self._iterations.put_back(current)

    def __del__(self) -> None:
        self.close()
