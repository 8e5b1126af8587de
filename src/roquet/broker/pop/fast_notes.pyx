"""Pops and acks as nearly all are: their records go where there is room.

What is noted is what `PopJournal` would note, which has all other cases: a record of another kind or
size, a file that is full, a refusal.
"""

cimport cython

from roquet.broker.pop.in_flight cimport CheckPoint, InFlight, new_point
from roquet.broker.pop.record_texts cimport RecordTexts
from roquet.protocol.binary cimport int64_t

from roquet.broker.pop.journal_writing import JOURNAL_QUEUE_ID

cdef int64_t _JOURNAL_QUEUE_ID = JOURNAL_QUEUE_ID


@cython.final
cdef class FastNotes:
    """Belongs to the event loop. What it changes is the journal's."""

    def __init__(
        self,
        RecordTexts texts not None,
        InFlight in_flight not None,
        dict next_offsets not None,
        set popped not None,
        clock,
        wake_before,
    ):
        self._texts = texts
        self.in_flight = in_flight
        self._next_offsets = next_offsets
        self._popped = popped
        self._clock = clock
        self._wake_before = wake_before

    cpdef int64_t note_pop(
        self, key, offsets, int64_t invisible_ms, int64_t next_offset, int64_t now_ms
    ) except -2:
        """The end of the log after the record; -1 if it is left: then nothing has happened."""
        cdef CheckPoint point
        cdef int64_t offset = self._texts.put_pop(
            _JOURNAL_QUEUE_ID, key, offsets, invisible_ms, next_offset, now_ms
        )
        if offset < 0:
            return -1
        self._pass(_JOURNAL_QUEUE_ID, offset)
        self._popped.add(key[0])
        due_ms = key[2] + invisible_ms - self._clock.jumped_ms()
        point = new_point(key, offsets, invisible_ms, due_ms, _JOURNAL_QUEUE_ID, offset)
        self.in_flight.add(point)
        if self.in_flight.first() is point:
            self._wake_before(due_ms)
        return self._texts.appends.log.end

    cpdef int64_t note_acks(self, key, offsets) except -2:
        """The same for messages that are out no more."""
        cdef CheckPoint point = self.in_flight.find(key)
        cdef int64_t offset
        if type(offsets) is list:
            offsets = _run_of(offsets)
        if point is None or not point.is_any_open(offsets):
            return self._texts.appends.log.end
        offset = self._texts.put_acks(
            point.journal_queue_id, point.key, offsets, self._clock.now_ms()
        )
        if offset < 0:
            return -1
        self._pass(point.journal_queue_id, offset)
        self.in_flight.ack(point, offsets)
        return self._texts.appends.log.end

    cdef int _pass(self, int64_t journal_queue_id, int64_t offset) except -1:
        """This record need not be read any more: it was written by this process."""
        cdef object next_offset = self._next_offsets.get(journal_queue_id, 0)
        if offset == next_offset:
            self._next_offsets[journal_queue_id] = offset + 1
        return 0


cdef object _run_of(list offsets):
    """The same as a range, if they follow one another: it is compared and written at once."""
    cdef int64_t next_offset
    if not offsets:
        return offsets
    next_offset = offsets[0]
    for offset in offsets:
        if offset != next_offset:
            return offsets
        next_offset += 1
    return range(offsets[0], next_offset)
