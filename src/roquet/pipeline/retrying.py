"""Questions that are asked again: an error in a driver-side call ends a query at once."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from roquet.client.errors import NoNameServer, RequestRefused, TopicNotFound, Unreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S_FIRST: Final = 0.1
_PAUSE_S_MAX: Final = 5.0
# What passes by itself: servers that are away, and routes that follow them.
TRANSIENT: Final = (NoNameServer, RequestRefused, TopicNotFound, Unreachable)


def retried(ask: Callable[[], T], timeout: timedelta) -> T:
    """What `ask` returns, as soon as it does. Raises what it raised last when time is up."""
    deadline = time.monotonic() + timeout.total_seconds()
    pause_s = _PAUSE_S_FIRST
    while True:
        try:
            return ask()
        except TRANSIENT as error:
            if time.monotonic() + pause_s > deadline:
                raise
            log.warning("asked again in %.1f s: %s", pause_s, error)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
