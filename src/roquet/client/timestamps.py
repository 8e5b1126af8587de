"""Timestamps: datetimes with a time zone for programs, milliseconds for brokers."""

from datetime import UTC, datetime, timedelta
from typing import Final

from roquet.client.arguments import check_moment
from roquet.clock import Clock

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
