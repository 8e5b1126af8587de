"""A slice of a delivery: a bounded piece of work on the event loop, which serves nobody else
while it lasts.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, final

from roquet.clock import Clock

SLICE_COUNT_MAX: Final = 1024
SLICE_SIZE_MAX: Final = 1 << 20
BATCH_COUNT_MAX: Final = 32


@final
class DeliverySlice:
    """Hands over records, until it has lasted long enough, or there were enough of them."""

    __slots__ = ("_batch_max", "_clock", "_ends_at_s", "_hand_over", "count_left", "size_left")

    def __init__(
        self,
        hand_over: Callable[[Sequence[bytes]], None],
        clock: Clock,
        *,
        length_s: float = math.inf,
        count_max: int = SLICE_COUNT_MAX,
        batch_max: int = BATCH_COUNT_MAX,
    ) -> None:
        self._hand_over = hand_over
        self._clock = clock
        self._ends_at_s = clock.monotonic_s() + length_s
        self.count_left = count_max
        self.size_left = SLICE_SIZE_MAX
        self._batch_max = batch_max

    @property
    def is_over(self) -> bool:
        return (
            self.count_left <= 0
            or self.size_left <= 0
            or self._clock.monotonic_s() > self._ends_at_s
        )

    @property
    def batch_count(self) -> int:
        """How many may be handed over together."""
        return min(self._batch_max, self.count_left)

    def hand_over(self, records: Sequence[bytes]) -> None:
        """What the receiver raises passes through; then it wants all of them again."""
        self._hand_over(records)
        self.count_left -= len(records)
        self.size_left -= sum(map(len, records))
