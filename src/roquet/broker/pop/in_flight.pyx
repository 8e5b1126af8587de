# cython: boundscheck=False, wraparound=False
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

cimport cython

from roquet.protocol.binary cimport int64_t

from collections import Counter, deque
from heapq import heapify, heappop, heappush
from typing import NamedTuple

cdef enum:
    # Fewer entries than this are not worth to be gone through.
    _TRIM_COUNT_MIN = 1024


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


@cython.final
cdef class CheckPoint:
    """Bit n of `open_bits` is set while the message at `offsets[n]` is out."""

    def __init__(
        self,
        key not None,
        offsets not None,
        invisible_ms not None,
        *,
        due_ms not None,
        place not None,
        bint is_suspended=False,
        acked_bits=0,
    ):
        self.key = key
        self.offsets = offsets
        self.invisible_ms = invisible_ms
        self.due_ms = due_ms
        self.journal_queue_id, self.journal_offset = place
        self.is_suspended = is_suspended
        self.count = len(offsets)
        self.open_bits = _first_bits(self.count) & ~acked_bits

    @property
    def place(self):
        return Place(self.journal_queue_id, self.journal_offset)

    @property
    def is_open(self):
        return self.open_bits != 0

    @property
    def open_offsets(self):
        bits = self.open_bits
        return [offset for index, offset in enumerate(self.offsets) if bits >> index & 1]

    @property
    def acked_bits(self):
        return _first_bits(self.count) & ~self.open_bits

    def index_of(self, offset):
        """Of a message that is out; None if it is not, or never was."""
        offsets = self.offsets
        index = offset - offsets[0]
        # Without a filter they follow one another.
        if not (0 <= index < self.count and offsets[index] == offset):
            if offset not in offsets:
                return None
            index = offsets.index(offset)
        return index if self.open_bits >> index & 1 else None

    def has_any_of(self, offsets):
        """Whether one of these is out."""
        return self.is_any_open(offsets)

    cdef bint is_any_open(self, offsets) except -1:
        if offsets == self.offsets:
            return self.open_bits != 0
        return any([self.index_of(offset) is not None for offset in offsets])


cdef CheckPoint new_point(
    key, offsets, invisible_ms, due_ms, int64_t journal_queue_id, int64_t journal_offset
):
    """One of which nothing is acknowledged, made without a look at arguments by name."""
    cdef CheckPoint point = CheckPoint.__new__(CheckPoint)
    point.key = key
    point.offsets = offsets
    point.invisible_ms = invisible_ms
    point.due_ms = due_ms
    point.journal_queue_id = journal_queue_id
    point.journal_offset = journal_offset
    point.count = len(offsets)
    point.open_bits = _first_bits(point.count)
    return point


@cython.final
cdef class InFlight:
    """Belongs to the event loop."""

    def __init__(self):
        self._by_key = {}
        # The number keeps check points of one time in their order, and from being compared.
        self._due = []
        self._number = 0
        self._noted = {}
        # Messages that are out.
        self.counts = Counter()
        self.count = 0

    def __len__(self):
        """How many check points are open."""
        return len(self._by_key)

    cpdef CheckPoint find(self, key):
        return self._by_key.get(key)

    def free_key(self, key):
        """The same, or a little later: a message may be changed twice in one millisecond, and a
        group that was sent back may pop it again."""
        while key in self._by_key:
            key = key._replace(pop_time_ms=key.pop_time_ms + 1)
        return key

    cpdef add(self, CheckPoint point):
        """A pop, or the same check point once more, later in the journal."""
        cdef CheckPoint known = self._by_key.get(point.key)
        if known is not None:
            known.journal_queue_id = point.journal_queue_id
            known.journal_offset = point.journal_offset
            self._note(known.journal_queue_id, known.journal_offset, known)
            self.ack(known, [known.offsets[n] for n in _indexes(point.acked_bits, known)])
        elif point.open_bits:
            self._by_key[point.key] = point
            self._note(point.journal_queue_id, point.journal_offset, point)
            self._push(point)
            self._count(point.key[0], point.open_bits.bit_count())

    cpdef int64_t ack(self, CheckPoint point, offsets) except -1:
        """These are not out any more; how many of them were."""
        cdef int64_t count = 0
        # Most are acknowledged together, and follow one another: two ranges are compared at once.
        if offsets == point.offsets:
            count = point.open_bits.bit_count()
            point.open_bits = 0
        else:
            for offset in offsets:
                index = point.index_of(offset)
                if index is not None:
                    point.open_bits ^= 1 << index
                    count += 1
        if count:
            self._count(point.key[0], -count)
            if not point.open_bits:
                del self._by_key[point.key]
                self._trim()
        return count

    def first_due(self, now_ms):
        """The one that is due for longest; it stays until its messages are acknowledged."""
        cdef CheckPoint point = self.first()
        return point if point is not None and point.due_ms <= now_ms else None

    @property
    def next_due_ms(self):
        """None if nothing is out."""
        cdef CheckPoint point = self.first()
        return None if point is None else point.due_ms

    def postpone(self, CheckPoint point not None, due_ms not None):
        """It cannot be redelivered now."""
        point.due_ms = due_ms
        self._push(point)

    def note(self, noted):
        """It is open, and its place is later than all others of that queue of the journal."""
        queue_id, offset = noted.place
        self._note(queue_id, offset, noted)

    def oldest(self, queue_id):
        """The first that is open in this queue of the journal."""
        entries = self._noted.get(queue_id)
        while entries:
            offset, noted = entries[0]
            if noted.is_open and noted.place == (queue_id, offset):
                return noted
            entries.popleft()
        return None

    def points(self):
        """All that are open."""
        return list(self._by_key.values())

    cdef int _note(self, int64_t queue_id, int64_t offset, noted) except -1:
        entries = self._noted.get(queue_id)
        if entries is None:
            entries = self._noted[queue_id] = deque()
        entries.append((offset, noted))
        return 0

    cdef int _push(self, CheckPoint point) except -1:
        self._number += 1
        heappush(self._due, (point.due_ms, self._number, point))
        return 0

    cdef CheckPoint first(self):
        """The one that is due first."""
        cdef CheckPoint point
        cdef tuple entry
        while self._due:
            entry = self._due[0]
            point = entry[2]
            if point.open_bits and point.due_ms == entry[0]:
                return point
            heappop(self._due)
        return None

    cdef int _trim(self) except -1:
        cdef CheckPoint point
        cdef Py_ssize_t count_max = max(_TRIM_COUNT_MIN, 2 * len(self._by_key))
        if len(self._due) <= count_max:
            return 0
        kept = []
        for entry in self._due:
            point = entry[2]
            if point.open_bits and point.due_ms == entry[0]:
                kept.append(entry)
        self._due = kept
        heapify(kept)
        return 0

    cdef int _count(self, queue, int64_t change) except -1:
        cdef int64_t count = self.counts.get(queue, 0) + change
        self.count += change
        if count:
            self.counts[queue] = count
        else:
            self.counts.pop(queue, None)
        return 0


cdef object _first_bits(Py_ssize_t count):
    """As many as there are: as C integers, 32 of them would be none."""
    return (<object>1 << count) - 1


cdef list _indexes(object bits, CheckPoint point):
    return [index for index in range(point.count) if bits >> index & 1]
