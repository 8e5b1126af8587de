"""Checks of arguments, before anything is done with them; timestamps.

Each check raises BadArgument with the name of the argument, what it may be, and what it was.
Programs use datetimes with a time zone, brokers milliseconds since 1970.
"""

import inspect
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from roquet.client.errors import BadArgument
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock

_SHOWN_SIZE: Final = 100


def shown(value: object) -> str:
    """A value in an error, short enough to be read."""
    text = repr(value)
    return text if len(text) <= _SHOWN_SIZE else f"{text[:_SHOWN_SIZE]}..."


def bad(name: str, expected: str, value: object) -> BadArgument:
    """`name` is that of an argument, or "each of keys"."""
    argument = name.rpartition(" ")[2]
    return BadArgument(f"`{name}` has to be {expected}, not {shown(value)}", argument)


def check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise bad(name, "a text", value)


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """A number from `low` to `high`, and no bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(name, "a number", value)
    if not low <= value <= high:
        raise bad(name, f"from {low:g} to {high:g}", value)


def check_count(name: str, value: Any, low: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise bad(name, f"a whole number, {low} or more", value)


def check_timeout(name: str, value: Any) -> None:
    """A time to wait; the name has the unit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        unit = "milliseconds" if name.endswith("_ms") else "seconds"
        raise bad(name, f"a number of {unit}, more than 0", value)


def check_moment(name: str, value: Any) -> None:
    if not isinstance(value, datetime):
        raise bad(name, "a datetime with a time zone", value)
    if value.tzinfo is None:
        reason = f"`{name}` {value} has no time zone; give it one: datetime.now(UTC)"
        raise BadArgument(reason, name)


def check_queue(name: str, value: Any) -> None:
    if not isinstance(value, QueueRef):
        raise bad(name, "a QueueRef", value)


def checked_queues(name: str, value: Any) -> tuple[QueueRef, ...]:
    """Several of them. A single one is a tuple, too, and refused."""
    if isinstance(value, QueueRef) or not isinstance(value, Iterable):
        raise bad(name, "a list of QueueRefs", value)
    queues = tuple(value)
    for queue in queues:
        check_queue(f"each of {name}", queue)
    return queues


def check_offsets(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise bad(name, "a dict of QueueRefs and offsets", value)
    for queue, offset in value.items():
        check_queue(f"each key of {name}", queue)
        check_count(f"each offset of {name}", offset, 0)


def check_function(name: str, value: Any) -> None:
    if not callable(value):
        raise bad(name, "a function or a coroutine function", value)


def check_listener(name: str, value: Any) -> None:
    """Otherwise it would fail with each message, long after this call."""
    check_function(name, value)
    try:
        inspect.signature(value).bind(object())
    except TypeError:
        raise bad(name, "a function of one message, or of one list of them", value) from None
    except ValueError:
        pass  # Some functions written in C have no signature.


_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def timestamp_ms(moment: datetime, name: str = "moment") -> int:
    """Raises BadArgument for a moment without a time zone; `name` is that of the argument."""
    check_moment(name, moment)
    # Rounded down, or what is stored in the rest of this millisecond would count as older.
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment_of(timestamp_ms: int) -> datetime | None:
    """None for what brokers return when there is no message."""
    return utc(timestamp_ms) if timestamp_ms > 0 else None


def utc(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def moment_before(clock: Clock, monotonic_s: float | None) -> datetime | None:
    """When something happened that was noted in monotonic time; None is never."""
    if monotonic_s is None:
        return None
    return utc(clock.now_ms() - round((clock.monotonic_s() - monotonic_s) * 1000))
