# cython: boundscheck=False, wraparound=False
"""Acks of many messages at once (200151) on the fast path: what they mean is said in `pop/acking.py`.

Left to the handler are acks that are refused, and those of ordered pops.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.success_reply cimport SuccessReply
from roquet.broker.pop.fast_notes cimport FastNotes
from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    int64_t,
    uint8_t,
    uint64_t,
)
from roquet.store.reading.fast_reads cimport QueueBounds

from roquet.broker.pop.acking import acknowledge_all
from roquet.net.errors import Refused
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.pop import BatchAckRequest
from roquet.protocol.errors import BadBody
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID

cdef enum:
    # Of the bits of a run: more than messages are popped at once.
    _RUN_SIZE_MAX = 7

cdef int _ORDERED = ORDERED_QUEUE_ID


@cython.final
cdef class FastBatchAcks:
    """Those of one broker, from whatever connection."""

    def __init__(self, broker):
        self._broker = broker
        self._ack_turn = broker.waiting.ack_turn
        self._journal = broker.waiting.pops
        self._reads = broker.store.fast_reads
        self._success = SuccessReply()
        self._is_sync = broker.messages.acks.is_awaited

    cdef Py_ssize_t take(self, const ScannedHeader* header, Span body, list replies) except -2:
        """How many bytes answer it; -1 if it is left: then nothing has happened that would not."""
        cdef bint is_any = False
        if self._is_sync or self._broker.config.is_slave:
            return -1
        try:
            acks = read_body(BatchAckRequest, bytes_of(body)).acks
            for ack in acks:
                if ack.revive_queue_id == _ORDERED:
                    return -1
            self._ack_turn.flush()
            for ack in acks:
                if self._note(ack) or acknowledge_all(self._broker, (ack,)):
                    is_any = True
        except (BadBody, Refused):
            return -1
        if not is_any:
            return -1
        reply = self._reply(header.opaque)
        replies.append(reply)
        return PyBytes_GET_SIZE(reply)

    cdef bint _note(self, ack) except -1:
        """Whether it is of messages that follow one another, and noted; if not, nothing has happened."""
        cdef FastNotes notes = self._journal.fast
        cdef QueueBounds bounds
        cdef int64_t start = ack.start_offset
        cdef int64_t count = _run_of(ack.acked)
        if notes is None or not count:
            return False
        self._reads.find_bounds(ack.topic.encode(), ack.queue_id, &bounds)
        if not bounds.min_offset <= start <= bounds.max_offset - count:
            return False
        key = (ack.consumer_group, ack.topic, ack.queue_id), start, ack.pop_time
        return notes.note_acks(key, range(start, start + count)) >= 0

    cdef bytes _reply(self, int64_t opaque):
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, self._success.size_for(opaque))
        self._success.put(<uint8_t*>PyBytes_AS_STRING(frame), opaque)
        return frame


cdef int64_t _run_of(bytes acked):
    """How many bits are set, if these are the first of all; else 0."""
    cdef const uint8_t* byte = <const uint8_t*>PyBytes_AS_STRING(acked)
    cdef uint64_t bits = 0
    cdef int64_t count = 0
    cdef Py_ssize_t index
    if PyBytes_GET_SIZE(acked) > _RUN_SIZE_MAX:
        return 0
    for index in range(PyBytes_GET_SIZE(acked)):
        bits |= <uint64_t>byte[index] << 8 * index
    if bits & bits + 1:
        return 0
    while bits >> count:
        count += 1
    return count
