# cython: boundscheck=False, wraparound=False
"""Sockets of an event loop, read and written without Python code between the kernel and the protocol.

    Poller.wait -> epoll_wait -> SocketTransport.on_events -> recv -> protocol.data_received
                                                           -> sendmsg, once a round

What protocols write while a round of events is handed out is sent at its end: requests of a thousand
connections are read one after the other, and then all of them are answered. Other descriptors are the
business of the loop (`epoll_loop.py`).
"""

import os
import socket

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

cdef extern from "<sys/epoll.h>" nogil:
    cdef enum:
        EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT

    ctypedef union epoll_data_t:
        int fd

    struct epoll_event:
        uint32_t events
        epoll_data_t data

    int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event)
    int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms)

cdef extern from "<sys/eventfd.h>" nogil:
    cdef enum:
        EFD_CLOEXEC, EFD_NONBLOCK

    int eventfd(unsigned int value, int flags)
    int eventfd_read(int descriptor, uint64_t* value)
    int eventfd_write(int descriptor, uint64_t value)

cdef extern from "<sys/socket.h>" nogil:
    cdef enum:
        MSG_DONTWAIT, MSG_NOSIGNAL, SHUT_WR

    struct iovec:
        void* iov_base
        size_t iov_len

    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen

    Py_ssize_t recv(int descriptor, void* buffer, size_t size, int flags)
    Py_ssize_t send(int descriptor, const void* bytes, size_t size, int flags)
    Py_ssize_t sendmsg(int descriptor, const msghdr* message, int flags)
    int shutdown(int descriptor, int how)

cdef extern from "<unistd.h>" nogil:
    int close(int descriptor)

cdef enum:
    _EVENT_COUNT_MAX = 1_024  # in one round
    _RECEIVE_SIZE_MAX = 262_144
    # What one protocol writes in a round is sent before its end if there is so much of it.
    _KEPT_SIZE_MAX = 65_536
    _PIECE_COUNT_MAX = 64  # in one system call
    _UNSENT_SIZE_HIGH = 65_536
    _FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL

_INTERNET = (socket.AF_INET, socket.AF_INET6)


@cython.final
cdef class Poller:
    """Waits for the descriptors of one epoll instance, which belongs to its selector."""

    cdef int _epoll
    cdef int _wake_up
    # Written, and not read yet: more writes would tell the loop nothing.
    cdef bint _is_woken
    # Transports by their descriptors, None where there is none.
    cdef list _transports
    # Those that have something to send at the end of the round.
    cdef list _writers
    cdef bint _is_in_round
    cdef epoll_event* _events
    cdef char* _received

    def __cinit__(self, int epoll):
        cdef epoll_event event
        self._epoll = epoll
        self._wake_up = -1
        self._transports = []
        self._writers = []
        self._events = <epoll_event*>PyMem_Malloc(_EVENT_COUNT_MAX * sizeof(epoll_event))
        self._received = <char*>PyMem_Malloc(_RECEIVE_SIZE_MAX)
        if self._events is NULL or self._received is NULL:
            raise MemoryError
        self._wake_up = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self._wake_up < 0:
            raise _os_error()
        memset(&event, 0, sizeof(event))
        event.events = EPOLLIN
        event.data.fd = self._wake_up
        if epoll_ctl(epoll, EPOLL_CTL_ADD, self._wake_up, &event):
            raise _os_error()

    def __dealloc__(self):
        if self._wake_up >= 0:
            close(self._wake_up)
        PyMem_Free(self._events)
        PyMem_Free(self._received)

    def close(self):
        """Lets go of transports that are still open; `wake` has no effect any more."""
        self._transports.clear()
        if self._wake_up >= 0:
            close(self._wake_up)
            self._wake_up = -1

    def wake(self):
        """Ends `wait`, now or when it is called next; from any thread."""
        if not self._is_woken and self._wake_up >= 0:
            self._is_woken = True
            eventfd_write(self._wake_up, 1)

    def wait(self, int timeout_ms):
        """Serves transports; returns the other descriptors that are ready, with their events.

        Waits without end if `timeout_ms` is negative. Raises OSError.
        """
        cdef int count
        # Also when it does not wait: the thread that syncs the log may need the interpreter.
        with nogil:
            count = epoll_wait(self._epoll, self._events, _EVENT_COUNT_MAX, timeout_ms)
        if count < 0:
            if errno == EINTR:
                return []  # The interpreter runs handlers of signals before it waits again.
            raise _os_error()
        self._is_in_round = True
        try:
            return self._hand_out(count)
        finally:
            self._is_in_round = False
            self._send_all()

    cdef list _hand_out(self, int count):
        cdef list others = []
        cdef int index, descriptor
        cdef uint64_t wakes
        for index in range(count):
            descriptor = self._events[index].data.fd
            if descriptor == self._wake_up:
                # First the mark: whoever finds it gone writes again.
                self._is_woken = False
                eventfd_read(descriptor, &wakes)
                continue
            found = self._transports[descriptor] if descriptor < len(self._transports) else None
            if found is None:
                others.append((descriptor, self._events[index].events))
            else:
                (<SocketTransport>found).on_events(self._events[index].events)
        return others

    cdef int _send_all(self) except -1:
        if self._writers:
            writers, self._writers = self._writers, []
            for transport in writers:
                (<SocketTransport>transport).send_unsent()
        return 0

    cdef int watch(self, SocketTransport transport, uint32_t events) except -1:
        """Asks the kernel for these events of a transport; without any, it is let go."""
        cdef epoll_event event
        cdef int operation = EPOLL_CTL_MOD
        cdef int descriptor = transport.descriptor
        if not transport.watched:
            operation = EPOLL_CTL_ADD
        elif not events:
            operation = EPOLL_CTL_DEL
        memset(&event, 0, sizeof(event))
        event.events = events
        event.data.fd = descriptor
        if epoll_ctl(self._epoll, operation, descriptor, &event):
            raise _os_error()
        transport.watched = events
        while len(self._transports) <= descriptor:
            self._transports.append(None)
        self._transports[descriptor] = transport if events else None
        return 0


@cython.final
cdef class SocketTransport:
    """A connected socket, as protocols of asyncio see it."""

    cdef object _loop, _socket, _protocol, _receive
    cdef Poller _poller
    cdef int descriptor
    # The events that the kernel was asked for.
    cdef uint32_t watched
    # Pieces of bytes; those before the first are sent, and some of the first.
    cdef list _unsent
    cdef Py_ssize_t _first, _first_sent, _unsent_size, _high, _low
    cdef object _peer_name, _socket_name
    cdef bint _is_started, _is_paused, _is_at_end, _is_closing, _is_lost, _is_stalled, _is_writer, _is_ending

    def __init__(self, loop, Poller poller not None, sock, protocol, waiter):
        """Calls `connection_made` soon, and sets the result of `waiter` after it."""
        self._loop = loop
        self._poller = poller
        self._socket = sock
        self.descriptor = sock.fileno()
        # Known afterwards, too.
        self._socket_name = _name(sock.getsockname)
        self._peer_name = _name(sock.getpeername)
        self._unsent = []
        self.set_write_buffer_limits()
        self.set_protocol(protocol)
        if sock.family in _INTERNET:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._start, waiter)

    def _start(self, waiter):
        self._is_started = True
        self._update()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # Called by protocols.

    def set_protocol(self, protocol):
        self._protocol = protocol
        self._receive = protocol.data_received

    def get_protocol(self):
        return self._protocol

    def get_extra_info(self, name, default=None):
        if name == "peername":
            return self._peer_name
        if name == "sockname":
            return self._socket_name
        return self._socket if name == "socket" else default

    def is_closing(self):
        return self._is_closing

    def is_reading(self):
        return not self._is_paused and not self._is_closing

    def pause_reading(self):
        self._is_paused = True
        self._update()

    def resume_reading(self):
        self._is_paused = False
        self._update()

    def get_write_buffer_size(self):
        return self._unsent_size

    def get_write_buffer_limits(self):
        return self._low, self._high

    def set_write_buffer_limits(self, high=None, low=None):
        if high is None:
            high = _UNSENT_SIZE_HIGH if low is None else 4 * low
        if low is None:
            low = high // 4
        if not 0 <= low <= high:
            raise ValueError(f"a low mark of {low} bytes does not fit a high one of {high}")
        self._high = high
        self._low = low

    def can_write_eof(self):
        return True

    def write_eof(self):
        """Ends the stream once everything is sent; nothing may be written after it."""
        self._is_ending = True
        self._after_sending()

    def write(self, data):
        cdef bytes piece = data if type(data) is bytes else bytes(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(piece)
        cdef Py_ssize_t sent
        if not size or self._is_lost:
            return
        if not self._unsent_size and not self._poller._is_in_round:
            sent = send(self.descriptor, PyBytes_AS_STRING(piece), size, _FLAGS)
            if sent == size:
                return
            if sent < 0:
                if errno != EAGAIN and errno != EINTR:
                    self._fail(_os_error(), "a write")
                    return
                sent = 0
            self._first_sent = sent
            size -= sent
        self._unsent.append(piece)
        self._unsent_size += size
        self._after_append()

    def writelines(self, pieces):
        cdef bytes piece
        if self._is_lost:
            return
        for data in pieces:
            piece = data if type(data) is bytes else bytes(data)
            if piece:
                self._unsent.append(piece)
                self._unsent_size += PyBytes_GET_SIZE(piece)
        if self._unsent_size:
            if not self._poller._is_in_round and not self.watched & EPOLLOUT:
                self.send_unsent()
            else:
                self._after_append()

    def close(self):
        if self._is_closing:
            return
        self._is_closing = True
        if not self._unsent_size:
            self._lose_soon(None)
        self._update()

    def abort(self):
        self._end(None)

    # Called by the poller.

    cdef int on_events(self, uint32_t events) except -1:
        if self.watched & EPOLLOUT and events & (EPOLLOUT | EPOLLERR | EPOLLHUP):
            self.send_unsent()
        if self.watched & EPOLLIN and events & (EPOLLIN | EPOLLERR | EPOLLHUP):
            self._read()
        return 0

    cdef int send_unsent(self) except -1:
        """Sends as much as the kernel takes."""
        cdef Py_ssize_t sent
        self._is_writer = False
        while self._unsent_size:
            sent = self._send_pieces()
            if sent < 0:
                if errno == EAGAIN or errno == EINTR:
                    break
                return self._fail(_os_error(), "a write")
            self._drop(sent)
        self._after_sending()
        return 0

    # Private.

    cdef int _read(self) except -1:
        cdef Py_ssize_t size = recv(
            self.descriptor, self._poller._received, _RECEIVE_SIZE_MAX, MSG_DONTWAIT
        )
        if size < 0:
            if errno == EAGAIN or errno == EINTR:
                return 0
            return self._fail(_os_error(), "a read")
        try:
            if size:
                self._receive(PyBytes_FromStringAndSize(self._poller._received, size))
            elif self._protocol.eof_received():
                # The protocol goes on writing; there is nothing more to read.
                self._is_at_end = True
                self._update()
            else:
                self.close()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._fail(error, "a protocol that received bytes")
        return 0

    cdef Py_ssize_t _send_pieces(self) noexcept:
        """How many bytes were sent; negative if none could be."""
        cdef iovec pieces[_PIECE_COUNT_MAX]
        cdef msghdr message
        cdef Py_ssize_t index
        cdef Py_ssize_t count = min(len(self._unsent) - self._first, _PIECE_COUNT_MAX)
        if count == 1:
            piece = self._unsent[self._first]
            return send(
                self.descriptor,
                PyBytes_AS_STRING(piece) + self._first_sent,
                PyBytes_GET_SIZE(piece) - self._first_sent,
                _FLAGS,
            )
        for index in range(count):
            piece = self._unsent[self._first + index]
            pieces[index].iov_base = PyBytes_AS_STRING(piece)
            pieces[index].iov_len = PyBytes_GET_SIZE(piece)
        pieces[0].iov_base = <char*>pieces[0].iov_base + self._first_sent
        pieces[0].iov_len -= self._first_sent
        memset(&message, 0, sizeof(message))
        message.msg_iov = pieces
        message.msg_iovlen = count
        return sendmsg(self.descriptor, &message, _FLAGS)

    cdef int _drop(self, Py_ssize_t size) except -1:
        """Forgets bytes that are sent."""
        cdef Py_ssize_t rest
        self._unsent_size -= size
        while size:
            rest = PyBytes_GET_SIZE(self._unsent[self._first]) - self._first_sent
            if size < rest:
                self._first_sent += size
                return 0
            size -= rest
            # The memory of a large piece is not kept for the sake of those after it.
            self._unsent[self._first] = None
            self._first += 1
            self._first_sent = 0
        if not self._unsent_size or self._first >= _PIECE_COUNT_MAX:
            del self._unsent[: self._first]
            self._first = 0
        return 0

    cdef int _after_append(self) except -1:
        if self._poller._is_in_round and not self.watched & EPOLLOUT:
            if self._unsent_size >= _KEPT_SIZE_MAX:
                return self.send_unsent()
            if not self._is_writer:
                self._is_writer = True
                self._poller._writers.append(self)
            return 0
        return self._after_sending()

    cdef int _after_sending(self) except -1:
        """Tells kernel and protocol what is left to send."""
        if self._is_lost:
            return 0
        if not self._unsent_size:
            if self._is_closing:
                self._lose_soon(None)
            elif self._is_ending:
                shutdown(self.descriptor, SHUT_WR)
        self._update()
        try:
            if self._unsent_size > self._high and not self._is_stalled:
                self._is_stalled = True
                self._protocol.pause_writing()
            elif self._unsent_size <= self._low and self._is_stalled:
                self._is_stalled = False
                self._protocol.resume_writing()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._report(error, "a protocol whose peer reads slowly")
        return 0

    cdef int _update(self) except -1:
        cdef uint32_t events = 0
        if self._is_started and not self._is_lost:
            if not self._is_paused and not self._is_at_end and not self._is_closing:
                events |= EPOLLIN
            # What is left for the end of a round needs no event.
            if self._unsent_size and not self._is_writer:
                events |= EPOLLOUT
        if events != self.watched:
            self._poller.watch(self, events)
        return 0

    cdef int _fail(self, error, str what) except -1:
        # Peers that are gone are the business of the protocol.
        if not isinstance(error, OSError):
            self._report(error, what)
        return self._end(error)

    cdef int _report(self, error, str what) except -1:
        self._loop.call_exception_handler(
            {
                "message": f"{what} failed",
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
        return 0

    cdef int _end(self, error) except -1:
        """Without sending what is left."""
        if not self._is_lost:
            self._is_closing = True
            self._lose_soon(error)
            self._update()
        return 0

    cdef int _lose_soon(self, error) except -1:
        self._is_lost = True
        self._unsent.clear()
        self._first = self._first_sent = self._unsent_size = 0
        self._loop.call_soon(self._lose, error)
        return 0

    def _lose(self, error):
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()
            # Protocols keep their transport, too.
            self._protocol = self._receive = None


def _name(find):
    try:
        return find()
    except OSError:
        return None  # The peer is gone already.


cdef object _os_error():
    return OSError(errno, os.strerror(errno))
