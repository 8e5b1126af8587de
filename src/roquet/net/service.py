"""Background work with names, one owner and one end.

    async with Services("broker") as services:
        services.every("expire clients", 10.0, clients.expire)
        services.run("replicate", replicate, on_failure=OnFailure.STOP_ALL)
        await stop.wait()

Leaving the block cancels everything and waits for it. `to_its_end` runs blocking work in a thread.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar, final

log = logging.getLogger(__name__)

RESTART_PAUSE_S: Final = 1.0

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[], Awaitable[None] | None]


class OnFailure(Enum):
    RESTART = "log it, pause, and start again"
    STOP_ALL = "log it and leave the block with the error"


@final
class Services:
    """Tasks of one owner; none outlives the block."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if isinstance(error, asyncio.CancelledError):
            # The group has to know, because it may have cancelled the block itself.
            await self._group.__aexit__(error_type, error, traceback)
        else:
            # An error of the block leaves as it is, and not wrapped in a group.
            await self._group.__aexit__(None, None, None)

    def run(self, name: str, work: Work, *, on_failure: OnFailure) -> asyncio.Task[None] | None:
        """Runs `work` until it returns, or until the task is cancelled, which affects no other.

        None when the owner is stopping.
        """
        return self._start(name, self._run(name, work, on_failure))

    def every(self, name: str, period_s: float, work: Work) -> None:
        """Runs `work` after each `period_s`, forever; a failure is logged."""
        self._start(name, self._every(name, period_s, work))

    def once(self, name: str, work: Work) -> None:
        """Runs `work` once; a failure is logged."""
        self._start(name, self._attempt(name, work))

    def _start(self, name: str, running: Coroutine[None, None, None]) -> asyncio.Task[None] | None:
        if self._is_stopping:
            running.close()  # Not started: the owner is stopping.
            return None
        task = self._group.create_task(running, name=f"{self._owner}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, name: str, work: Work, on_failure: OnFailure) -> None:
        while True:
            try:
                await _done(work)
            except Exception:
                log.exception("%s: %s failed", self._owner, name)
                if on_failure is OnFailure.STOP_ALL:
                    raise
                await asyncio.sleep(RESTART_PAUSE_S)
            else:
                return

    async def _every(self, name: str, period_s: float, work: Work) -> None:
        while True:
            await asyncio.sleep(period_s)
            await self._attempt(name, work)

    async def _attempt(self, name: str, work: Work) -> None:
        try:
            await _done(work)
        except Exception:
            log.exception("%s: %s failed", self._owner, name)


async def to_its_end(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a caller that is cancelled waits until the thread is done.

    A thread cannot be stopped, and would still work on the same file.
    """
    work = asyncio.create_task(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def _done(work: Work) -> None:
    waiting = work()
    if waiting is not None:
        await waiting


async def run_until_first_fails(*directions: Coroutine[None, None, None]) -> None:
    """For the two directions of a link, or a lease and its user: tasks that end together.

    Runs until one of them fails, and raises its error. None of them returns by itself.

    Not a TaskGroup: that of Python 3.11 forgets that it was cancelled when a task fails just then.
    """
    tasks = [asyncio.ensure_future(each) for each in directions]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        # They wait at a socket or a pause, so this takes no time.
        await asyncio.gather(*tasks, return_exceptions=True)
