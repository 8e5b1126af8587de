"""Blocking twins: how each is opened and closed, and how its methods are made.

A twin has the methods of an asynchronous client, which runs in a thread with an event loop:

    class Producer(BlockingTwin[AsyncProducer]):
        send = blocking(AsyncProducer.send)

Parameters, types and docstring are those of the asynchronous method, so they are written once.
"""

import atexit
import logging
import warnings
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

from roquet.client.blocking.loop_thread import LoopThread, SharingKey
from roquet.client.config import ProducerOptions
from roquet.client.group.config import MemberOptions

log = logging.getLogger(__name__)


class _AsyncClient(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...


T = TypeVar("T", bound=_AsyncClient)
Item = TypeVar("Item")
P = ParamSpec("P")
R = TypeVar("R")


class BlockingTwin(Generic[T]):
    """Runs its asynchronous twin in a thread with an event loop. `what` names it in errors. Those
    with the same `sharing_key` share one thread.

    Any number of threads may use it; a call costs about 0.1 ms for the way to the other thread
    and back, which sends of a single thread do without (`direct_send.py`). Belongs to the process
    that made it.
    """

    def __init__(self, twin: T, what: str, sharing_key: SharingKey | None = None) -> None:
        self._what = what
        self._twin = twin
        self._thread = LoopThread(what, sharing_key)

    def open(self) -> None:
        """Starts the thread, and opens the twin in it; raises what that raises."""
        self._open(self._twin.open)

    def _open(self, open_twin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._thread.start()
        try:
            self._thread.run(open_twin())
        except BaseException:
            self._thread.stop()
            raise
        _open.add(self)

    def _unsent(self) -> int:
        """Messages that `close` waits for."""
        return 0

    def close(self) -> None:
        """Closes the twin and ends the thread; a second time does nothing."""
        if self._thread.is_running:
            try:
                self._thread.run(self._twin.close())
            finally:
                self._thread.stop()

    def _each(self, items: AsyncGenerator[Item, None]) -> Generator[Item, None, None]:
        """What a generator of the twin yields, one by one; it is closed when this one is."""
        try:
            while (item := self._thread.run(_next(items))) is not None:
                yield item
        finally:
            if self._thread.is_running:
                self._thread.run(items.aclose())

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


_open: "Final[WeakSet[BlockingTwin[Any]]]" = WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what a program left open: the threads of clients end with it, and what they have not
    sent yet would be lost. `close` waits a limited time."""
    for twin in [each for each in _open if each._thread.is_running]:  # noqa: SLF001
        unsent_count = twin._unsent()  # noqa: SLF001
        what = f"a {twin._what} was left open: use `with`, or close()"  # noqa: SLF001
        twin.close()
        if unsent_count:
            left = twin._unsent()  # noqa: SLF001
            log.warning("%s; %d messages were in flight, %d are not sent", what, unsent_count, left)
        warnings.warn(what, ResourceWarning, stacklevel=1)


def blocking(
    method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[BlockingTwin[T], P], R]:
    """The same method of the blocking twin: it waits until the coroutine of `method` is done."""

    @wraps(method)
    def wait(self: BlockingTwin[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._twin, *args, **kwargs))

    return wait


def in_loop(
    method: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[BlockingTwin[T], P], R]:
    """The same method of the blocking twin, for one that touches state of the event loop."""

    @wraps(method)
    def call(self: BlockingTwin[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.call(partial(method, self._twin, *args, **kwargs))

    return call


async def _next(items: AsyncGenerator[Item, None]) -> Item | None:
    return await anext(items, None)


def sharing_key(
    name_server: str | None, options: ProducerOptions | MemberOptions
) -> SharingKey | None:
    """None for clients without an instance name: they share nothing."""
    name = options.get("instance_name")
    return None if name is None else (name_server, name, options.get("unit"))


C = TypeVar("C", bound=type)


def described_by(twin: type) -> Callable[[C], C]:
    """A method of a blocking client has the docstring of its twin's method, unless it has its own:
    `help` shows it, and it is written once."""

    def describe(blocking: C) -> C:
        for name, method in vars(blocking).items():
            if name.startswith("_") or not callable(method):
                continue
            # `wraps` took these from the twin's method.
            method.__module__ = blocking.__module__
            method.__qualname__ = f"{blocking.__qualname__}.{name}"
            if method.__doc__ is None:
                method.__doc__ = getattr(getattr(twin, name, None), "__doc__", None)
        return blocking

    return describe
