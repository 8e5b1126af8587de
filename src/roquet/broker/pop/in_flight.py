"""The messages that are out: popped, and neither acknowledged nor redelivered.

A check point is what one pop took from one queue. It is open until each of its messages is
acknowledged, by the client or by the broker itself, which redelivers it when its time is over.
Nothing here reads or writes: `journal` notes every change, and builds this again from its notes.

    _by_key    receipts name a check point by its key
    _due       the same by their time, the earliest first. What is closed stays in it until it is
               first, or until more than half of it is closed
    _noted     the same in the order of the journal, for each of its queues: everything before the
               oldest open one has been dealt with
"""

from collections import Counter, deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, Protocol, final

# Fewer entries than this are not worth to be gone through.
_TRIM_COUNT_MIN: Final = 1024


class QueueOfGroup(NamedTuple):
    group: str
    topic: str
    queue_id: int


class PopKey(NamedTuple):
    """No two check points have the same: see `InFlight.free_key`."""

    queue: QueueOfGroup
    start_offset: int
    pop_time_ms: int

    def origin(self, offset: int) -> str:
        """What the copy of a message has as POP_ORIGIN: where it lay, and since when it was out."""
        _, topic, queue_id = self.queue
        return f"{topic}@{queue_id}@{self.start_offset}@{self.pop_time_ms}@{offset}"


class Place(NamedTuple):
    """Where the journal has a check point."""

    queue_id: int
    offset: int


class Noted(Protocol):
    """What is built from records of the journal: they are needed while it is open."""

    place: Place

    @property
    def is_open(self) -> bool: ...


@final
class CheckPoint:
    """Bit n of `open_bits` is set while the message at `offsets[n]` is out."""

    __slots__ = ("due_ms", "invisible_ms", "is_suspended", "key", "offsets", "open_bits", "place")

    def __init__(
        self,
        key: PopKey,
        offsets: Sequence[int],
        invisible_ms: int,
        *,
        due_ms: int,
        place: Place,
        is_suspended: bool = False,
        acked_bits: int = 0,
    ) -> None:
        self.key = key
        self.offsets = offsets
        self.invisible_ms = invisible_ms
        # By a clock that is not set; see `PopJournal.steady_ms`.
        self.due_ms = due_ms
        self.place = place
        # Whether a redelivery is not counted as one more attempt.
        self.is_suspended = is_suspended
        self.open_bits = (1 << len(offsets)) - 1 & ~acked_bits

    @property
    def is_open(self) -> bool:
        return self.open_bits != 0

    @property
    def open_offsets(self) -> list[int]:
        bits = self.open_bits
        return [offset for index, offset in enumerate(self.offsets) if bits >> index & 1]

    @property
    def acked_bits(self) -> int:
        return (1 << len(self.offsets)) - 1 & ~self.open_bits

    def index_of(self, offset: int) -> int | None:
        """Of a message that is out; None if it is not, or never was."""
        offsets = self.offsets
        index = offset - offsets[0]
        # Without a filter they follow one another.
        if not (0 <= index < len(offsets) and offsets[index] == offset):
            if offset not in offsets:
                return None
            index = offsets.index(offset)
        return index if self.open_bits >> index & 1 else None

    def has_any_of(self, offsets: Sequence[int]) -> bool:
        """Whether one of these is out."""
        if offsets == self.offsets:
            return self.open_bits != 0
        return any(self.index_of(offset) is not None for offset in offsets)


@final
class InFlight:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self._by_key: dict[PopKey, CheckPoint] = {}
        # The number keeps check points of one time in their order, and from being compared.
        self._due: list[tuple[int, int, CheckPoint]] = []
        self._number = 0
        self._noted: dict[int, deque[tuple[int, Noted]]] = {}
        # Messages that are out.
        self.counts: Counter[QueueOfGroup] = Counter()
        self.count = 0

    def __len__(self) -> int:
        """How many check points are open."""
        return len(self._by_key)

    def find(self, key: PopKey) -> CheckPoint | None:
        return self._by_key.get(key)

    def free_key(self, key: PopKey) -> PopKey:
        """The same, or a little later: a message may be changed twice in one millisecond, and a
        group that was sent back may pop it again."""
        while key in self._by_key:
            key = key._replace(pop_time_ms=key.pop_time_ms + 1)
        return key

    def add(self, point: CheckPoint) -> None:
        """A pop, or the same check point once more, later in the journal."""
        known = self._by_key.get(point.key)
        if known is not None:
            known.place = point.place
            self.note(known)
            self.ack(known, [known.offsets[n] for n in _indexes(point.acked_bits, known)])
            return
        if not point.is_open:
            return
        self._by_key[point.key] = point
        self.note(point)
        self._push(point)
        self._count(point.key.queue, point.open_bits.bit_count())

    def ack(self, point: CheckPoint, offsets: Sequence[int]) -> int:
        """These are not out any more; how many of them were."""
        open_count = point.open_bits.bit_count()
        # Most are acknowledged together, and follow one another: two ranges are compared at once.
        if offsets == point.offsets:
            point.open_bits = 0
        else:
            for offset in offsets:
                index = point.index_of(offset)
                if index is not None:
                    point.open_bits ^= 1 << index
        count = open_count - point.open_bits.bit_count()
        if count:
            self._count(point.key.queue, -count)
            if not point.is_open:
                del self._by_key[point.key]
                self._trim()
        return count

    def first_due(self, now_ms: int) -> CheckPoint | None:
        """The one that is due for longest; it stays until its messages are acknowledged."""
        point = self._first()
        return point if point is not None and point.due_ms <= now_ms else None

    @property
    def next_due_ms(self) -> int | None:
        """None if nothing is out."""
        point = self._first()
        return None if point is None else point.due_ms

    def postpone(self, point: CheckPoint, due_ms: int) -> None:
        """It cannot be redelivered now."""
        point.due_ms = due_ms
        self._push(point)

    def note(self, noted: Noted) -> None:
        """It is open, and its place is later than all others of that queue of the journal."""
        queue_id, offset = noted.place
        self._noted.setdefault(queue_id, deque()).append((offset, noted))

    def oldest(self, queue_id: int) -> Noted | None:
        """The first that is open in this queue of the journal."""
        entries = self._noted.get(queue_id, ())
        while entries:
            offset, noted = entries[0]
            if noted.is_open and noted.place == (queue_id, offset):
                return noted
            entries.popleft()
        return None

    def points(self) -> list[CheckPoint]:
        """All that are open."""
        return list(self._by_key.values())

    def _push(self, point: CheckPoint) -> None:
        self._number += 1
        heappush(self._due, (point.due_ms, self._number, point))

    def _first(self) -> CheckPoint | None:
        while self._due:
            due_ms, _, point = self._due[0]
            if point.is_open and point.due_ms == due_ms:
                return point
            heappop(self._due)
        return None

    def _trim(self) -> None:
        if len(self._due) > max(_TRIM_COUNT_MIN, 2 * len(self._by_key)):
            self._due = [
                entry for entry in self._due if entry[2].is_open and entry[2].due_ms == entry[0]
            ]
            heapify(self._due)

    def _count(self, queue: QueueOfGroup, change: int) -> None:
        self.count += change
        counts = self.counts
        counts[queue] += change
        if not counts[queue]:
            del counts[queue]


def _indexes(bits: int, point: CheckPoint) -> list[int]:
    return [index for index in range(len(point.offsets)) if bits >> index & 1]
