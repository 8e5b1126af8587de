"""Questions that are asked again: an error in a driver-side call ends a query at once."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S_FIRST: Final = 0.1
_PAUSE_S_MAX: Final = 5.0
# What servers and routes to them can do to a question.
UNANSWERED: Final = (NoNameServer, RequestRefused, TopicNotFound, Unreachable)


def may_pass(error: ClientError, *, is_beginning: bool = False) -> bool:
    """Whether the same question may be answered a little later.

    A topic that is missing may be on its way back, with its broker or with what a name server knows
    after a restart. Who has not begun yet has most likely misspelt it.
    """
    match error:
        case RequestRefused():
            return error.is_busy or (
                error.code == ResponseCode.TOPIC_NOT_EXIST and not is_beginning
            )
        case TopicNotFound():
            return not (error.is_missing and is_beginning)
    return isinstance(error, UNANSWERED)


def retried(ask: Callable[[], T], timeout: timedelta, *, is_beginning: bool = False) -> T:
    """What `ask` returns, as soon as it does.

    Raises what it raised last when time is up, and at once what does not pass by itself.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    pause_s = _PAUSE_S_FIRST
    while True:
        try:
            return ask()
        except UNANSWERED as error:
            is_final = not may_pass(error, is_beginning=is_beginning)
            if is_final or time.monotonic() + pause_s > deadline:
                raise
            log.warning("asked again in %.1f s: %s", pause_s, error)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
