"""Times as operators say them: a moment, or how long ago it was."""

import re
from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from typing import Final

from roquet.client.timestamps import utc
from roquet.clock import SystemClock

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_span = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)").fullmatch
_MILLISECONDS_DIGITS: Final = range(12, 15)


def moment(text: str) -> datetime:
    """Raises ArgumentTypeError."""
    if (span := _span(text)) is not None:
        return _now() - _timedelta(*span.groups())
    if text == "now":
        return _now()
    try:
        if text.isascii() and text.isdigit() and len(text) in _MILLISECONDS_DIGITS:
            return utc(int(text))
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError(
            f"{text!r} is no time; 2026-11-15T20:16:48 is one, and so are 90m (ago), now, and"
            " 1794773808000"
        ) from None


def time_span(text: str) -> timedelta:
    """Raises ArgumentTypeError."""
    if (span := _span(text)) is None:
        raise ArgumentTypeError(f"{text!r} is no span of time; 500ms, 10s, 5m, 2h and 1d are")
    return _timedelta(*span.groups())


def _timedelta(number: str, unit: str) -> timedelta:
    return timedelta(seconds=float(number) * _UNITS[unit])


def _now() -> datetime:
    return utc(SystemClock().now_ms())
