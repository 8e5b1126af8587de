# cython: language_level=3
"""HTTP/2 of one accepted connection: frames, HPACK and flow control by nghttp2, without a socket.

Bytes of the peer go in and become events; answers go in and become bytes for the peer. What an
event means, and what a peer may do how often, is decided in `connection`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from roquet.grpc.header_block cimport HeaderBlock

from collections import deque

from roquet.grpc.errors import Http2Broken

# All of it is called with the lock of Python, callbacks included.
cdef extern from "nghttp2/nghttp2.h":
    ctypedef struct nghttp2_session_callbacks
    ctypedef struct nghttp2_stream
    ctypedef struct nghttp2_option

    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags

    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd

    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags

    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value

    ctypedef union nghttp2_data_source:
        int fd
        void *ptr

    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t length,
        uint32_t *data_flags, nghttp2_data_source *source, void *user_data) noexcept

    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback

    ctypedef int (*on_begin_frame)(
        nghttp2_session *session, const nghttp2_frame_hd *head, void *user_data) noexcept
    ctypedef int (*on_begin_headers)(
        nghttp2_session *session, const nghttp2_frame *frame, void *user_data) noexcept
    ctypedef int (*on_header)(
        nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t namelen,
        const uint8_t *value, size_t valuelen, uint8_t flags, void *user_data) noexcept
    ctypedef int (*on_frame)(
        nghttp2_session *session, const nghttp2_frame *frame, void *user_data) noexcept
    ctypedef int (*on_data)(
        nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
        size_t size, void *user_data) noexcept
    ctypedef int (*on_close)(
        nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user_data) noexcept

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks **callbacks)
    void nghttp2_session_callbacks_del(nghttp2_session_callbacks *callbacks)
    void nghttp2_session_callbacks_set_on_begin_frame_callback(
        nghttp2_session_callbacks *callbacks, on_begin_frame callback)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(
        nghttp2_session_callbacks *callbacks, on_begin_headers callback)
    void nghttp2_session_callbacks_set_on_header_callback(
        nghttp2_session_callbacks *callbacks, on_header callback)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(
        nghttp2_session_callbacks *callbacks, on_frame callback)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        nghttp2_session_callbacks *callbacks, on_data callback)
    void nghttp2_session_callbacks_set_on_stream_close_callback(
        nghttp2_session_callbacks *callbacks, on_close callback)

    int nghttp2_option_new(nghttp2_option **option)
    void nghttp2_option_del(nghttp2_option *option)
    void nghttp2_option_set_max_outbound_ack(nghttp2_option *option, size_t value)

    int nghttp2_session_server_new2(
        nghttp2_session **session, const nghttp2_session_callbacks *callbacks, void *user_data,
        const nghttp2_option *option)
    void nghttp2_session_del(nghttp2_session *session)
    ssize_t nghttp2_session_mem_recv(nghttp2_session *session, const uint8_t *data, size_t size)
    ssize_t nghttp2_session_mem_send(nghttp2_session *session, const uint8_t **data)
    int nghttp2_session_want_read(nghttp2_session *session)
    int nghttp2_session_want_write(nghttp2_session *session)
    int nghttp2_session_resume_data(nghttp2_session *session, int32_t stream_id)
    int nghttp2_session_set_local_window_size(
        nghttp2_session *session, uint8_t flags, int32_t stream_id, int32_t size)
    nghttp2_stream *nghttp2_session_find_stream(nghttp2_session *session, int32_t stream_id)
    int nghttp2_session_terminate_session(nghttp2_session *session, uint32_t error_code)
    int nghttp2_submit_settings(
        nghttp2_session *session, uint8_t flags, const nghttp2_settings_entry *entries, size_t n)
    int nghttp2_submit_response(
        nghttp2_session *session, int32_t stream_id, const nghttp2_nv *headers, size_t n,
        const nghttp2_data_provider *provider)
    int nghttp2_submit_trailer(
        nghttp2_session *session, int32_t stream_id, const nghttp2_nv *headers, size_t n)
    int nghttp2_submit_rst_stream(
        nghttp2_session *session, uint8_t flags, int32_t stream_id, uint32_t error_code)
    int nghttp2_submit_ping(nghttp2_session *session, uint8_t flags, const uint8_t *data)
    const char *nghttp2_strerror(int code)

cdef enum:
    FLAG_NONE = 0
    FLAG_END_STREAM = 1
    DATA_FLAG_EOF = 1
    DATA_FLAG_NO_END_STREAM = 2
    FRAME_DATA = 0
    FRAME_HEADERS = 1
    FRAME_PING = 6
    FRAME_WINDOW_UPDATE = 8
    SETTING_STREAM_COUNT_MAX = 3
    SETTING_INITIAL_WINDOW_SIZE = 4
    SETTING_HEADER_SIZE_MAX = 6
    PROTOCOL_ERROR = 1
    ERR_DEFERRED = -508
    ERR_TEMPORAL_CALLBACK_FAILURE = -521
    ERR_CALLBACK_FAILURE = -902
    HEADER_COUNT_MAX = 16  # of an answer
    # Peers that make us acknowledge more than this without reading it are cut off.
    ACK_COUNT_MAX = 100
    # Of bytes to send.
    BUFFER_SIZE_MIN = 4096
    BUFFER_KEPT_MAX = 65536

# What an event is about. HEADERS has a block of them, DATA has bytes, CLOSED whether the answer was sent.
# REQUEST is all three of a call whose message came in one piece, and at once.
HEADERS = 0
DATA = 1
END = 2
CLOSED = 3
REQUEST = 4


@cython.final
@cython.freelist(64)
cdef class Request:
    """The headers of a call, and its data as far as it has come."""

    def __cinit__(self, HeaderBlock headers):
        self.headers = headers


@cython.final
cdef class Ending:
    """How the calls of one method are counted when they are over: answered, or given up.

    `ended` has the counts by `answered` and `given_up`.
    """

    def __init__(self, ended not None, tuple answered not None, tuple given_up not None):
        self.ended = ended
        self.answered = answered
        self.given_up = given_up

    cpdef Ending other(self, tuple answered):
        """For a call that is answered in another way."""
        return Ending(self.ended, answered, self.given_up)

    cdef int count(self, bint is_answered) except -1:
        key = self.answered if is_answered else self.given_up
        self.ended[key] += 1
        return 0


@cython.final
@cython.freelist(64)
cdef class _Outgoing:
    """What waits to be sent on one stream."""

    def __cinit__(self):
        self.trailers = ()

    cdef int add(self, bytes chunk) except -1:
        if self.chunk is None:
            self.chunk = chunk
        elif self.later is None:
            self.later = deque((chunk,))
        else:
            self.later.append(chunk)
        return 0


@cython.final
cdef class Http2Session:
    """The server's side of one connection.

    `pending_size` bytes of answers wait for the peer to open its windows. `control_count` counts
    frames of the peer that cost work and carry nothing: settings, pings, resets, priorities,
    empty data. A ping after data of ours is free, as by gRPC's own rule: grpc-go measures with it
    how much it has to let through, and the more we send, the more often it does.
    """

    def __cinit__(self, int stream_count_max, int header_size_max, int window_size):
        cdef nghttp2_session_callbacks *callbacks = NULL
        cdef nghttp2_option *option = NULL
        cdef nghttp2_settings_entry[3] settings
        self._session = NULL
        self._events = []
        self._block = None
        self._requests = {}
        self._buffer = NULL
        self._buffer_size = 0
        self._outgoing = {}
        self._error = None
        self._header_size_max = header_size_max
        if nghttp2_session_callbacks_new(&callbacks) or nghttp2_option_new(&option):
            nghttp2_session_callbacks_del(callbacks)
            raise MemoryError
        try:
            nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, _begin_frame)
            nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, _begin_headers)
            nghttp2_session_callbacks_set_on_header_callback(callbacks, _header)
            nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, _frame)
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, _data)
            nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, _closed)
            nghttp2_option_set_max_outbound_ack(option, ACK_COUNT_MAX)
            if nghttp2_session_server_new2(&self._session, callbacks, <void *>self, option):
                raise MemoryError
        finally:
            nghttp2_session_callbacks_del(callbacks)
            nghttp2_option_del(option)
        settings[0].settings_id = SETTING_STREAM_COUNT_MAX
        settings[0].value = stream_count_max
        settings[1].settings_id = SETTING_HEADER_SIZE_MAX
        settings[1].value = header_size_max
        settings[2].settings_id = SETTING_INITIAL_WINDOW_SIZE
        settings[2].value = window_size
        self._check(nghttp2_submit_settings(self._session, FLAG_NONE, settings, 3))
        self._check(
            nghttp2_session_set_local_window_size(self._session, FLAG_NONE, 0, window_size))

    def __dealloc__(self):
        if self._session is not NULL:
            nghttp2_session_del(self._session)
        free(self._buffer)

    @property
    def is_over(self):
        """Nothing more is to be read or sent."""
        return not (nghttp2_session_want_read(self._session)
                    or nghttp2_session_want_write(self._session))

    def receive(self, bytes data):
        """The events of these bytes. Raises Http2Broken; what is to be sent has the reason."""
        cdef ssize_t done = nghttp2_session_mem_recv(
            self._session, <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        if self._requests:
            for stream_id in list(self._requests):
                self._show(stream_id)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._check(<int>done if done < 0 else 0)
        return self.events()

    def events(self):
        """Those that are new: streams are closed by what is sent, too."""
        events, self._events = self._events, []
        return events

    def to_send(self):
        """Bytes for the peer, once. Raises Http2Broken."""
        cdef const uint8_t *data = NULL
        cdef ssize_t size
        cdef Py_ssize_t done = 0
        while True:
            size = nghttp2_session_mem_send(self._session, &data)
            if size <= 0:
                break
            # A frame at a time; many answers are one piece for the peer.
            self._reserve(done + size)
            memcpy(self._buffer + done, data, size)
            done += size
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._check(<int>size)
        found = PyBytes_FromStringAndSize(self._buffer, done)
        if self._buffer_size > BUFFER_KEPT_MAX:
            free(self._buffer)
            self._buffer = NULL
            self._buffer_size = 0
        return found

    cdef int _reserve(self, Py_ssize_t size) except -1:
        cdef char *larger
        cdef Py_ssize_t wanted
        if size > self._buffer_size:
            wanted = max(size, 2 * self._buffer_size, BUFFER_SIZE_MIN)
            larger = <char *>realloc(self._buffer, wanted)
            if larger is NULL:
                raise MemoryError
            self._buffer = larger
            self._buffer_size = wanted
        return 0

    cpdef answer(
        self,
        int32_t stream_id,
        tuple headers,
        bytes data,
        tuple trailers,
        Ending ending=None,
    ):
        """A whole answer: `respond`, `send` and `finish` in one.

        With `ending` that counts the end of the call, which is no event then.
        """
        cdef _Outgoing outgoing
        if ending is not None and not self.is_open(stream_id):
            ending.count(False)
            return
        outgoing = self._respond(stream_id, headers)
        outgoing.ending = ending
        outgoing.chunk = data
        self.pending_size += PyBytes_GET_SIZE(data)
        outgoing.trailers = trailers
        outgoing.is_finished = True

    def respond(self, int32_t stream_id, tuple headers):
        """Starts an answer; `send` and `finish` go on with it."""
        self._respond(stream_id, headers)

    cdef _Outgoing _respond(self, int32_t stream_id, tuple headers):
        cdef nghttp2_nv[HEADER_COUNT_MAX] pairs
        cdef nghttp2_data_provider provider
        cdef size_t count = _fill(pairs, headers)
        cdef _Outgoing outgoing = _Outgoing()
        provider.source.ptr = NULL
        provider.read_callback = _read
        self._outgoing[stream_id] = outgoing
        self._check(
            nghttp2_submit_response(self._session, stream_id, pairs, count, &provider))
        return outgoing

    cdef bint is_open(self, int32_t stream_id) noexcept:
        """Whether the stream can be answered."""
        return not self._is_closed and (
            nghttp2_session_find_stream(self._session, stream_id) is not NULL)

    def close(self):
        """The connection is lost, and with it what was not sent."""
        cdef _Outgoing outgoing
        self._is_closed = True
        for outgoing in self._outgoing.values():
            if outgoing.ending is not None:
                outgoing.ending.count(False)
                outgoing.ending = None

    def send(self, int32_t stream_id, bytes data):
        cdef _Outgoing outgoing = self._outgoing.get(stream_id)
        if outgoing is None or outgoing.is_finished:
            return
        if PyBytes_GET_SIZE(data):
            outgoing.add(data)
            self.pending_size += PyBytes_GET_SIZE(data)
            nghttp2_session_resume_data(self._session, stream_id)

    def finish(self, int32_t stream_id, tuple trailers):
        """The answer is complete."""
        cdef _Outgoing outgoing = self._outgoing.get(stream_id)
        if outgoing is not None and not outgoing.is_finished:
            outgoing.trailers = trailers
            outgoing.is_finished = True
            nghttp2_session_resume_data(self._session, stream_id)

    def reset(self, int32_t stream_id, uint32_t error_code):
        nghttp2_submit_rst_stream(self._session, FLAG_NONE, stream_id, error_code)

    def ping(self):
        nghttp2_submit_ping(self._session, FLAG_NONE, NULL)

    def terminate(self, uint32_t error_code):
        """Tells the peer that no more streams are taken, and why."""
        nghttp2_session_terminate_session(self._session, error_code)

    cdef Request _show(self, int32_t stream_id):
        """A request that has not come at once is events like any other; None if it is not one."""
        cdef Request request = self._requests.pop(stream_id, None)
        if request is not None:
            self._events.append((HEADERS, stream_id, request.headers))
            if request.data is not None:
                self._events.append((DATA, stream_id, request.data))
        return request

    cdef int _end(self, int32_t stream_id) except -1:
        """The client sends no more on this stream."""
        cdef Request request = self._requests.get(stream_id)
        if request is not None and request.data is not None:
            del self._requests[stream_id]
            self._events.append((REQUEST, stream_id, request))
        else:
            self._show(stream_id)
            self._events.append((END, stream_id, None))
        return 0

    cdef int _check(self, int code) except -1:
        if code < 0:
            raise Http2Broken(nghttp2_strerror(code).decode())
        return 0


cdef size_t _fill(nghttp2_nv *pairs, tuple headers) except? 0:
    cdef size_t count = 0
    cdef bytes name, value
    for name, value in headers:
        if count == HEADER_COUNT_MAX:
            raise ValueError("too many headers")
        pairs[count].name = <uint8_t *>PyBytes_AS_STRING(name)
        pairs[count].value = <uint8_t *>PyBytes_AS_STRING(value)
        pairs[count].namelen = PyBytes_GET_SIZE(name)
        pairs[count].valuelen = PyBytes_GET_SIZE(value)
        pairs[count].flags = FLAG_NONE
        count += 1
    return count


cdef int _begin_frame(
    nghttp2_session *session, const nghttp2_frame_hd *head, void *user_data
) noexcept:
    """nghttp2 ignores a new stream whose number is smaller than that of an earlier one."""
    cdef Http2Session self = <Http2Session>user_data
    if head.type != FRAME_HEADERS:
        return 0
    if head.stream_id > self._last_stream_id:
        self._last_stream_id = head.stream_id
    elif nghttp2_session_find_stream(session, head.stream_id) is NULL:
        nghttp2_session_terminate_session(session, PROTOCOL_ERROR)
    return 0


cdef int _begin_headers(
    nghttp2_session *session, const nghttp2_frame *frame, void *user_data
) noexcept:
    cdef Http2Session self = <Http2Session>user_data
    self._block = HeaderBlock()
    return 0


cdef int _header(
    nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
    const uint8_t *value, size_t value_size, uint8_t flags, void *user_data
) noexcept:
    cdef Http2Session self = <Http2Session>user_data
    if self._block is None:
        return 0
    self._block.add(name, <Py_ssize_t>name_size, value, <Py_ssize_t>value_size)
    return ERR_TEMPORAL_CALLBACK_FAILURE if self._block.size > self._header_size_max else 0


cdef int _frame(
    nghttp2_session *session, const nghttp2_frame *frame, void *user_data
) noexcept:
    cdef Http2Session self = <Http2Session>user_data
    cdef int32_t stream_id = frame.hd.stream_id
    cdef HeaderBlock headers
    if frame.hd.type == FRAME_HEADERS:
        headers, self._block = self._block, None
        if headers is not None:
            if headers.has_method:
                self._requests[stream_id] = Request(headers)
            else:
                self.control_count += 1  # Trailers of a request have no use.
    elif frame.hd.type == FRAME_DATA:
        self.control_count += not (frame.hd.length or frame.hd.flags & FLAG_END_STREAM)
    elif frame.hd.type == FRAME_PING and self._is_ping_free:
        self._is_ping_free = False
    elif frame.hd.type != FRAME_WINDOW_UPDATE:
        self.control_count += 1
    if frame.hd.type in (FRAME_DATA, FRAME_HEADERS) and frame.hd.flags & FLAG_END_STREAM:
        self._end(stream_id)
    return 0


cdef int _data(
    nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t size,
    void *user_data
) noexcept:
    cdef Http2Session self = <Http2Session>user_data
    cdef Request request = self._requests.get(stream_id)
    piece = PyBytes_FromStringAndSize(<const char *>data, size)
    if request is not None and request.data is None:
        request.data = piece
        return 0
    self._show(stream_id)
    self._events.append((DATA, stream_id, piece))
    return 0


cdef int _closed(
    nghttp2_session *session, int32_t stream_id, uint32_t error_code, void *user_data
) noexcept:
    cdef Http2Session self = <Http2Session>user_data
    cdef _Outgoing outgoing = self._outgoing.pop(stream_id, None)
    cdef bint is_sent = False
    if outgoing is not None:
        if outgoing.chunk is not None:
            self.pending_size -= PyBytes_GET_SIZE(outgoing.chunk) - outgoing.position
        for chunk in outgoing.later or ():
            self.pending_size -= len(chunk)
        is_sent = outgoing.is_sent and not error_code
        if outgoing.ending is not None:
            outgoing.ending.count(is_sent)
            return 0
    self._show(stream_id)
    self._events.append((CLOSED, stream_id, is_sent))
    return 0


cdef ssize_t _read(
    nghttp2_session *session, int32_t stream_id, uint8_t *buffer, size_t length,
    uint32_t *data_flags, nghttp2_data_source *source, void *user_data
) noexcept:
    cdef Http2Session self = <Http2Session>user_data
    cdef _Outgoing outgoing = self._outgoing.get(stream_id)
    cdef nghttp2_nv[HEADER_COUNT_MAX] pairs
    cdef bytes chunk
    cdef Py_ssize_t size
    cdef size_t done = 0
    if outgoing is None:
        return ERR_TEMPORAL_CALLBACK_FAILURE
    while outgoing.chunk is not None and done < length:
        chunk = outgoing.chunk
        size = min(<Py_ssize_t>(length - done), PyBytes_GET_SIZE(chunk) - outgoing.position)
        memcpy(buffer + done, PyBytes_AS_STRING(chunk) + outgoing.position, size)
        done += size
        outgoing.position += size
        if outgoing.position == PyBytes_GET_SIZE(chunk):
            outgoing.chunk = outgoing.later.popleft() if outgoing.later else None
            outgoing.position = 0
    self.pending_size -= <Py_ssize_t>done
    if done:
        self._is_ping_free = True
    if outgoing.chunk is None and outgoing.is_finished:
        data_flags[0] |= DATA_FLAG_EOF
        outgoing.is_sent = True
        if outgoing.trailers:
            try:
                count = _fill(pairs, outgoing.trailers)
            except ValueError as error:
                self._error = error
                return ERR_CALLBACK_FAILURE
            data_flags[0] |= DATA_FLAG_NO_END_STREAM
            nghttp2_submit_trailer(session, stream_id, pairs, count)
    elif not done:
        return ERR_DEFERRED
    return <ssize_t>done
