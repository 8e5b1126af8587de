"""An event loop in a thread of its own, for programs that have none."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, Generic, TypeVar, cast, final

from roquet.client.errors import BadArgument, NotOpen, UsedAfterFork
from roquet.client.lifecycle import current_process_id
from roquet.net.loop import run

log = logging.getLogger(__name__)

T = TypeVar("T")


# Clients that share their connections must use the same event loop.
SharingKey = tuple[str | None, ...]


@final
class LoopThread:
    """Runs coroutines for any thread, and waits for them there. `what` names the owner.

    Owners with the same `sharing_key` share one thread, which ends with the last of them.
    """

    def __init__(self, what: str, sharing_key: SharingKey | None = None) -> None:
        self._what = what
        self._sharing_key = sharing_key
        self._process = current_process_id()
        self._lock = threading.Lock()
        self._engine: _Engine | None = None
        self._was_started = False
        self._has_warned = False

    @property
    def is_running(self) -> bool:
        return self._engine is not None and current_process_id() == self._process

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises; NotOpen or UsedAfterFork if it cannot run."""
        try:
            waiting = self._submitted(coroutine)
        except (BadArgument, NotOpen, UsedAfterFork):
            coroutine.close()
            raise
        return waiting.result()

    def post(self, function: Callable[[], None]) -> None:
        """The loop calls it soon, without a result. Raises NotOpen or UsedAfterFork."""
        self.check_caller()
        with self._lock:
            self._running_loop().call_soon_threadsafe(function)

    def call(self, function: Callable[[], T]) -> T:
        """The result of a function that uses the loop's state; called in the loop, if it runs."""
        if not self.is_running:
            return function()

        async def call() -> T:
            return function()

        return self.run(call())

    @contextmanager
    def entered(self, block: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """An asynchronous context, whose body runs and raises in the calling thread."""
        value = self.run(_awaited(block.__aenter__()))
        try:
            yield value
        except BaseException as error:
            # An error that ends this thread must not end the loop: there the block is cancelled.
            inside = error if isinstance(error, Exception) else asyncio.CancelledError()
            self.run(_awaited(block.__aexit__(type(inside), inside, inside.__traceback__)))
            raise
        else:
            self.run(_awaited(block.__aexit__(None, None, None)))

    def start(self) -> None:
        """A second time does nothing."""
        with self._lock:
            if not self._was_started:
                self._was_started = True
                self._engine = _engine_for(self._what, self._sharing_key, self._process)

    def stop(self) -> None:
        """Returns when the thread has ended or others still use it; a second time does nothing."""
        with self._lock:
            engine, self._engine = self._engine, None
        # Without the lock: the loop waits for its own threads, and one of them may want the lock.
        if engine is not None:
            engine.release()

    def _submitted(self, coroutine: Coroutine[Any, Any, T]) -> "_Waiting[T]":
        self.check_caller()
        # Under the lock: another thread may be stopping the loop.
        with self._lock:
            return _Waiting(coroutine, self._running_loop())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """With the lock held. Raises NotOpen."""
        if self._engine is None:
            raise NotOpen(self._what, was_open=self._was_started)
        return self._engine.loop

    def check_caller(self) -> None:
        """Raises UsedAfterFork, or BadArgument in the client's own event loop."""
        # A fork does not have the thread: waiting for it would never end.
        if current_process_id() != self._process:
            raise UsedAfterFork(self._what, self._process, current_process_id())
        self._check_loop()

    def _check_loop(self) -> None:
        """Raises BadArgument in the client's own event loop, which would wait for itself."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        engine = self._engine
        if engine is not None and loop is engine.loop:
            raise BadArgument(
                f"the blocking {self._what} is called in its own event loop, which would wait for "
                "itself: call it from a function, which runs in a thread, or use the Async twin"
            )
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "the blocking %s is called inside an event loop and blocks it: use the twin whose "
                "name starts with Async",
                self._what,
            )


@final
class _Engine:
    """A thread with an event loop, which runs as long as it has an owner."""

    def __init__(self, what: str, sharing_key: SharingKey | None) -> None:
        self._sharing_key = sharing_key
        self.holder_count = 1
        self._stop = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop
        is_ready = threading.Event()
        # A program that forgets to close must still be able to end.
        self._thread = threading.Thread(
            target=run, args=(self._serve(is_ready),), name=what, daemon=True
        )
        self._thread.start()
        is_ready.wait()

    def release(self) -> None:
        """The last owner ends the thread, and waits for it."""
        with _engines_lock:
            self.holder_count -= 1
            if self.holder_count:
                return
            if self._sharing_key is not None and _engines.get(self._sharing_key) is self:
                del _engines[self._sharing_key]
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self, is_ready: threading.Event) -> None:
        self.loop = asyncio.get_running_loop()
        is_ready.set()
        await self._stop.wait()


_engines: Final[dict[SharingKey, _Engine]] = {}
_engines_lock: Final = threading.Lock()


def _engine_for(what: str, sharing_key: SharingKey | None, process_id: int) -> _Engine:
    if sharing_key is None:
        return _Engine(what, None)
    # A fork does not have the threads of its parent.
    key = (*sharing_key, str(process_id))
    with _engines_lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = _Engine(what, key)
        else:
            engine.holder_count += 1
        return engine


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
