"""Workers call the listener: tasks for a coroutine, threads for a function, which may block.

A task that finds more than one delivery in the backlog wakes one other task, and that is all: if
its own listener waits for something, the other one continues; if it never waits, the other one
finds nothing left.

Threads take turns at the interpreter, and each turn costs as much as many calls of a function that
has nothing to wait for. So a function whose calls are short is called by one thread, the leader:

    calls are long, or not yet measured   each thread that takes a delivery wakes another one
    calls are short                       only the leader goes on, other threads rest
    the leader is stuck in a call         the loop sees that, and wakes another one to lead

Threads report results to the loop through a deque, with one call however many there are.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, final

from roquet.client.arguments import shown
from roquet.client.callbacks import is_ours
from roquet.client.errors import BadArgument
from roquet.client.push.delivery import Delivery, Running
from roquet.client.push.listeners import ConsumeHooks
from roquet.client.push.outcome import NotStarted, TooSlow
from roquet.clock import Clock
from roquet.net.service import OnFailure, Services

log = logging.getLogger(__name__)

# Listeners that never wait must yield to the loop after this time.
_SLICE_S: Final = 0.01
# Functions that take no longer are called by one thread: waking another one takes as long.
_SHORT_CALL_S: Final = 50e-6
# A single long call means nothing: its thread may have lost its turn at the interpreter.
_LONG_CALLS: Final = 2
# How often the loop looks whether the leader is stuck, while deliveries wait.
_WATCH_S: Final = 0.001

Listen = Callable[[Any], Awaitable[object]]

Function = Callable[[Any], object]

_GO: Final = True
_END: Final = False


@final
class ResultWarning:
    """Warns once of a listener that returns something, as those of other clients do."""

    def __init__(self) -> None:
        self._is_given = False

    def __call__(self, result: object) -> None:
        if not self._is_given:
            self._is_given = True
            log.warning(
                "the listener returned %s, which is ignored, and its message is acknowledged: to "
                "have it redelivered, raise RetryLater",
                shown(result),
            )


@final
class _Worker:
    """A task, its current delivery, and when that started."""

    __slots__ = ("begin_s", "delivery", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.delivery: Delivery | None = None
        self.begin_s = 0.0


@final
class TaskWorkers:
    """`listener` gets a message, or a list of them if `is_batch`."""

    def __init__(
        self,
        listener: Listen,
        count: int,
        hooks: ConsumeHooks,
        clock: Clock,
        services: Services,
        *,
        is_batch: bool,
    ) -> None:
        self._listener = listener
        self._hooks = hooks or None
        self._clock = clock
        self._services = services
        self._is_batch = is_batch
        self._warn_of = ResultWarning()
        self._count = count
        self._backlog: deque[Delivery] = deque()
        self._resting: list[asyncio.Future[None]] = []
        self._is_waking = False
        self._is_paused = False
        self._is_stopping = False
        self._workers: list[_Worker] = []
        self._given_up: dict[Delivery, float] = {}
        self._has_stopped = asyncio.Event()

    def start(self) -> None:
        for number in range(self._count):
            self._services.run(f"listener {number}", self._work, on_failure=OnFailure.RESTART)

    def put(self, deliveries: Iterable[Delivery]) -> None:
        # A delivery that ends may put the next one.
        if not self._is_stopping:
            self._backlog.extend(deliveries)
            self._wake_one()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._wake_one()

    @property
    def running(self) -> list[Running]:
        return [
            Running(worker.delivery, worker.begin_s)
            for worker in self._workers
            if worker.delivery is not None
        ]

    def give_up(self, running: Running, timeout_s: float) -> None:
        for worker in self._workers:
            if worker.delivery is running.delivery:
                self._given_up[running.delivery] = timeout_s
                worker.task.cancel()

    async def stop(self, timeout_s: float) -> None:
        self._is_stopping = True
        self._backlog.clear()
        if self.running:
            # Those that still run then are cancelled with all services.
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._has_stopped.wait()

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        worker = _Worker(task)
        self._workers.append(worker)
        try:
            await self._work_off(worker)
        finally:
            self._workers.remove(worker)

    async def _work_off(self, worker: _Worker) -> None:
        backlog = self._backlog
        hooks = self._hooks
        # Awaited below, and not in a coroutine of its own: that would cost as much as a listener.
        call = self._listener if hooks is None else self._surrounded(worker, hooks)
        is_batch = self._is_batch
        now_s = self._clock.monotonic_s
        begin_s = slice_end_s = 0.0
        while True:
            if not backlog or self._is_paused:
                await self._rest()
                begin_s = now_s()
                slice_end_s = begin_s + _SLICE_S
                continue
            delivery = backlog.popleft()
            feed = delivery.feed
            if feed.is_dropped:
                feed.ended(delivery, NotStarted(), 0.0)
                continue
            if backlog and not self._is_waking:
                self._wake_one()
            worker.begin_s = begin_s
            worker.delivery = delivery
            messages = delivery.messages
            error: BaseException | None = None
            try:
                # A copy: the listener may change its list.
                result = await call(messages.copy() if is_batch else messages[0])
                if result is not None:
                    self._warn_of(result)
            except BaseException as raised:
                if is_ours(raised):
                    raise
                error = raised
            worker.delivery = None
            if self._is_stopping and not self.running:
                self._has_stopped.set()
            if error is not None or self._given_up:
                error = self._error_of(worker, delivery, error)
            end_s = now_s()
            if hooks is not None:
                hooks.after(delivery, error, end_s - begin_s)
            feed.ended(delivery, error, end_s - begin_s)
            # The next one starts where this one ended, unless hooks took their time.
            begin_s = end_s if hooks is None else now_s()
            if end_s > slice_end_s:
                await asyncio.sleep(0)
                begin_s = now_s()
                slice_end_s = begin_s + _SLICE_S

    def _surrounded(self, worker: _Worker, hooks: ConsumeHooks) -> Listen:
        """The listener with its hooks."""

        async def call(argument: Any) -> object:
            assert worker.delivery is not None
            hooks.before(worker.delivery)
            with hooks.around(worker.delivery):
                return await self._listener(argument)

        return call

    def _error_of(
        self, worker: _Worker, delivery: Delivery, error: BaseException | None
    ) -> BaseException | None:
        """The error of a delivery. Raises CancelledError if the worker itself is cancelled."""
        timeout_s = self._given_up.pop(delivery, None)
        if timeout_s is not None:
            worker.task.uncancel()
            return TooSlow(timeout_s)
        # Otherwise something that the listener awaited was cancelled, and not this task.
        if isinstance(error, asyncio.CancelledError) and worker.task.cancelling():
            raise error
        return error

    async def _rest(self) -> None:
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(awake)
        try:
            await awake
            # Pull loops run first, so that brokers work while listeners do.
            await asyncio.sleep(0)
        finally:
            self._is_waking = False
            if awake in self._resting:
                self._resting.remove(awake)

    def _wake_one(self) -> None:
        if self._resting and not self._is_waking and not self._is_paused:
            self._is_waking = True
            self._resting.pop().set_result(None)


# The last member is how long the call took.
_Result = tuple[Delivery, BaseException | None, float]


@final
class _Slot:
    """A thread's current delivery, and when that started."""

    __slots__ = ("begin_s", "delivery")

    def __init__(self) -> None:
        self.begin_s = 0.0
        self.delivery: Delivery | None = None


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
        self._warn_of = ResultWarning()
        self._loop = asyncio.get_running_loop()
        self._backlog: deque[Delivery] = deque()
        # One signal for each thread that has work.
        self._signals: SimpleQueue[bool] = SimpleQueue()
        self._is_waking = False
        self._is_stopping = False
        self._is_paused = False
        self._slots = [_Slot() for _ in range(count)]
        # The thread that was woken last, and how many calls were long, one after the other.
        self._leader = self._slots[0]
        self._long_calls = _LONG_CALLS
        self._watch_timer: asyncio.TimerHandle | None = None
        self._watched: Delivery | None = None
        self._given_up: set[Delivery] = set()
        self._results: deque[_Result] = deque()
        self._is_reporting = False
        # Started when there is work that no other thread is free for.
        self._threads: list[threading.Thread] = []
        self._idle_count = 0
        self._lock = threading.Lock()
        self._ended_count = 0
        self._have_ended = asyncio.Event()

    def start(self) -> None:
        """Threads start with the first deliveries."""

    def put(self, deliveries: Iterable[Delivery]) -> None:
        if self._hooks is not None:
            deliveries = list(deliveries)
            for delivery in deliveries:
                self._hooks.before(delivery)
        self._backlog.extend(deliveries)
        self._wake_one()
        self._start_watch()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._wake_one()
        self._start_watch()

    @property
    def running(self) -> list[Running]:
        found = []
        for slot in self._slots:
            # In this order: a thread sets the time first.
            delivery = slot.delivery
            if delivery is not None:
                found.append(Running(delivery, slot.begin_s))
        return found

    def give_up(self, running: Running, timeout_s: float) -> None:
        if running.delivery not in self._given_up:
            self._given_up.add(running.delivery)
            self._end(running.delivery, TooSlow(timeout_s), timeout_s)

    async def stop(self, timeout_s: float) -> None:
        with self._lock:
            self._is_stopping = True
        self._backlog.clear()
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        if not self._threads:
            return
        for _ in self._threads:
            self._signals.put(_END)
        try:
            async with asyncio.timeout(timeout_s):
                await self._have_ended.wait()
        except TimeoutError:
            return
        for thread in self._threads:
            thread.join()  # They end at once.

    # In the threads.

    def _work(self, slot: _Slot) -> None:
        while self._signals.get():
            with self._lock:
                self._idle_count -= 1
            self._is_waking = False
            self._leader = slot
            self._work_off(slot)
            slot.delivery = None
            with self._lock:
                self._idle_count += 1
        self._call_in_loop(self._thread_ended)

    def _work_off(self, slot: _Slot) -> None:
        backlog = self._backlog
        results = self._results
        now_s = self._clock.monotonic_s
        begin_s = now_s()
        while not self._is_paused and not self._is_stopping:
            try:
                delivery = backlog.popleft()
            except IndexError:
                return
            if self._long_calls >= _LONG_CALLS and backlog:
                self._wake_one()
                begin_s = now_s()
            slot.begin_s = begin_s
            # Before the check of the feed: one that is dropped now must see that this runs.
            slot.delivery = delivery
            error = NotStarted() if delivery.feed.is_dropped else self._call(delivery)
            end_s = now_s()
            results.append((delivery, error, end_s - begin_s))
            if not self._is_reporting:
                self._is_reporting = True
                self._call_in_loop(self._report)
            if end_s - begin_s > _SHORT_CALL_S:
                self._long_calls += 1
            else:
                self._long_calls = 0
                if self._leader is not slot:
                    return
            # The next one starts where this one ended.
            begin_s = end_s

    def _call(self, delivery: Delivery) -> BaseException | None:
        """The error of the listener."""
        hooks = self._hooks
        messages = delivery.messages
        # A copy: the listener may change its list.
        argument = messages.copy() if self._is_batch else messages[0]
        try:
            if hooks is None:
                result = self._listener(argument)
            else:
                with hooks.around(delivery):
                    result = self._listener(argument)
        except BaseException as error:  # noqa: BLE001  Even SystemExit would only end this thread.
            return error
        if result is not None:
            if inspect.isawaitable(result):
                return BadArgument("the listener returned an awaitable; make it `async def`")
            self._warn_of(result)
        return None

    def _wake_one(self) -> None:
        # A thread that gets the signal resets the flag and only then reads the backlog, so
        # that nothing put there before is missed. Two that find no flag at the same time send two
        # signals, and one thread finds nothing.
        if not self._is_waking:
            self._is_waking = True
            self._signals.put(_GO)
            self._start_thread_if_needed()

    def _start_thread_if_needed(self) -> None:
        with self._lock:
            number = len(self._threads)
            if self._idle_count > 0 or number == len(self._slots) or self._is_stopping:
                return
            # A listener that never returns must not keep the program from ending.
            thread = threading.Thread(
                target=self._work,
                args=(self._slots[number],),
                name=f"listener {number}",
                daemon=True,
            )
            self._threads.append(thread)
            self._idle_count += 1  # Until it gets the signal.
        thread.start()

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        # The loop may be closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    # In the loop.

    def _start_watch(self) -> None:
        is_needed = self._backlog and not self._is_paused and not self._is_stopping
        if self._watch_timer is None and is_needed:
            self._watch_timer = self._loop.call_later(_WATCH_S, self._watch)

    def _watch(self) -> None:
        """Another thread continues if the leader has the same delivery as a turn before."""
        self._watch_timer = None
        current = self._leader.delivery
        if current is self._watched and self._backlog:
            self._wake_one()
        self._watched = current
        self._start_watch()

    def _report(self) -> None:
        # Before the results are taken: one that comes later is reported by a call of its own.
        self._is_reporting = False
        results = self._results
        # Those of one feed in a row, and the time they took.
        done: list[Delivery] = []
        duration_s = 0.0
        while results:
            delivery, error, call_s = results.popleft()
            if done and (error is not None or delivery.feed is not done[0].feed):
                done[0].feed.all_done(done, duration_s)
                done, duration_s = [], 0.0
            if self._given_up and delivery in self._given_up:
                self._given_up.discard(delivery)
            elif error is not None or self._hooks is not None:
                self._end(delivery, error, call_s)
            else:
                done.append(delivery)
                duration_s += call_s
        if done:
            done[0].feed.all_done(done, duration_s)

    def _end(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        if self._hooks is not None:
            self._hooks.after(delivery, error, duration_s)
        delivery.feed.ended(delivery, error, duration_s)

    def _thread_ended(self) -> None:
        self._ended_count += 1
        if self._ended_count == len(self._threads):
            self._have_ended.set()
