# cython: boundscheck=False, wraparound=False
"""Calls that leave nothing to decide, told from all others by their headers and their bytes.

Each kind has a module, which leaves a call as it is unless it is the usual one; then it becomes a
stream like all others, and `methods.py` finds who answers it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from roquet.broker.fast_path.sends cimport is_same
from roquet.grpc.http2 cimport Ending, Http2Session, Request
from roquet.grpc.in_broker.fast_acks cimport FastAcks
from roquet.grpc.in_broker.fast_sends cimport FastSends
from roquet.protocol.binary cimport Span, get_uint32

from roquet.grpc.calls import MESSAGE_HEAD_SIZE, status_start
from roquet.grpc.codes import Code, status_of
from roquet.grpc.http2 import REQUEST
from roquet.grpc.schema import SERVICE, pb

cdef Py_ssize_t _HEAD_SIZE = MESSAGE_HEAD_SIZE
cdef int _REQUEST = REQUEST
cdef str _SEND = f"{SERVICE}SendMessage"
cdef str _ACK = f"{SERVICE}AckMessage"
cdef bytes _SEND_PATH = _SEND.encode()
cdef bytes _ACK_PATH = _ACK.encode()
# The first field of each answer is its status.
cdef bytes _OK = status_start(pb.SendMessageResponse(status=status_of(Code.OK)).SerializeToString())


@cython.final
cdef class FastCalls:
    """Those of the endpoint of one broker, of what came together, which `begin` starts."""

    cdef readonly object broker
    cdef object _begun, _clock
    cdef FastSends _sends
    cdef FastAcks _acks
    cdef bint _takes_sends
    cdef Py_ssize_t _message_size_max

    def __init__(self, broker, figures, ack_turn, clients):
        self.broker = broker
        self._begun = figures.begun
        self._clock = broker.clock
        self._sends = FastSends(broker, Ending(figures.ended, (_SEND, _OK), (_SEND, None)))
        self._acks = FastAcks(
            broker, ack_turn, clients, Ending(figures.ended, (_ACK, _OK), (_ACK, None))
        )

    def begin(self, connection):
        cdef int64_t now_ms = self._clock.now_ms()
        self._message_size_max = connection.limits.message_size_max
        self._takes_sends = self._sends.begin(connection.peer_host, now_ms)
        self._acks.begin(now_ms)

    def take(
        self, connection, Http2Session session not None, list events not None, Py_ssize_t start
    ):
        """See `FastCalls` of `connection.py`."""
        cdef tuple event
        cdef Py_ssize_t at = start
        while at < len(events):
            event = events[at]
            if <int>event[0] != _REQUEST or not self._take(
                connection, session, event[1], event[2]
            ):
                break
            at += 1
        return at

    cdef bint _take(
        self, object connection, Http2Session session, int32_t stream_id, Request request
    ) except -1:
        cdef Span message, path
        if (
            PyBytes_GET_SIZE(request.data) > self._message_size_max
            or not request.headers.is_plain_call()
            or not _is_whole(request.data)
        ):
            return False
        message = Span(
            <const uint8_t*>PyBytes_AS_STRING(request.data) + _HEAD_SIZE,
            PyBytes_GET_SIZE(request.data) - _HEAD_SIZE,
        )
        path = request.headers.path()
        if is_same(_SEND_PATH, path):
            if not self._takes_sends or not self._sends.take(session, stream_id, message):
                return False
            self._begun[_SEND] += 1
            return True
        if not is_same(_ACK_PATH, path) or not self._acks.take(
            connection, session, stream_id, request.headers.client_id(), message
        ):
            return False
        self._begun[_ACK] += 1
        return True


cdef bint _is_whole(bytes data) noexcept:
    """Whether it is one message that is not compressed."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data) - _HEAD_SIZE
    return size >= 0 and not start[0] and get_uint32(start + 1) == size
