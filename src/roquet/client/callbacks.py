"""Calls functions of the program, such as hooks, so that their errors do no harm.

They may raise anything, so everything is caught here; listeners are called in `push`. That
includes SystemExit and others that are no Exception: in a loop they would end a task, or all of
them, unnoticed.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar, final

from roquet.client.errors import SendForbidden

log = logging.getLogger(__name__)

C = TypeVar("C")
T = TypeVar("T")


def call_all(functions: Iterable[Callable[[C], None]], event: C) -> None:
    """Calls all of them; an error is logged. Raises SendForbidden, which hooks may raise."""
    for function in functions:
        try:
            function(event)
        except SendForbidden:
            raise
        except BaseException as error:  # noqa: BLE001  Of the program.
            _ignore(function, error)


def merged_results(sources: Iterable[Callable[[C], Mapping[str, T]]], subject: C) -> dict[str, T]:
    """The results of all of them, in one table; an error is logged."""
    table: dict[str, T] = {}
    for source in sources:
        try:
            table.update(source(subject))
        except BaseException as error:  # noqa: BLE001  Of the program.
            _ignore(source, error)
    return table


@final
class EnteredContexts:
    """Entered one after the other, left in the opposite order; their errors are logged.

    What is raised inside goes through all of them, and on.
    """

    def __init__(
        self, makers: Iterable[Callable[[C], AbstractContextManager[object]]], subject: C
    ) -> None:
        self._makers = makers
        self._subject: Any = subject
        self._entered: list[AbstractContextManager[object]] = []

    def __enter__(self) -> None:
        for make in self._makers:
            try:
                context = make(self._subject)
                context.__enter__()
            except BaseException as error:  # noqa: BLE001  Of the program.
                _ignore(make, error)
            else:
                self._entered.append(context)

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for context in reversed(self._entered):
            try:
                context.__exit__(error_type, error, traceback)
            except BaseException as raised:  # noqa: BLE001  Of the program.
                if raised is not error:
                    _ignore(context, raised)


def selected(wants: Callable[[C], bool], things: Iterable[C]) -> list[C]:
    """Those that it wants. One for which it raises is wanted, too; the error is logged."""
    return [each for each in things if _is_wanted(wants, each)]


def _is_wanted(wants: Callable[[C], bool], thing: C) -> bool:
    try:
        return wants(thing)
    except BaseException as error:
        if is_ours(error):
            raise
        log.exception("%r failed; counted as wanted", wants)
        return True


async def call(function: Callable[..., T | Awaitable[T]], *arguments: Any) -> T:
    """What a coroutine function returns, or a function that may block, which gets a thread."""
    if is_coroutine_function(function):
        result = function(*arguments)
    else:
        result = await asyncio.to_thread(function, *arguments)
    if inspect.isawaitable(result):
        return await result
    return result


async def call_or(otherwise: T, function: Callable[..., T | Awaitable[T]], *arguments: Any) -> T:
    """The same; an error is logged and means `otherwise`."""
    try:
        return await call(function, *arguments)
    except BaseException as error:
        if is_ours(error) or isinstance(error, asyncio.CancelledError):
            raise
        log.exception("%r failed; counted as %s", function, otherwise)
        return otherwise


async def error_of(function: Callable[..., Any], *arguments: Any) -> BaseException | None:
    """What it raised, if it did."""
    try:
        await call(function, *arguments)
    except BaseException as error:
        if is_ours(error) or isinstance(error, asyncio.CancelledError):
            raise
        return error
    return None


def is_ours(error: BaseException) -> bool:
    """Whether a function of the program only let it through: Ctrl-C, or a coroutine that is closed
    because its loop is gone."""
    if isinstance(error, GeneratorExit):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return True
    return isinstance(error, KeyboardInterrupt)


def _ignore(function: object, error: BaseException) -> None:
    if is_ours(error):
        raise error
    log.error("%r failed; its error is ignored", function, exc_info=error)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Also of an object that is called like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  Not whether it can be called.
    )
