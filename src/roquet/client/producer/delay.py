"""Messages that wait: by one of the broker's levels, or until any moment."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from roquet.client.errors import BadArgument
from roquet.protocol.messages.message import Property

# A level of the broker (1 is one second, 18 is two hours, unless it is set up otherwise), a time
# from now, or a moment. Levels work everywhere; the others need a broker with timers.
Delay = int | timedelta | datetime

_MILLISECOND: Final = timedelta(milliseconds=1)


def delay_properties(delay: Delay, now_ms: int) -> Mapping[str, str]:
    """What makes a broker wait. Raises BadArgument."""
    if isinstance(delay, datetime):
        if delay.tzinfo is None:
            raise BadArgument(f"`delay` {delay} has no time zone; give it one")
        due_ms = round(delay.timestamp() * 1000)
        # What is due already needs nobody to wait.
        return {Property.TIMER_DELIVER_MS: str(due_ms)} if due_ms > now_ms else {}
    if isinstance(delay, timedelta):
        # By the broker's clock, which may differ from ours.
        delay_ms = delay // _MILLISECOND
        return {Property.TIMER_DELAY_MS: str(delay_ms)} if delay_ms > 0 else {}
    if delay < 1:
        raise BadArgument(f"`delay` level {delay} does not exist; the first one is 1")
    return {Property.DELAY: str(delay)}


def needs_timers(properties: Mapping[str, str]) -> bool:
    """Whether a broker without timers would deliver a message with these at once."""
    return Property.TIMER_DELIVER_MS in properties or Property.TIMER_DELAY_MS in properties
