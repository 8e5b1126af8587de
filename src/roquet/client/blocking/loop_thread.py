"""An event loop in a thread of its own, for programs that have none."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Generic, TypeVar, cast, final

from roquet.client.errors import BadArgument, NotOpen, UsedAfterFork
from roquet.client.own_process import own_process_id
from roquet.net.loop import run

log = logging.getLogger(__name__)

T = TypeVar("T")


@final
class LoopThread:
    """Runs coroutines for any thread, and waits for them there. `what` names the owner."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = own_process_id()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._has_warned = False

    @property
    def is_running(self) -> bool:
        return self._loop is not None and own_process_id() == self._process

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises; NotOpen or UsedAfterFork if it cannot run."""
        try:
            waiting = self._submitted(coroutine)
        except (BadArgument, NotOpen, UsedAfterFork):
            coroutine.close()
            raise
        return waiting.result()

    def post(self, function: Callable[[], None]) -> None:
        """The loop calls it soon; nobody waits. Raises NotOpen or UsedAfterFork."""
        self._check_caller()
        with self._lock:
            self._running_loop().call_soon_threadsafe(function)

    def call(self, function: Callable[[], T]) -> T:
        """What a function returns that touches the loop's state, in the loop if there is one."""
        if not self.is_running:
            return function()

        async def call() -> T:
            return function()

        return self.run(call())

    @contextmanager
    def entered(self, block: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """A block of the loop, whose inside runs in the thread that calls and raises there."""
        value = self.run(_awaited(block.__aenter__()))
        try:
            yield value
        except BaseException as error:
            # What ends this thread must not end the loop's: there the block was cancelled.
            inside = error if isinstance(error, Exception) else asyncio.CancelledError()
            self.run(_awaited(block.__aexit__(type(inside), inside, inside.__traceback__)))
            raise
        else:
            self.run(_awaited(block.__aexit__(None, None, None)))

    def start(self) -> None:
        """A second time does nothing."""
        with self._lock:
            if self._thread is not None:
                return
            is_ready = threading.Event()
            # A program that forgets to close must still be able to end.
            self._thread = threading.Thread(
                target=run, args=(self._serve(is_ready),), name=self._what, daemon=True
            )
            self._thread.start()
            is_ready.wait()

    def stop(self) -> None:
        """Returns when the thread has ended; a second time does nothing."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is None:
                return
            assert self._stop is not None
            assert self._thread is not None
            loop.call_soon_threadsafe(self._stop.set)
        # Without the lock: the loop waits for threads of its own, and one of them may be asking.
        self._thread.join()

    def _submitted(self, coroutine: Coroutine[Any, Any, T]) -> "_Waiting[T]":
        self._check_caller()
        # Not between two looks: another thread may be stopping the loop.
        with self._lock:
            return _Waiting(coroutine, self._running_loop())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """With the lock held. Raises NotOpen."""
        if self._loop is None:
            raise NotOpen(self._what, was_open=self._thread is not None)
        return self._loop

    def _check_caller(self) -> None:
        # The thread did not come along into the fork: whoever waited for it would wait for ever.
        if own_process_id() != self._process:
            raise UsedAfterFork(self._what, self._process, own_process_id())
        self._look_at_caller()

    def _look_at_caller(self) -> None:
        """Raises BadArgument for one that would wait for itself."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if loop is self._loop:
            raise BadArgument(
                f"the blocking {self._what} is called in its own event loop, which would wait for "
                "itself: call it from a function, which runs in a thread, or use the Async twin"
            )
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "the blocking %s is used inside an event loop, which stands still meanwhile: use "
                "its twin whose name begins with Async",
                self._what,
            )

    async def _serve(self, is_ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        is_ready.set()
        await self._stop.wait()


@final
class _Waiting(Generic[T]):
    """A thread that waits for a coroutine in the loop of another.

    As `asyncio.run_coroutine_threadsafe`, but with one turn of the loop less on the way back.
    """

    __slots__ = ("_coroutine", "_error", "_has_run", "_is_over", "_loop", "_result", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._result: T | None = None
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_run = False
        self._is_over = threading.Lock()
        self._is_over.acquire()
        loop.call_soon_threadsafe(self._start)

    def result(self) -> T:
        """Waits for it, or raises what it raised."""
        try:
            self._is_over.acquire()
        except BaseException:
            # Such as Ctrl-C in the thread that waits.
            self._loop.call_soon_threadsafe(self._cancel)
            raise
        try:
            if self._error is not None:
                raise self._error
            return cast("T", self._result)
        finally:
            # The error knows this frame, and this object the error.
            self._error = None

    def _start(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._end)

    async def _run(self) -> None:
        try:
            self._result = await self._coroutine
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._has_run = True
            self._is_over.release()

    def _end(self, _task: asyncio.Task[None]) -> None:
        if not self._has_run:
            # The loop was stopped before the first step.
            self._coroutine.close()
            self._error = asyncio.CancelledError()
            self._is_over.release()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
