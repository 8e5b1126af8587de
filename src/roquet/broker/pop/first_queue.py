"""Which queue a pop looks at first: any, so that all of them have their turn.

Alone in its file, because a broker is built with it, and pops of both kinds and of the fast path
use it.
"""

import random
from typing import Final, final

_BIT_COUNT: Final = 31
_PERCENT: Final = 100


@final
class FirstQueue:
    """One number for each pop. It is drawn before, so that who leaves a pop to others can tell what
    these will do. Belongs to the event loop."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = _drawn()

    def draw(self) -> int:
        """The number for this pop."""
        number, self.number = self.number, _drawn()
        return number


def is_retry_first(number: int, percent: int) -> bool:
    """Whether the pop with this number looks for messages that came again before all others."""
    return number % _PERCENT < percent


def first_of(number: int, count: int) -> int:
    """Where among this many queues it starts."""
    return number // _PERCENT % count


def _drawn() -> int:
    return random.getrandbits(_BIT_COUNT)  # Which queue is first is no secret.
