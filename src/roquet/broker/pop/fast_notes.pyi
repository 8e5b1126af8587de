from collections.abc import Callable, Sequence
from typing import final

from roquet.broker.pop.in_flight import InFlight, PopKey, QueueOfGroup
from roquet.broker.pop.record_texts import RecordTexts
from roquet.clock import Clock

@final
class FastNotes:
    def __init__(
        self,
        texts: RecordTexts,
        in_flight: InFlight,
        next_offsets: dict[int, int],
        popped: set[QueueOfGroup],
        clock: Clock,
        wake_before: Callable[[int], None],
    ) -> None: ...
    def note_pop(
        self,
        key: PopKey,
        offsets: Sequence[int],
        invisible_ms: int,
        next_offset: int,
        now_ms: int,
    ) -> int: ...
    def note_acks(self, key: PopKey, offsets: Sequence[int]) -> int: ...
