"""How a listener says what became of its messages.

    returns              done
    raises RetryLater    not done: deliver it again, later
    raises DeadLetter    not done, and never will be
    raises anything else a mistake: logged, and delivered again later

Of a batch, the first ones may be done: `raise RetryLater(done_count=3)`.
"""

from bisect import bisect_left
from datetime import timedelta
from typing import Final, NamedTuple

from roquet.client.arguments import bad, check_count, check_text
from roquet.client.errors import BadArgument
from roquet.errors import RoquetError

# Levels of a send-back that are no delay levels.
BROKER_DECIDES: Final = 0
AT_ONCE_DEAD: Final = -1
# Of a broker that nobody has set up otherwise.
LEVELS_S: Final = (1, 5, 10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30, 60, 120)))
# What Java takes for a listener that was too slow: ten seconds.
_TOO_SLOW_LEVEL: Final = 3


class NotDone(RoquetError):
    """Raised by a listener. Its first `done_count` messages are done, the others are not."""

    def __init__(self, text: str, done_count: int) -> None:
        check_count("done_count", done_count, 0)
        super().__init__(text)
        self.done_count = done_count


class RetryLater(NotDone):
    """Raised by a listener that wants its message again.

    Without a delay the broker decides: ten seconds first, and longer each time.

    With `delay` it comes again after that time, which is rounded up to one of the broker's levels:
    1, 5, 10, 30 s, 1 to 10, 20, 30 min, 1 and 2 h. Whoever has changed the levels of a broker gives
    `delay_level`. In order nothing is rounded: the queue rests for `delay`, or as long as the
    consumer is set up to.

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
            raise BadArgument("give `delay` or `delay_level`, not both")
        if delay_level is not None:
            check_count("delay_level", delay_level)
        if delay is not None:
            delay_level = level_for(delay)
        super().__init__("wanted again later", done_count)
        self.delay = delay
        self.delay_level = delay_level


class DeadLetter(NotDone):
    """Raised by a listener that gives its message up: it will never be done.

    Goes to the dead letters of the group at once.

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
    """The first of the usual levels that waits for at least that long. Raises BadArgument."""
    if not isinstance(delay, timedelta):
        raise bad("delay", "a timedelta", delay)
    seconds = delay.total_seconds()
    if not 0 <= seconds <= LEVELS_S[-1]:
        raise bad("delay", f"from 0 to {LEVELS_S[-1] / 3600:g} hours", delay)
    return bisect_left(LEVELS_S, seconds) + 1


class TooSlow(RoquetError):
    """A listener was given up."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"not done within {timeout_s:g} s")
        self.timeout_s = timeout_s


class NotBegun(RoquetError):
    """No listener was called: the queue was lost before."""


class Consequence(NamedTuple):
    """What follows: the first `done_count` are done, the others come again."""

    done_count: int
    delay_level: int
    pause_s: float | None = None

    @property
    def is_dead(self) -> bool:
        return self.delay_level == AT_ONCE_DEAD


def consequence_of(error: BaseException, count: int) -> Consequence:
    """Of what a listener raised that had `count` messages."""
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
