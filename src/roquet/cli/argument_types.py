"""Types of arguments: numbers, hosts, NAME=VALUE, BROKER:QUEUE, points in time and durations.

Servers load this, too: it must not import the client.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from roquet.clock import SystemClock
from roquet.net.addresses import is_wildcard
from roquet.settings.options import parse_time_ms

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_span = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)").fullmatch


def whole_number(smallest: int, largest: int | None = None) -> Callable[[str], int]:
    """Returns a parser, which raises ArgumentTypeError."""
    expected = f"at least {smallest}" if largest is None else f"from {smallest} to {largest}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < smallest or (largest is not None and number > largest):
            raise ArgumentTypeError(f"{number} is out of range: expected {expected}")
        return number

    return read


port_number = whole_number(0, 65535)


def reachable_host_name(text: str) -> str:
    """Raises ArgumentTypeError."""
    if is_wildcard(text.strip()):
        raise ArgumentTypeError(f"{text!r} is not a host that clients can connect to")
    return text.strip()


def pair(text: str) -> tuple[str, str]:
    """Raises ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def queue_place(text: str) -> tuple[str, int]:
    """The name of a broker and the number of a queue. Raises ArgumentTypeError."""
    broker_name, _, number = text.rpartition(":")
    if not broker_name or not (number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not BROKER:QUEUE, such as broker-a:0")
    return broker_name, int(number)


def moment(text: str) -> datetime:
    """A time as all options have it (`parse_time_ms`), how long ago it was, or now.

    Raises ArgumentTypeError.
    """
    if (span := _span(text)) is not None:
        return _now() - _timedelta(*span.groups())
    if text == "now":
        return _now()
    try:
        return datetime.fromtimestamp(parse_time_ms(text) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError(
            f"{text!r} is not a time: expected 2026-11-15T20:16:48 (local time unless it has a"
            " zone), 90m (ago), now, or milliseconds such as 1794773808000"
        ) from None


def moment_ms(text: str) -> int:
    """The same, in milliseconds since 1970. Raises ArgumentTypeError."""
    return round(moment(text).timestamp() * 1000)


def time_span(text: str) -> timedelta:
    """Raises ArgumentTypeError."""
    if (span := _span(text)) is None:
        raise ArgumentTypeError(f"{text!r} is not a duration: expected 500ms, 10s, 5m, 2h or 1d")
    return _timedelta(*span.groups())


def _timedelta(number: str, unit: str) -> timedelta:
    return timedelta(seconds=float(number) * _UNITS[unit])


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
