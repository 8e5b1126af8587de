"""Coroutine listeners: a few long-lived tasks take from one backlog.

A worker that finds more than one delivery wakes one other worker, and that is all: if its own
listener waits for something, the other one goes on; if it never waits, the other one finds
nothing left. So a listener that has nothing to wait for costs no switch of tasks.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, final

from roquet.client.push.delivery import Delivery, Running
from roquet.client.push.listener_calls import ConsumeHooks
from roquet.client.push.outcome import NotBegun, TooSlow
from roquet.clock import Clock
from roquet.net.service import OnFailure, Services

# Listeners that never wait must not keep others from the loop for longer.
_SLICE_S: Final = 0.01

Listen = Callable[[Any], Awaitable[object]]


@final
class _Worker:
    """A task, and what its listener has now, since when."""

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
        # What ends may want to put in what comes after it.
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
            # Those that still run then are cancelled with everything else.
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
                feed.ended(delivery, NotBegun(), 0.0)
                continue
            if backlog and not self._is_waking:
                self._wake_one()
            worker.begin_s = begin_s
            worker.delivery = delivery
            messages = delivery.messages
            error: BaseException | None = None
            try:
                # A copy: what the listener does to its list is its own affair.
                await call(messages.copy() if is_batch else messages[0])
            except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001  Who knows which.
                error = raised
            worker.delivery = None
            if self._is_stopping and not self.running:
                self._has_stopped.set()
            if error is not None or self._given_up:
                error = self._judged(worker, delivery, error)
            end_s = now_s()
            if hooks is not None:
                hooks.after(delivery, error, end_s - begin_s)
            feed.ended(delivery, error, end_s - begin_s)
            # What comes next begins where this one ended, unless hooks took their time.
            begin_s = end_s if hooks is None else now_s()
            if end_s > slice_end_s:
                await asyncio.sleep(0)
                begin_s = now_s()
                slice_end_s = begin_s + _SLICE_S

    def _surrounded(self, worker: _Worker, hooks: ConsumeHooks) -> Listen:
        """The listener with its hooks."""

        async def call(argument: Any) -> None:
            assert worker.delivery is not None
            hooks.before(worker.delivery)
            with hooks.around(worker.delivery):
                await self._listener(argument)

        return call

    def _judged(
        self, worker: _Worker, delivery: Delivery, error: BaseException | None
    ) -> BaseException | None:
        """What becomes of a listener's error. Raises CancelledError if everything ends."""
        timeout_s = self._given_up.pop(delivery, None)
        if timeout_s is not None:
            worker.task.uncancel()
            return TooSlow(timeout_s)
        # Else something that the listener waited for was cancelled, and nobody else.
        if isinstance(error, asyncio.CancelledError) and worker.task.cancelling():
            raise error
        return error

    async def _rest(self) -> None:
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(awake)
        try:
            await awake
            # Readers that brought something ask for more first, so that brokers work while we do.
            await asyncio.sleep(0)
        finally:
            self._is_waking = False
            if awake in self._resting:
                self._resting.remove(awake)

    def _wake_one(self) -> None:
        if self._resting and not self._is_waking and not self._is_paused:
            self._is_waking = True
            self._resting.pop().set_result(None)
