# cython: boundscheck=False, wraparound=False
"""Messages with nothing but a body, made ready without being asked what else they may have.

What is wrong with a message, and what one with tags, keys or properties says, is written down in
`outgoing.py` alone: whatever is not plain is left to that.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_New
from libc.string cimport memcpy

from roquet.protocol.binary cimport int64_t, put_bytes, uint8_t
from roquet.protocol.messages.numbered_ids cimport NumberedIds

from roquet.client.producer.batching import ITEM_SIZE
from roquet.client.producer.outgoing import Ready, property_text
from roquet.protocol.messages.message import Message

cdef enum:
    _ASCII_MAX = 127

# Stands where the id goes.
_MARK = "?"

# Behind the last message.
END = object()

# Python has one of each.
cdef object _NO_KEYS = ()
cdef object _NO_FLAG = 0

cdef object _Message = Message
cdef object _Ready = Ready


@cython.final
cdef class PlainMessages:
    """Of one producer, whose `unique_ids` are those of its instance."""

    def __init__(self, config, unique_ids, clock):
        # Written by the ordinary way, so both cannot drift apart.
        text = property_text(Message(_MARK, b""), _MARK, {}, config.namespace)
        before, _, behind = text.partition(_MARK)
        self._before_id = before.encode()
        self._behind_id = behind.encode()
        size_max = config.message_size_max
        if config.compress_over is not None:
            size_max = min(size_max, config.compress_over - 1)
        # A namespace that is not ASCII makes nothing plain.
        self._body_size_max = size_max if text.isascii() else 0
        self._properties_size = len(text) - len(_MARK) + unique_ids.id_size
        self.bare_size = ITEM_SIZE + self._properties_size
        self.now_ms = clock.now_ms
        self._make_id = unique_ids.make
        self._of_moment = unique_ids.of_moment

    def ready(self, message, topic):
        """None unless it is plain, and of this topic, to which messages may be sent."""
        if type(topic) is not str or self.body_size(message, <str>topic) < 0:
            return None
        return self.made(message, self.now_ms())

    def fill(self, list part not None, source, Py_ssize_t size_max, Py_ssize_t count_max):
        """Adds plain messages of the same topic to a part, as many as follow each other and fit.

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
        """-1 if it is not plain."""
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
        # What is empty in another way than usual is judged by the ordinary way.
        if (
            message.tags is not None
            or message.keys is not _NO_KEYS
            or message.flag is not _NO_FLAG
        ):
            return -1
        properties = message.properties
        if type(properties) is not dict or <dict>properties:
            return -1
        return size

    cdef object made(self, message, int64_t now_ms):
        """Of a message that is plain."""
        cdef str message_id
        if self._of_moment.now_ms == now_ms:
            message_id = self._of_moment.next()
        else:
            message_id = self._make_id(now_ms)
        cdef str text = PyUnicode_New(self._properties_size, _ASCII_MAX)
        cdef uint8_t* at = put_bytes(<uint8_t*>PyUnicode_DATA(text), self._before_id)
        cdef Py_ssize_t id_size = PyUnicode_GET_LENGTH(message_id)
        memcpy(at, PyUnicode_DATA(message_id), <size_t>id_size)
        put_bytes(at + id_size, self._behind_id)
        return _Ready(message, message_id, text)
