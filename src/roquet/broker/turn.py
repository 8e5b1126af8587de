"""A bounded piece of work on the event loop, which serves nobody else while it lasts."""

from collections.abc import Callable
from typing import Final, final

TURN_COUNT_MAX: Final = 128
TURN_SIZE_MAX: Final = 1 << 20


@final
class Turn:
    """Hands over records, so many and no more; it is over, too, with the one that is too large."""

    __slots__ = ("_hand_over", "count_left", "size_left")

    def __init__(
        self,
        hand_over: Callable[[bytes], None],
        count_max: int = TURN_COUNT_MAX,
        size_max: int = TURN_SIZE_MAX,
    ) -> None:
        self._hand_over = hand_over
        self.count_left = count_max
        self.size_left = size_max

    @property
    def is_over(self) -> bool:
        return self.count_left <= 0 or self.size_left <= 0

    def hand_over(self, record: bytes) -> None:
        """What the receiver raises passes through; then the record was not handed over."""
        self._hand_over(record)
        self.count_left -= 1
        self.size_left -= len(record)

    def look_at(self, count: int) -> None:
        """Counts records that were only looked at."""
        self.count_left -= count
