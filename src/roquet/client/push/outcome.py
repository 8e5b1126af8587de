"""The outcome of a listener's call.

    returns              the message is acknowledged
    raises RetryLater    it is delivered again later
    raises DeadLetter    it goes to the dead letters at once
    raises anything else it is logged, and delivered again later

The first messages of a batch may be acknowledged: `raise RetryLater(done_count=3)`.
"""

from bisect import bisect_left
from datetime import timedelta
from typing import Final, NamedTuple

from roquet.client.arguments import bad, check_count, check_text
from roquet.client.errors import BadArgument
from roquet.errors import RoquetError

# Special values for the delay level of a send-back.
BROKER_DECIDES: Final = 0
AT_ONCE_DEAD: Final = -1
# The default delay levels of brokers.
LEVELS_S: Final = (1, 5, 10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30, 60, 120)))
# Java's level for a listener that was too slow: ten seconds.
_TOO_SLOW_LEVEL: Final = 3


class NotDone(RoquetError):
    """Raised by a listener. Its first `done_count` messages are acknowledged, the others not."""

    def __init__(self, text: str, done_count: int) -> None:
        check_count("done_count", done_count, 0)
        super().__init__(text)
        self.done_count = done_count


class RetryLater(NotDone):
    """Raised by a listener to have its message delivered again.

    Without a delay the broker decides: ten seconds first, and longer each time.

    With `delay` it is delivered again after that time, which is rounded up to one of the broker's
    delay levels: 1, 5, 10, 30 s, 1 to 10, 20, 30 min, 1 and 2 h. If the broker has other levels,
    give `delay_level`. An orderly consumer does not round: the queue pauses for `delay`, or for
    the `retry_pause_s` of the consumer.

    For example:

        def bill(message):
            if message.retry_count < 3:
                raise RetryLater(timedelta(minutes=5))
    """

    def __init__(
        self,
        delay: timedelta | None = None,
        *,
        delay_level: int | None = None,
        done_count: int = 0,
    ) -> None:
        if delay is not None and delay_level is not None:
            raise BadArgument("give `delay` or `delay_level`, not both", "delay_level")
        if delay_level is not None:
            check_count("delay_level", delay_level)
        if delay is not None:
            delay_level = level_for(delay)
        super().__init__("to be retried later", done_count)
        self.delay = delay
        self.delay_level = delay_level


class DeadLetter(NotDone):
    """Raised by a listener that gives its message up: no retry will help.

    It goes to the dead letters of the group at once.

    For example:

        def bill(message):
            if not message.body:
                raise DeadLetter("an order without a body")
    """

    def __init__(self, reason: str = "given up", *, done_count: int = 0) -> None:
        check_text("reason", reason)
        super().__init__(reason, done_count)
        self.reason = reason


def level_for(delay: timedelta) -> int:
    """The first default level that waits for at least that long. Raises BadArgument."""
    if not isinstance(delay, timedelta):
        raise bad("delay", "a timedelta", delay)
    seconds = delay.total_seconds()
    if not 0 <= seconds <= LEVELS_S[-1]:
        raise bad("delay", f"from 0 to {LEVELS_S[-1] / 3600:g} hours", delay)
    return bisect_left(LEVELS_S, seconds) + 1


class TooSlow(RoquetError):
    """A listener exceeded its time limit."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"not done within {timeout_s:g} s")
        self.timeout_s = timeout_s


class NotStarted(RoquetError):
    """No listener was called: the queue was lost before."""


class Consequence(NamedTuple):
    """The first `done_count` messages are acknowledged, the others are retried."""

    done_count: int
    delay_level: int
    pause_s: float | None = None

    @property
    def is_dead(self) -> bool:
        return self.delay_level == AT_ONCE_DEAD


def consequence_of(error: BaseException, count: int) -> Consequence:
    """Of the error of a listener that had `count` messages."""
    match error:
        case RetryLater():
            level = error.delay_level or BROKER_DECIDES
            pause_s = None if error.delay is None else error.delay.total_seconds()
            return Consequence(min(error.done_count, count), level, pause_s)
        case DeadLetter():
            return Consequence(min(error.done_count, count), AT_ONCE_DEAD)
        case TooSlow():
            return Consequence(0, _TOO_SLOW_LEVEL)
        case _:
            return Consequence(0, BROKER_DECIDES)
