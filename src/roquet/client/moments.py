"""Moments as programs know them, and milliseconds as brokers do."""

from datetime import UTC, datetime

from roquet.client.arguments import check_moment


def timestamp_ms(moment: datetime, name: str = "moment") -> int:
    """Raises BadArgument for a moment that could be any hour of a day; `name` is the argument's."""
    check_moment(name, moment)
    return round(moment.timestamp() * 1000)


def moment_of(timestamp_ms: int) -> datetime | None:
    """None for what peers say when there is no message."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms > 0 else None
