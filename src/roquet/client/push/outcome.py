"""How a listener says what became of its messages.

    returns              done
    raises RetryLater    not done: deliver it again, later
    raises DeadLetter    not done, and never will be
    raises anything else a mistake: logged, and delivered again later

Of a batch, the first ones may be done: `raise RetryLater(done_count=3)`.
"""

from typing import Final, NamedTuple

from roquet.client.errors import BadArgument
from roquet.errors import RoquetError

# Levels of a send-back that are no delay levels.
BROKER_DECIDES: Final = 0
AT_ONCE_DEAD: Final = -1
# What Java takes for a listener that was too slow: ten seconds.
_TOO_SLOW_LEVEL: Final = 3


class NotDone(RoquetError):
    """Raised by a listener. Its first `done_count` messages are done, the others are not."""

    def __init__(self, text: str, done_count: int) -> None:
        if done_count < 0:
            raise BadArgument(f"`done_count` has to be 0 or more, not {done_count}")
        super().__init__(text)
        self.done_count = done_count


class RetryLater(NotDone):
    """Without a level the broker decides: ten seconds first, and longer each time.

    In order, the queue rests instead: for `pause_s`, or as long as the consumer is set up to.
    """

    def __init__(
        self, *, delay_level: int | None = None, pause_s: float | None = None, done_count: int = 0
    ) -> None:
        if delay_level is not None and delay_level < 1:
            raise BadArgument(f"`delay_level` {delay_level} does not exist; the first one is 1")
        if pause_s is not None and pause_s < 0:
            raise BadArgument(f"`pause_s` has to be 0 or more, not {pause_s}")
        super().__init__("wanted again later", done_count)
        self.delay_level = delay_level
        self.pause_s = pause_s


class DeadLetter(NotDone):
    """Goes to the dead letters of the group at once."""

    def __init__(self, reason: str = "given up", *, done_count: int = 0) -> None:
        super().__init__(reason, done_count)
        self.reason = reason


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
            return Consequence(min(error.done_count, count), level, error.pause_s)
        case DeadLetter():
            return Consequence(min(error.done_count, count), AT_ONCE_DEAD)
        case TooSlow():
            return Consequence(0, _TOO_SLOW_LEVEL)
        case _:
            return Consequence(0, BROKER_DECIDES)
