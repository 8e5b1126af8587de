# cython: boundscheck=False, wraparound=False
"""AckMessage as most clients call it: messages whose time is not over, of a topic that is there.

They are written with all others of the turn (`ack_turn.py`), and answered after that. What it does
is what `acking.py` does, which has every call that is left.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

from roquet.broker.fast_path.sends cimport is_same
from roquet.grpc.ack_request cimport AckedMessage, AckRequest, read_ack_request
from roquet.grpc.http2 cimport Ending, Http2Session
from roquet.grpc.wire_format cimport FIELD_HEAD_SIZE_MAX, put_head, put_text
from roquet.protocol.binary cimport Span, bytes_of, put_int32, span_of, uint8_t

from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.grpc.calls import (
    HEADERS,
    MESSAGE_HEAD_SIZE,
    OK,
    GrpcStatus,
    status_start,
    trailers_of,
    with_head,
)
from roquet.grpc.codes import Code, status_of
from roquet.grpc.in_broker.ack_turn import statuses_of
from roquet.grpc.in_broker.routing import found_topic
from roquet.grpc.names import group_name
from roquet.grpc.receives import ack_answer
from roquet.grpc.schema import SERVICE, pb
from roquet.net.errors import Refused

cdef enum:
    # Groups times topics, of which honest brokers have fewer.
    _KNOWN_COUNT_MAX = 20_000

cdef Py_ssize_t _HEAD_SIZE = MESSAGE_HEAD_SIZE
cdef str _METHOD = f"{SERVICE}AckMessage"
# What PopKey does, without a call of Python.
cdef object _new_tuple = tuple.__new__
cdef bytes _STATUS = status_of(Code.OK).SerializeToString()


@cython.final
cdef class GroupDecision:
    """What was decided about the acks of one group for one topic, and by what."""


@cython.final
cdef class FastAck:
    """A call whose acks are not written yet; an `Ack` of the turn."""

    def answer(self, refused, late):
        """With the status of each pop that was refused, or `late` instead of success."""
        answer, ending = self._answer, self._ending
        if late is not None or (refused and not refused.keys().isdisjoint(self._keys)):
            request = pb.AckMessageRequest.FromString(self._request)
            data = ack_answer(request, statuses_of(self._keys, refused, late)).SerializeToString()
            ending = ending.other((_METHOD, status_start(data)))
            answer = with_head(data)
        self._session.answer(self._stream_id, HEADERS, answer, OK, ending)
        self._connection.flush_soon()

    def give_up(self, text):
        """The broker is gone."""
        ending = self._ending.other((_METHOD, GrpcStatus.UNAVAILABLE))
        trailers = trailers_of(GrpcStatus.UNAVAILABLE, text)
        self._session.answer(self._stream_id, HEADERS, b"", trailers, ending)
        self._connection.flush_soon()


@cython.final
cdef class FastAcks:
    """Those of one broker, from whatever connection. `ending` counts them when they are over."""

    def __init__(self, broker, turn, clients, Ending ending not None):
        self._broker = broker
        self._find_topic = broker.tables.topics.find
        self._turn = turn
        self._clients = clients
        self._ending = ending
        self._groups = {}
        self._scratch = Scratch()

    cdef void begin(self, int64_t now_ms) noexcept:
        """The time of acks that came together."""
        self._now_ms = now_ms

    cdef bint take(
        self,
        object connection,
        Http2Session session,
        int32_t stream_id,
        Span client_id,
        Span request,
    ) except -1:
        """Whether it is answered with its turn; if not, nothing has happened."""
        cdef AckRequest found
        cdef const AckedMessage* ack
        cdef GroupDecision group
        cdef FastAck answered
        cdef int64_t now_ms = self._now_ms
        cdef Py_ssize_t index
        if self._broker.config.is_slave or not read_ack_request(request, &found):
            return False
        for index in range(found.count):
            ack = &found.acks[index]
            if ack.pop_time_ms > now_ms or ack.pop_time_ms + ack.invisible_ms <= now_ms:
                return False
        group = self._group(found.group, found.topic)
        if group is None or self._holds(client_id):
            return False
        answered = FastAck()
        answered._connection = connection
        answered._session = session
        answered._ending = self._ending
        answered._stream_id = stream_id
        answered._request = bytes_of(request)
        answered._answer = self._answer(&found)
        answered._keys = []
        for index in range(found.count):
            ack = &found.acks[index]
            queue = group.queues.get(ack.queue_id)
            if queue is None:
                queue = QueueOfGroup(group.name, group.topic, ack.queue_id)
                if ack.queue_id < <int64_t>group.settings.queue_count:
                    group.queues[ack.queue_id] = queue
            key = _new_tuple(PopKey, (queue, ack.start_offset, ack.pop_time_ms))
            answered._keys.append(self._turn.join(key, ack.offset))
        self._turn.add(answered, 0)
        return True

    cdef GroupDecision _group(self, Span group, Span topic):
        """What holds for it now; None if its acks are left."""
        cdef GroupDecision known = self._last_group
        if (
            known is None
            or not is_same(known.encoded_name, group)
            or not is_same(known.encoded_topic, topic)
        ):
            known = self._groups.get((bytes_of(group), bytes_of(topic)))
        if known is None or self._find_topic(known.topic) is not known.settings:
            known = self._decide(bytes_of(group), bytes_of(topic))
        self._last_group = known
        return known

    cdef GroupDecision _decide(self, bytes group, bytes topic):
        cdef tuple key = (group, topic)
        cdef GroupDecision known
        self._groups.pop(key, None)
        try:
            name = group_name(pb.Resource(name=group.decode()))
            settings = found_topic(self._broker, pb.Resource(name=topic.decode()))
        except Refused:
            return None
        known = GroupDecision()
        known.encoded_name, known.encoded_topic = key
        known.settings = settings
        known.name = name
        known.topic = settings.topic_name
        known.queues = {}
        if len(self._groups) >= _KNOWN_COUNT_MAX:
            self._groups.clear()
        self._groups[key] = known
        return known

    cdef bint _holds(self, Span client_id) except -1:
        """Whether the client has messages for as long as it lives, which are to be forgotten."""
        return self._clients.holds(client_id.start[: client_id.size].decode("latin-1"))

    cdef bytes _answer(self, const AckRequest* found):
        """An AckMessageResponse with success for all, as it goes into DATA."""
        cdef Span status = span_of(_STATUS)
        cdef Py_ssize_t size = _HEAD_SIZE + status.size + FIELD_HEAD_SIZE_MAX
        cdef const AckedMessage* ack
        cdef Py_ssize_t index
        cdef uint8_t* end
        cdef uint8_t* at
        cdef uint8_t* before
        for index in range(found.count):
            ack = &found.acks[index]
            size += status.size + ack.message_id.size + ack.handle.size + 4 * FIELD_HEAD_SIZE_MAX
        end = at = self._scratch.room(size) + size
        for index in range(found.count - 1, -1, -1):
            ack = &found.acks[index]
            before = at
            at = put_text(put_text(at, 3, status), 2, ack.handle)
            if ack.message_id.size:
                at = put_text(at, 1, ack.message_id)
            at = put_head(at, 2, before)
        at = put_text(at, 1, status)
        size = end - at
        at -= _HEAD_SIZE
        at[0] = 0
        put_int32(at + 1, size)
        return PyBytes_FromStringAndSize(<const char*>at, end - at)
