# cython: boundscheck=False, wraparound=False
"""A byte stream cut into frames, which are drawn in `frame.py`."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from roquet.protocol.binary cimport get_int32, get_uint32, int64_t, uint8_t, uint32_t

from roquet.protocol.errors import BadFrame, TooLarge
from roquet.protocol.frame import FRAME_SIZE_MAX, HEADER_SIZE_MAX, Frame

cdef enum:
    _PREFIX_SIZE = 8
    _SERIALIZER_MAX = 1

# Half the price of calling the class.
cdef object _new_frame = tuple.__new__


@cython.final
cdef class WholeFrames:
    """Consecutive frames, cut one by one as they are asked for.

    A caller that answers some of them in place moves `position` to the next frame.
    """

    def __iter__(self):
        return self

    def __next__(self):
        if self.position >= self.end:
            raise StopIteration
        cdef const char* frame = PyBytes_AS_STRING(self.data) + self.position
        # Both sizes were checked by the decoder.
        cdef Py_ssize_t size = 4 + get_int32(<const uint8_t*>frame)
        cdef uint32_t mixed = get_uint32(<const uint8_t*>frame + 4)
        cdef Py_ssize_t body_position = _PREFIX_SIZE + (mixed & 0xFFFFFF)
        header = PyBytes_FromStringAndSize(frame + _PREFIX_SIZE, body_position - _PREFIX_SIZE)
        body = PyBytes_FromStringAndSize(frame + body_position, size - body_position)
        self.position += size
        return _new_frame(Frame, (mixed >> 24, header, body))


@cython.final
cdef class FrameDecoder:
    """Cuts whole frames from a stream that arrives in any pieces.

    After an error the stream cannot be trusted any more; the owner closes the connection.
    """

    cdef int64_t _frame_size_max, _header_size_max
    cdef list _parts
    # Bytes of a frame that is not complete yet.
    cdef readonly Py_ssize_t pending_size
    # Nothing can be decided before this many bytes of the first unfinished frame are there.
    cdef Py_ssize_t _wanted_size

    def __init__(self, frame_size_max=FRAME_SIZE_MAX, header_size_max=HEADER_SIZE_MAX):
        self._frame_size_max = frame_size_max
        self._header_size_max = header_size_max
        self._parts = []
        self.pending_size = 0
        self._wanted_size = _PREFIX_SIZE

    def cut(self, bytes data not None):
        """All frames that `data` completes, as a list. Raises as `whole`."""
        return list(self.whole(data))

    def whole(self, bytes data not None):
        """All frames that `data` completes. Raises BadFrame or TooLarge.

        Frames before a bad one are still handed out; the bad one is raised by the next call.
        """
        cdef WholeFrames frames = WholeFrames.__new__(WholeFrames)
        frames.data = b""
        if self._parts:
            self._parts.append(data)
            self.pending_size += PyBytes_GET_SIZE(data)
            if self.pending_size < self._wanted_size:
                return frames
            # Joined once per decision and not once per piece, so a large frame in
            # small pieces stays linear.
            data = b"".join(self._parts)
            self._parts.clear()
        cdef const char* start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t length, header_size
        cdef uint32_t mixed
        self._wanted_size = _PREFIX_SIZE
        while end - position >= _PREFIX_SIZE:
            length = get_int32(<const uint8_t*>start + position)
            mixed = get_uint32(<const uint8_t*>start + position + 4)
            header_size = mixed & 0xFFFFFF
            if (
                length < header_size + 4
                or length > self._frame_size_max - 4
                or header_size > self._header_size_max
                or mixed >> 24 > _SERIALIZER_MAX
            ):
                if not position:
                    raise self._error_of(length, mixed >> 24, header_size)
                break
            if length > end - position - 4:
                self._wanted_size = 4 + length
                break
            position += 4 + length
        self.pending_size = end - position
        if position < end:
            self._parts.append(data[position:] if position else data)
        frames.data = data
        frames.end = position
        return frames

    cdef object _error_of(self, int64_t length, uint32_t serializer, int64_t header_size):
        if length < 4 or header_size > length - 4:
            return BadFrame(f"length {length} does not fit a header of {header_size} bytes")
        if length + 4 > self._frame_size_max:
            return TooLarge("frame", length + 4, self._frame_size_max)
        if header_size > self._header_size_max:
            return TooLarge("header", header_size, self._header_size_max)
        return BadFrame(f"serializer {serializer} is unknown")
