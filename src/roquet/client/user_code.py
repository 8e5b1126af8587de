"""Functions that programs hand in: called where whatever they raise can do no harm.

Nobody knows what they raise, so everything is caught here; listeners are called where they are fed.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from roquet.client.errors import SendForbidden

log = logging.getLogger(__name__)

C = TypeVar("C")
T = TypeVar("T")


def tell(listeners: Iterable[Callable[[C], None]], news: C) -> None:
    """Tells all of them; an error is logged. Raises SendForbidden, which is meant to be raised."""
    for listener in listeners:
        try:
            listener(news)
        except SendForbidden:
            raise
        except Exception:
            log.exception("%r failed; its error is ignored", listener)


def chosen(wants: Callable[[C], bool], things: Iterable[C]) -> list[C]:
    """Those that the function wants. One that it fails for is wanted, too; the error is logged."""
    return [each for each in things if _is_wanted(wants, each)]


def _is_wanted(wants: Callable[[C], bool], thing: C) -> bool:
    try:
        return wants(thing)
    except Exception:
        log.exception("%r failed; taken as wanted", wants)
        return True


async def call(function: Callable[..., T | Awaitable[T]], *arguments: Any) -> T:
    """What a coroutine function returns, or a plain one, which may block and gets a thread."""
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
    except Exception:
        log.exception("%r failed; taken as %s", function, otherwise)
        return otherwise


async def error_of(function: Callable[..., Any], *arguments: Any) -> Exception | None:
    """What it raised, if it did."""
    try:
        await call(function, *arguments)
    except Exception as error:  # noqa: BLE001  Its caller judges it.
        return error
    return None


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Also of an object that is called like one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  Not whether it can be called.
    )
