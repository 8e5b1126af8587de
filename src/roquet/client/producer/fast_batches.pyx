# cython: boundscheck=False, wraparound=False
"""The work for each message of a batch, compiled: made ready, added, counted, written, receipted.

The decisions are made elsewhere, once for all messages: the content of a message in `outgoing.py`,
when a batch is opened, full and sent in `batching.py`. Whatever leaves something to decide is
left to them: a message with more than a body, one that would open a batch, one that would fill it.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_New
from libc.math cimport INFINITY
from libc.string cimport memcpy

from roquet.protocol.binary cimport int64_t, put_bytes, uint8_t
from roquet.protocol.messages.batch_writing cimport BatchBody
from roquet.protocol.messages.numbered_ids cimport NumberedIds

from roquet.client.producer.outgoing import GATHERED_COUNT_MAX, ITEM_SIZE, Ready, property_text
from roquet.client.producer.receipt import SendReceipt
from roquet.protocol.messages.message import Message

cdef enum:
    _ASCII_MAX = 127

# Stands where the id goes.
_MARK = "?"

# After the last message.
END = object()

# Python has one of each.
cdef object _NO_KEYS = ()
cdef object _NO_FLAG = 0

cdef object _Message = Message
cdef object _Ready = Ready
cdef object _SendReceipt = SendReceipt


@cython.final
cdef class OpenBatch:
    """Messages of `size` bytes in all, the futures of their senders, and the shortest of their
    timeouts."""

    cdef readonly list messages, waiting
    cdef readonly Py_ssize_t size
    cdef readonly double timeout_s

    def __init__(self):
        self.messages = []
        self.waiting = []
        self.size = 0
        self.timeout_s = INFINITY

    cpdef int add(self, message, waiting, Py_ssize_t size, double timeout_s) except -1:
        self.messages.append(message)
        self.waiting.append(waiting)
        self.size += size
        if timeout_s < self.timeout_s:
            self.timeout_s = timeout_s
        return 0

    def hand_out(self, list results not None):
        """A receipt or an error to each sender, unless that has given up."""
        for waiting, result in zip(self.waiting, results, strict=True):
            if waiting.done():
                continue
            if type(result) is _SendReceipt:
                waiting.set_result(result)
            else:
                waiting.set_exception(result)


@cython.final
cdef class Occupancy:
    """The count and the size of what is in a window; who waits outside is known to `window.py`.

    Bounded in both. Something larger enters when the window is empty, or it never could.
    """

    cdef readonly Py_ssize_t count, size
    # If set, `leave` is followed by `Window.admit_waiting`, because others wait for space.
    cdef public bint is_watched
    cdef Py_ssize_t _count_max, _size_max

    def __init__(self, Py_ssize_t count_max, Py_ssize_t size_max):
        self._count_max = count_max
        self._size_max = size_max
        self.count = 0
        self.size = 0
        self.is_watched = False

    cpdef bint has_room(self, Py_ssize_t size) noexcept:
        return not self.count or (
            self.count < self._count_max and self.size + size <= self._size_max
        )

    cpdef bint try_enter(self, Py_ssize_t size) noexcept:
        """Whether there was space, which is taken then."""
        if not self.has_room(size):
            return False
        self.count += 1
        self.size += size
        return True

    cpdef int leave(self, Py_ssize_t size) except -1:
        assert self.count > 0
        self.count -= 1
        self.size -= size
        return 0


@cython.final
cdef class FastMessages:
    """Makes messages with nothing but a body ready, without asking what else they may have.

    Of one producer, whose `unique_ids` are those of its instance.
    """

    cdef bytes _before_id, _after_id
    cdef Py_ssize_t _body_size_max
    cdef Py_ssize_t _properties_size
    # What such a message takes of a batch besides its body.
    cdef Py_ssize_t bare_size
    cdef object _make_id, now_ms
    cdef NumberedIds _of_moment

    def __init__(self, config, unique_ids, clock):
        # Written by the general function, so both cannot drift apart.
        text = property_text(Message(_MARK, b""), _MARK, {}, config.namespace)
        before, _, after = text.partition(_MARK)
        self._before_id = before.encode()
        self._after_id = after.encode()
        size_max = config.message_size_max
        if config.compress_over is not None:
            size_max = min(size_max, config.compress_over - 1)
        # With a namespace that is not ASCII, every message is left to `outgoing.py`.
        self._body_size_max = size_max if text.isascii() else 0
        self._properties_size = len(text) - len(_MARK) + unique_ids.id_size
        self.bare_size = ITEM_SIZE + self._properties_size
        self.now_ms = clock.now_ms
        self._make_id = unique_ids.make
        self._of_moment = unique_ids.of_moment

    def ready(self, message, topic):
        """None unless it has only a body, and is of this topic, to which messages may be sent."""
        if type(topic) is not str or self.body_size(message, <str>topic) < 0:
            return None
        return self.made(message, self.now_ms())

    def fill(self, list part not None, source, Py_ssize_t size_max, Py_ssize_t count_max):
        """Adds messages of the same topic to a part, as many as follow each other and fit.

        Returned are the first message that was not added, or END, and the size of all that were.
        """
        topic = part[0].message.topic
        if type(topic) is not str:
            return next(source, END), 0
        cdef int64_t now_ms = self.now_ms()
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t body_size
        for message in source:
            body_size = self.body_size(message, <str>topic)
            if (
                body_size < 0
                or size + self.bare_size + body_size > size_max
                or len(part) >= count_max
            ):
                return message, size
            part.append(self.made(message, now_ms))
            size += self.bare_size + body_size
        return END, size

    cdef Py_ssize_t body_size(self, message, str topic) except -2:
        """-1 if it has more than a body."""
        if type(message) is not _Message:
            return -1
        given = message.topic
        if given is not topic and (type(given) is not str or given != topic):
            return -1
        body = message.body
        if type(body) is not bytes:
            return -1
        cdef Py_ssize_t size = PyBytes_GET_SIZE(body)
        if not 0 < size <= self._body_size_max:
            return -1
        # `outgoing.py` handles every other way to be empty.
        if (
            message.tags is not None
            or message.keys is not _NO_KEYS
            or message.flag is not _NO_FLAG
            or message.message_id is not None
        ):
            return -1
        properties = message.properties
        if type(properties) is not dict or <dict>properties:
            return -1
        return size

    cdef object made(self, message, int64_t now_ms):
        """Of a message that has only a body."""
        cdef str message_id
        if self._of_moment.now_ms == now_ms:
            message_id = self._of_moment.next()
        else:
            message_id = self._make_id(now_ms)
        cdef str text = PyUnicode_New(self._properties_size, _ASCII_MAX)
        cdef uint8_t* at = put_bytes(<uint8_t*>PyUnicode_DATA(text), self._before_id)
        cdef Py_ssize_t id_size = PyUnicode_GET_LENGTH(message_id)
        memcpy(at, PyUnicode_DATA(message_id), <size_t>id_size)
        put_bytes(at + id_size, self._after_id)
        return _Ready(message, message_id, text)


@cython.final
cdef class FastBatching:
    """Adds a message with nothing but a body to the open batch of its topic.

    Of one producer, between `open` and `close`.
    """

    cdef Occupancy _occupancy
    cdef FastMessages _messages
    cdef dict _open_batches
    cdef Py_ssize_t _size_max, _count_max
    cdef object _check_usable, _admit_waiting, _new_future

    def __init__(self, FastMessages messages not None, batcher, window, instance, loop):
        self._messages = messages
        self._open_batches = batcher.open_batches
        self._size_max = batcher.size_max
        self._count_max = GATHERED_COUNT_MAX
        self._check_usable = instance.check_usable
        self._occupancy = window.occupancy
        self._admit_waiting = window.admit_waiting
        self._new_future = loop.create_future

    def add(self, message, double timeout_s):
        """The receipt to come, or a SendError; the caller that awaits it calls `leave` afterwards.

        None if there is anything to decide: then nothing was done. Raises as `Lifecycle.usable`.
        """
        topic = getattr(message, "topic", None)
        if type(topic) is not str:
            return None
        cdef OpenBatch batch = self._open_batches.get(topic)
        if batch is None:
            return None
        cdef Py_ssize_t body_size = self._messages.body_size(message, <str>topic)
        cdef Py_ssize_t size = self._messages.bare_size + body_size
        if (
            body_size < 0
            or self._occupancy.is_watched
            or batch.size + size > self._size_max
            or len(batch.messages) + 1 >= self._count_max
        ):
            return None
        self._check_usable()
        if not self._occupancy.try_enter(body_size):
            return None
        waiting = self._new_future()
        made = self._messages.made(message, self._messages.now_ms())
        batch.add(made, waiting, size, timeout_s)
        return waiting

    def leave(self, Py_ssize_t size):
        """Leaves the window: one message, with a body of this size."""
        self._occupancy.leave(size)
        if self._occupancy.is_watched:
            self._admit_waiting()


def batch_body(messages):
    """The body of a batch of messages that are ready. Raises TooLarge or BadMessage."""
    cdef BatchBody batch = BatchBody()
    for ready in messages:
        message = ready.message
        batch.add(message.flag, message.body, ready.properties)
    return batch.written()


def stored_receipts(messages, queue, offset_ids, header):
    """One for each message, at consecutive offsets from that of the header on."""
    offset = header.queue_offset
    transaction_id = header.transaction_id
    recall_handle = header.recall_handle
    region = header.region_id
    is_traced = header.is_traced is not False
    cdef list made = []
    for ready, offset_id in zip(messages, offset_ids, strict=True):
        made.append(
            _SendReceipt(
                ready.message_id,
                queue,
                offset,
                offset_id,
                transaction_id,
                recall_handle,
                region,
                is_traced,
            )
        )
        offset += 1
    return made
