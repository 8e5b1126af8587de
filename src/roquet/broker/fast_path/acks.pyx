# cython: boundscheck=False, wraparound=False
"""Acks of single messages (200051) on the fast path: those of one check point that come one after the
other are a run, which waits for the end of the turn as one (`pop/ack_turn.py`).

Left to the handler are acks of ordered pops, and those that are refused.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.broker.fast_path.acked_header cimport Acked, read_acked
from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.success_reply cimport SuccessReply
from roquet.protocol.binary cimport Span, bytes_of, int64_t

from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.net.router import encode_answer
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID

cdef int64_t _ORDERED = ORDERED_QUEUE_ID
cdef int _ACK = RequestCode.ACK_MESSAGE
cdef int _SUCCESS = ResponseCode.SUCCESS


@cython.final
cdef class AckRun:
    """Acks of one connection for one check point, in the order in which they came."""

    def encoded(self, reply):
        """To each of them."""
        if reply.code == _SUCCESS:
            return self.frames
        return b"".join(
            [encode_answer(Command(_ACK, opaque, 0), reply) for opaque in self.opaques]
        )

    cdef bint goes_on_with(self, const Acked* acked) noexcept:
        return (
            acked.queue_id == self.first.queue_id
            and acked.start_offset == self.first.start_offset
            and acked.pop_time_ms == self.first.pop_time_ms
            and acked.revive_queue_id == self.first.revive_queue_id
            and _is_same(self.group, acked.group)
            and _is_same(self.topic, acked.topic)
        )


@cython.final
cdef class FastAcks:
    """Those of one broker, from whatever connection."""

    def __init__(self, broker):
        self._broker = broker
        self._ack_turn = broker.waiting.ack_turn
        self._find_topic = broker.tables.topics.find
        self._reads = broker.store.fast_reads
        self._success = SuccessReply()
        self._replies = ReplyBuffer()

    cdef bint take(self, connection, const ScannedHeader* header) except -1:
        """Whether it is answered at the end of the turn; if not, nothing has happened."""
        cdef Acked acked
        cdef Py_ssize_t size
        cdef AckRun run = self._run
        if not read_acked(header, &acked):
            return False
        if run is None or not run.goes_on_with(&acked):
            self.finish()
            run = self._start(connection, &acked)
        if (
            run is None
            or not self._room
            or not run.bounds.min_offset <= acked.offset < run.bounds.max_offset
        ):
            return False
        self._run = run
        self._room -= 1
        run.offsets.append(acked.offset)
        run.opaques.append(header.opaque)
        size = self._success.size_for(header.opaque)
        self._success.put(self._replies.room(size), header.opaque)
        self._replies.add(size)
        return True

    cdef AckRun _start(self, connection, const Acked* acked):
        """None if such acks are left."""
        cdef AckRun run
        if self._broker.config.is_slave or acked.revive_queue_id == _ORDERED:
            return None
        run = AckRun()
        run.first = acked[0]
        run.group = bytes_of(acked.group)
        run.topic = bytes_of(acked.topic)
        topic = run.topic.decode()
        settings = self._find_topic(topic)
        if settings is None or not 0 <= acked.queue_id < settings.queue_count:
            return None
        self._reads.find_bounds(run.topic, acked.queue_id, &run.bounds)
        queue = QueueOfGroup(run.group.decode(), topic, acked.queue_id)
        run.key = PopKey(queue, acked.start_offset, acked.pop_time_ms)
        run.connection = connection
        run.offsets = []
        run.opaques = []
        self._room = max(0, connection.room_to_defer)
        return run

    cdef Py_ssize_t finish(self) except -1:
        """Hands over what was taken: something else follows. How many they are."""
        cdef AckRun run = self._run
        if run is None:
            return 0
        self._run = None
        run.frames = self._replies.take_all()
        self._ack_turn.add_run(run.connection, run.key, run.offsets, run.encoded)
        return len(run.offsets)


cdef inline bint _is_same(bytes known, Span text) noexcept:
    return PyBytes_GET_SIZE(known) == text.size and not memcmp(
        PyBytes_AS_STRING(known), text.start, <size_t>text.size
    )
