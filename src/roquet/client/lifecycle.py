"""Open, usable, closed: the lifecycle that all clients share.

A client is made without I/O, opened once and closed once, and belongs to the process and the event
loop that opened it. `Lifecycle` holds what it has in between, its session: the instance with its
connections, and whatever works with them. Producers, consumers, readers and admins all use it.
"""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar, final

from roquet.client.arguments import check_timeout
from roquet.client.errors import NotOpen


class AsyncResource(ABC):
    """Opened once and closed once, best by `async with`."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class _Owned(Protocol):
    """What belongs to one process and one event loop: a `ClientInstance`."""

    def check_usable(self) -> None: ...

    def check_loop(self) -> None: ...


class Session(Protocol):
    """What a client has between `open` and `close`. `timeout_s` limits what it waits for, if it
    waits for anything."""

    @property
    def instance(self) -> _Owned: ...

    async def open(self, timeout_s: float | None) -> None: ...

    async def close(self) -> None: ...


S = TypeVar("S", bound=Session)


@final
class Lifecycle(Generic[S]):
    """`what` names the client in errors; `new_session` is called in its event loop."""

    def __init__(self, what: str, new_session: Callable[[], S]) -> None:
        self._what = what
        self._new_session = new_session
        self._is_closed = False
        # None before `open`; kept after `close`, for what can still be read of it.
        self.session: S | None = None
        self._process: int | None = None

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        # A child inherits what its parent has open, and need not close it.
        if self._process == current_process_id() and not self._is_closed:
            text = f"{self._what} was left open: use `async with`, or close()"
            warn(text, ResourceWarning, source=self)

    async def open(self, timeout_s: float | None = None) -> None:
        """A second time does nothing. Raises NotOpen after `close`, BadArgument, and what the
        session raises; after that `open` may be called again.
        """
        if timeout_s is not None:
            check_timeout("timeout_s", timeout_s)
        if self._is_closed:
            raise NotOpen(self._what, was_open=True)
        if self.session is not None:
            return
        session = self.session = self._new_session()
        try:
            await session.open(timeout_s)
        except BaseException:
            self.session = None
            await session.close()
            raise
        self._process = current_process_id()

    async def close(self) -> None:
        """A second time does nothing. Raises WrongLoop."""
        if self.session is not None:
            self.session.instance.check_loop()
        was_closed, self._is_closed = self._is_closed, True
        if not was_closed and self.session is not None:
            await self.session.close()

    def usable(self) -> S:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        session = self.session
        if session is None or self._is_closed:
            raise NotOpen(self._what, was_open=self._is_closed)
        session.instance.check_usable()
        return session


_process_id = os.getpid()


def current_process_id() -> int:
    """Like os.getpid(), without a system call for every send: only a fork changes it."""
    return _process_id


def _note_fork() -> None:
    global _process_id  # noqa: PLW0603  There is one process, and it has one number.
    _process_id = os.getpid()


os.register_at_fork(after_in_child=_note_fork)
