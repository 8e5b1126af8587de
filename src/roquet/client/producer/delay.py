"""Messages that wait: by one of the broker's levels, or until any moment."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from roquet.client.arguments import bad, check_count, check_moment
from roquet.client.errors import BadArgument
from roquet.protocol.messages.message import Property

# A time from now, or a moment; both need a broker with timers.
Delay = timedelta | datetime

_MILLISECOND: Final = timedelta(milliseconds=1)


def delay_properties(
    delay: Delay | None, delay_level: int | None, now_ms: int
) -> Mapping[str, str]:
    """What makes a broker wait. Raises BadArgument.

    A level works with every broker: 1 is a second, 18 two hours, unless it is set up otherwise.
    """
    if delay_level is not None:
        if delay is not None:
            raise BadArgument("give `delay` or `delay_level`, not both")
        check_count("delay_level", delay_level)
        return {Property.DELAY: str(delay_level)}
    if delay is None:
        return {}
    if isinstance(delay, timedelta):
        # By the broker's clock, which may differ from ours.
        delay_ms = delay // _MILLISECOND
        return {Property.TIMER_DELAY_MS: str(delay_ms)} if delay_ms > 0 else {}
    if not isinstance(delay, datetime):
        raise _no_delay(delay)
    check_moment("delay", delay)
    due_ms = round(delay.timestamp() * 1000)
    # What is due already needs nobody to wait.
    return {Property.TIMER_DELIVER_MS: str(due_ms)} if due_ms > now_ms else {}


def _no_delay(delay: Any) -> BadArgument:
    """A bare number could be seconds as well as a level."""
    error = bad("delay", "a timedelta or a datetime", delay)
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        return error
    levels = f", for a level of the broker delay_level={delay}" if isinstance(delay, int) else ""
    return BadArgument(f"{error}: for seconds give timedelta(seconds={delay}){levels}")


def needs_timers(properties: Mapping[str, str]) -> bool:
    """Whether a broker without timers would deliver a message with these at once."""
    return Property.TIMER_DELIVER_MS in properties or Property.TIMER_DELAY_MS in properties
