"""Plain functions as listeners: they may block, so they run in threads.

Threads wake each other as tasks do in `listening_tasks.py`: one at a time, and only while there is
more to do. Results go back to the loop through a deque, with one call however many there are.
"""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, final

from roquet.client.errors import BadArgument
from roquet.client.push.delivery import Delivery, Running
from roquet.client.push.listener_calls import ConsumeHooks
from roquet.client.push.outcome import NotBegun, TooSlow
from roquet.clock import Clock

Function = Callable[[Any], object]

_GO: Final = True
_END: Final = False


class _Result(NamedTuple):
    delivery: Delivery
    error: BaseException | None
    duration_s: float


@final
class ThreadWorkers:
    """`listener` gets a message, or a list of them if `is_batch`."""

    def __init__(
        self,
        listener: Function,
        count: int,
        hooks: ConsumeHooks,
        clock: Clock,
        *,
        is_batch: bool,
    ) -> None:
        self._listener = listener
        self._hooks = hooks or None
        self._clock = clock
        self._is_batch = is_batch
        self._loop = asyncio.get_running_loop()
        self._backlog: deque[Delivery] = deque()
        # One word for each thread that has to do something.
        self._words: SimpleQueue[bool] = SimpleQueue()
        self._is_waking = False
        self._is_stopping = False
        self._is_paused = False
        self._slots: list[Running | None] = [None] * count
        self._given_up: set[Delivery] = set()
        self._results: deque[_Result] = deque()
        self._is_reporting = False
        self._threads: list[threading.Thread] = []
        self._ended_count = 0
        self._have_ended = asyncio.Event()

    def start(self) -> None:
        self._threads = [
            # A listener that never returns must not keep the program from ending.
            threading.Thread(target=self._work, args=(slot,), name=f"listener {slot}", daemon=True)
            for slot in range(len(self._slots))
        ]
        for thread in self._threads:
            thread.start()

    def put(self, deliveries: Iterable[Delivery]) -> None:
        if self._hooks is not None:
            deliveries = list(deliveries)
            for delivery in deliveries:
                self._hooks.before(delivery)
        self._backlog.extend(deliveries)
        self._wake_one()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._wake_one()

    @property
    def running(self) -> list[Running]:
        return [slot for slot in self._slots if slot is not None]

    def give_up(self, running: Running, timeout_s: float) -> None:
        if running.delivery not in self._given_up:
            self._given_up.add(running.delivery)
            self._end(_Result(running.delivery, TooSlow(timeout_s), timeout_s))

    async def stop(self, timeout_s: float) -> None:
        self._is_stopping = True
        self._backlog.clear()
        if not self._threads:
            return
        for _ in self._threads:
            self._words.put(_END)
        try:
            async with asyncio.timeout(timeout_s):
                await self._have_ended.wait()
        except TimeoutError:
            return
        for thread in self._threads:
            thread.join()  # They have nothing left to do.

    # In the threads.

    def _work(self, slot: int) -> None:
        while self._words.get():
            self._is_waking = False
            self._work_off(slot)
        self._tell_loop(self._thread_ended)

    def _work_off(self, slot: int) -> None:
        backlog = self._backlog
        now_s = self._clock.monotonic_s
        while not self._is_paused and not self._is_stopping:
            try:
                delivery = backlog.popleft()
            except IndexError:
                return
            if backlog:
                self._wake_one()
            begin_s = now_s()
            # Before the look at the feed: one that is dropped now must see that this runs.
            self._slots[slot] = Running(delivery, begin_s)
            error = NotBegun() if delivery.feed.is_dropped else self._call(delivery)
            self._slots[slot] = None
            self._results.append(_Result(delivery, error, now_s() - begin_s))
            if not self._is_reporting:
                self._is_reporting = True
                self._tell_loop(self._report)

    def _call(self, delivery: Delivery) -> BaseException | None:
        """What the listener raised."""
        hooks = self._hooks
        messages = delivery.messages
        # A copy: what the listener does to its list is its own affair.
        argument = messages.copy() if self._is_batch else messages[0]
        try:
            if hooks is None:
                result = self._listener(argument)
            else:
                with hooks.around(delivery):
                    result = self._listener(argument)
        except BaseException as error:  # noqa: BLE001  Even an exit would end but this thread.
            return error
        if result is not None and inspect.isawaitable(result):
            return BadArgument("the listener returned something to await; make it `async def`")
        return None

    def _wake_one(self) -> None:
        # Whoever hears the word takes the flag back and only then looks into the backlog, so that
        # nothing put there before is missed. Two who find no flag at the same time give two words,
        # and one thread finds nothing.
        if not self._is_waking:
            self._is_waking = True
            self._words.put(_GO)

    def _tell_loop(self, callback: Callable[[], None]) -> None:
        # A loop that is closed does not want to know any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    # In the loop.

    def _report(self) -> None:
        # Before the results are taken: one that comes later is reported by a call of its own.
        self._is_reporting = False
        results = self._results
        while results:
            result = results.popleft()
            if self._given_up and result.delivery in self._given_up:
                self._given_up.discard(result.delivery)
            else:
                self._end(result)

    def _end(self, result: _Result) -> None:
        if self._hooks is not None:
            self._hooks.after(*result)
        result.delivery.feed.ended(*result)

    def _thread_ended(self) -> None:
        self._ended_count += 1
        if self._ended_count == len(self._threads):
            self._have_ended.set()
