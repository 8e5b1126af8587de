# cython: boundscheck=False, wraparound=False
"""What a connection asks before its router: common requests are answered where their frames lie."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING

from roquet.broker.fast_path.header_scan cimport ScannedHeader, scan_header
from roquet.broker.fast_path.acks cimport FastAcks
from roquet.broker.fast_path.batch_acks cimport FastBatchAcks
from roquet.broker.fast_path.pops cimport FastPops
from roquet.broker.fast_path.pulls cimport FastPulls
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.send_backs cimport FastSendBacks
from roquet.broker.fast_path.sends cimport FastSends
from roquet.broker.tables.tally cimport PathCounts
from roquet.protocol.binary cimport Span, get_int32, int64_t, uint8_t
from roquet.protocol.frame_decoder cimport WholeFrames

cdef enum:
    _PREFIX_SIZE = 8
    # The byte of the serializer is 0 for JSON: with another one this is no size of ours, either.
    _HEADER_SIZE_MAX = 65_535
    _SEND = 310
    _SEND_BY_NAMES = 10
    _SEND_BATCH = 320
    _SEND_BACK = 36
    _PULL = 11
    _LITE_PULL = 361
    _POP = 200_050
    _ACK = 200_051
    _BATCH_ACK = 200_151


@cython.final
cdef class FastPath:
    """That of one listener: not all of them serve pulls."""

    cdef FastSends _sends
    cdef FastSendBacks _send_backs
    cdef FastPulls _pulls
    cdef FastPops _pops
    cdef FastAcks _single_acks
    cdef FastBatchAcks _batch_acks
    cdef PathCounts _send_paths, _pull_paths, _pop_paths, _ack_paths, _batch_ack_paths
    # Replies to sends that are not written yet.
    cdef ReplyBuffer _stored
    # Those of them that answer send-backs.
    cdef Py_ssize_t _back_count
    cdef object _clock, _acks
    # None if sends may wait as long as they like.
    cdef object _late_sends
    cdef bint _is_sync

    def __init__(self, broker, *, bint has_pulls):
        self._clock = broker.clock
        self._acks = broker.messages.acks
        late_sends = broker.messages.late_sends
        self._late_sends = late_sends if late_sends.is_watched else None
        self._is_sync = broker.messages.acks.is_awaited
        self._sends = FastSends(broker)
        self._send_backs = FastSendBacks(broker, self._sends)
        self._pulls = FastPulls(broker) if has_pulls else None
        self._pops = FastPops(broker) if has_pulls else None
        self._single_acks = FastAcks(broker) if has_pulls else None
        self._batch_acks = FastBatchAcks(broker) if has_pulls else None
        self._pop_paths = broker.statistics.pops
        self._ack_paths = broker.statistics.acks
        self._batch_ack_paths = broker.statistics.batch_acks
        self._send_paths = broker.statistics.sends
        self._pull_paths = broker.statistics.pulls
        self._stored = ReplyBuffer()

    def take(
        self, connection, WholeFrames frames not None, list replies not None, Py_ssize_t size_max
    ):
        """See `FastPath` of `net/connection.py`."""
        cdef ScannedHeader header
        cdef Span body
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t reply_size
        cdef Py_ssize_t room = -1  # for sends
        if self._pulls is not None:
            self._pulls.begin()
        try:
            while frames.position < frames.end and size + self._stored.size < size_max:
                body = _scan(frames, &header)
                if body.start is NULL:
                    break
                if self._single_acks is not None and header.code != _ACK:
                    self._single_acks.finish()
                if (
                    header.code == _SEND
                    or header.code == _SEND_BATCH
                    or header.code == _SEND_BY_NAMES
                ):
                    if room < 0:
                        room = self._prepare_sends(connection)
                    if not room or not self._sends.take(&header, body, self._stored):
                        break
                    room -= self._is_sync
                elif header.code == _SEND_BACK:
                    if room < 0:
                        room = self._prepare_sends(connection)
                    if not room or not self._send_backs.take(&header, self._stored):
                        break
                    self._back_count += 1
                elif self._pulls is not None and (header.code == _PULL or header.code == _LITE_PULL):
                    # Replies go out in the order of their requests.
                    size += self._hand_over(connection, replies)
                    reply_size = self._pulls.take(connection, &header, replies)
                    if reply_size < 0:
                        break
                    size += reply_size
                    self._pull_paths.fast += 1
                elif self._pops is not None and header.code == _POP:
                    size += self._hand_over(connection, replies)
                    reply_size = self._pops.take(&header, replies)
                    if reply_size < 0:
                        break
                    size += reply_size
                    self._pop_paths.fast += 1
                elif self._single_acks is not None and header.code == _ACK:
                    # Sends before them and after them count against the same limit.
                    size += self._hand_over(connection, replies)
                    room = -1
                    if not self._single_acks.take(connection, &header):
                        break
                    self._ack_paths.fast += 1
                elif self._batch_acks is not None and header.code == _BATCH_ACK:
                    size += self._hand_over(connection, replies)
                    reply_size = self._batch_acks.take(&header, body, replies)
                    if reply_size < 0:
                        break
                    size += reply_size
                    self._batch_ack_paths.fast += 1
                else:
                    break
                _pass(frames)
        finally:
            # What is stored is answered, whatever became of the frame after it.
            size += self._hand_over(connection, replies)
            if self._single_acks is not None:
                self._single_acks.finish()
        return size

    cdef Py_ssize_t _prepare_sends(self, connection) except -1:
        """How many of them may come now; with sync flush they all have to wait for the disk."""
        if not self._sends.is_open() or (
            self._late_sends is not None and self._late_sends.is_late()
        ):
            return 0
        # One time for all of a wake-up, which takes less than a millisecond, the unit of its timestamps.
        self._sends.begin(connection.peer_host, self._clock.now_ms())
        return max(0, connection.room_to_defer) if self._is_sync else 1

    cdef Py_ssize_t _hand_over(self, connection, list replies) except -1:
        """Replies to sends go out now, or when what they speak of is safe; the size of the first."""
        cdef Py_ssize_t size = self._stored.size
        cdef Py_ssize_t count = self._stored.count
        if not count:
            return 0
        end = self._sends.finish()
        self._send_paths.fast += count - self._back_count
        self._back_count = 0
        frames = self._stored.take_all()
        if self._is_sync:
            self._acks.send_when_safe(connection, end, frames, count)
            return 0
        replies.append(frames)
        return size


cdef void _pass(WholeFrames frames) noexcept:
    """Go on with the next frame."""
    frames.position += 4 + get_int32(
        <const uint8_t*>PyBytes_AS_STRING(frames.data) + frames.position
    )


cdef Span _scan(WholeFrames frames, ScannedHeader* header) noexcept:
    """The body of the frame that comes next; nowhere, if its header is not a usual one."""
    cdef const uint8_t* frame = <const uint8_t*>PyBytes_AS_STRING(frames.data) + frames.position
    cdef Py_ssize_t frame_size = 4 + get_int32(frame)
    cdef Py_ssize_t header_size = get_int32(frame + 4)
    if (
        not 0 < header_size <= _HEADER_SIZE_MAX
        or not scan_header(Span(frame + _PREFIX_SIZE, header_size), header)
        or header.flag
    ):
        return Span(NULL, 0)
    return Span(frame + _PREFIX_SIZE + header_size, frame_size - _PREFIX_SIZE - header_size)
