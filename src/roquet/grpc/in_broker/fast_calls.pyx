# cython: boundscheck=False, wraparound=False
"""Calls that leave nothing to decide, told from all others by their headers and their bytes.

Each kind has a module, which leaves a call as it is unless it is the usual one; then it becomes a
stream like all others, and `methods.py` finds who answers it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t

from roquet.broker.fast_path.sends cimport is_same
from roquet.grpc.http2 cimport Ending, Http2Session, Request
from roquet.grpc.in_broker.fast_acks cimport FastAcks
from roquet.grpc.in_broker.fast_sends cimport FastSends
from roquet.protocol.binary cimport Span, get_uint32

from roquet.grpc.calls import MESSAGE_HEAD_SIZE, status_start
from roquet.grpc.codes import Code, status_of
from roquet.grpc.schema import SERVICE, pb

cdef Py_ssize_t _HEAD_SIZE = MESSAGE_HEAD_SIZE
cdef str _SEND = f"{SERVICE}SendMessage"
cdef str _ACK = f"{SERVICE}AckMessage"
cdef bytes _SEND_PATH = _SEND.encode()
cdef bytes _ACK_PATH = _ACK.encode()
# The first field of each answer is its status.
cdef bytes _OK = status_start(pb.SendMessageResponse(status=status_of(Code.OK)).SerializeToString())


@cython.final
cdef class FastCalls:
    """Those of the endpoint of one broker, in the turn of the loop that `begin` starts."""

    cdef readonly object broker
    cdef object _begun
    cdef FastSends _sends
    cdef FastAcks _acks
    cdef bint _takes_sends

    def __init__(self, broker, figures, ack_turn, clients):
        self.broker = broker
        self._begun = figures.begun
        self._sends = FastSends(broker, Ending(figures.ended, (_SEND, _OK), (_SEND, None)))
        self._acks = FastAcks(
            broker, ack_turn, clients, Ending(figures.ended, (_ACK, _OK), (_ACK, None))
        )

    def begin(self, connection):
        self._takes_sends = self._sends.begin(connection.peer_host)

    def take(self, connection, Http2Session session not None, int32_t stream_id, Request request not None):
        """See `FastCalls` of `connection.py`."""
        cdef Span message, path
        if not request.headers.is_plain_call() or not _is_whole(request.data):
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
