# cython: boundscheck=False, wraparound=False
"""A record in the making: everything is known of it but where and when it is stored.

It writes itself to the place where it is stored. How a record is laid out is drawn in
`record.py`; those that are stored together are in `record_batches.pyx`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.string cimport memcpy

from roquet.protocol.binary cimport (
    Span,
    crc31,
    int32_t,
    int64_t,
    put_bytes,
    put_int16,
    put_int32,
    put_int64,
    span_of,
    uint8_t,
)
from roquet.protocol.messages cimport record_layout as layout
from roquet.protocol.messages.record_parts cimport put_checksum, topic_size_width

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.properties import without_property_bytes
from roquet.protocol.messages.record import CHECKSUM_NAME


@cython.final
cdef class RecordDraft:
    """Everything of a record but what the append assigns: offsets and store time.

    The address bits of `sys_flag` follow from the hosts, whatever was handed in. Raises
    TooLarge when body, topic or properties do not fit into a record, and BadMessage when a
    number does not fit its field, or a host is neither IPv4 nor IPv6.
    """

    def __init__(
        self,
        *,
        queue_id,
        flag,
        sys_flag,
        born_timestamp,
        bytes born_host not None,
        bytes store_host not None,
        body not None,
        bytes topic not None,
        bytes properties not None,
        reconsume_times=0,
        prepared_transaction_offset=0,
        magic=layout.MAGIC_V1,
        bint has_checksum=False,
    ):
        try:
            self.queue_id = queue_id
            self.flag = flag
            self.sys_flag = sys_flag
            self.born_timestamp = born_timestamp
            self.reconsume_times = reconsume_times
            self.prepared_transaction_offset = prepared_transaction_offset
        except OverflowError as error:
            raise BadMessage(f"record: {error}") from None
        self.magic = magic
        self.born_host = born_host
        self.store_host = store_host
        self.topic = topic
        self.properties = properties
        self.has_checksum = has_checksum
        self.complete(body)

    def write(
        self,
        buffer,
        Py_ssize_t position,
        int64_t queue_offset,
        int64_t physical_offset,
        int64_t store_timestamp,
    ):
        """Writes `size` bytes from `position` on."""
        cdef Py_buffer body, target
        cdef Item item
        PyObject_GetBuffer(self.body, &body, PyBUF_SIMPLE)
        try:
            assert body.len == self.body_size, "the body has changed since"
            item.flag = self.flag
            item.body_crc = self.body_crc
            item.size = self.size
            item.body = Span(<const uint8_t*>body.buf, body.len)
            item.properties = Span(item.body.start, 0)  # A draft has them all in common.
            open_target(buffer, &target, position, self.size)
            self.put(
                <uint8_t*>target.buf + position,
                &item,
                queue_offset,
                physical_offset,
                store_timestamp,
            )
            PyBuffer_Release(&target)
        finally:
            PyBuffer_Release(&body)

    def pack(self, queue_offset, physical_offset, store_timestamp):
        """The record by itself."""
        record = bytearray(self.size)
        self.write(record, 0, queue_offset, physical_offset, store_timestamp)
        return bytes(record)

    cdef int complete(self, object body) except -1:
        """To be called once, when all members are set but those that it finds out."""
        self._note_addresses()
        cdef Py_ssize_t topic_size_max = layout.TOPIC_SIZE_MAX_V2
        if self.magic == layout.MAGIC_V1:
            topic_size_max = layout.TOPIC_SIZE_MAX_V1
        if PyBytes_GET_SIZE(self.topic) > topic_size_max:
            raise TooLarge("topic", PyBytes_GET_SIZE(self.topic), topic_size_max)
        # A checksum that came along belongs to another record and would condemn this one.
        if self.properties.find(CHECKSUM_NAME) < 0:
            self.kept_properties = self.properties
        else:
            self.kept_properties = without_property_bytes(self.properties, CHECKSUM_NAME)
        cdef Py_buffer view
        PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
        try:
            self.body = body
            self.body_size = view.len
            self.size = self.size_of(view.len, Span(NULL, 0))
            self.body_crc = crc31(<const uint8_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int turn_to(self, const Origin* origin, bytes born_host) except -1:
        """Be the draft of messages that came from elsewhere; their bodies are items."""
        self.queue_id = origin.queue_id
        self.sys_flag = origin.sys_flag
        self.born_timestamp = origin.born_timestamp
        self.reconsume_times = origin.reconsume_times
        self.born_host = born_host
        return self._note_addresses()

    cdef int _note_addresses(self) except -1:
        cdef Py_ssize_t born_size = PyBytes_GET_SIZE(self.born_host)
        cdef Py_ssize_t store_size = PyBytes_GET_SIZE(self.store_host)
        self.sys_flag &= ~(layout.BORN_HOST_V6 | layout.STORE_HOST_V6)
        if born_size == layout.HOST_SIZE_V4 and store_size == layout.HOST_SIZE_V4:
            return 0
        for size in (born_size, store_size):
            if size != layout.HOST_SIZE_V4 and size != layout.HOST_SIZE_V6:
                raise BadMessage(
                    f"hosts of {born_size} and {store_size} bytes are neither IPv4 nor IPv6"
                )
        if born_size == layout.HOST_SIZE_V6:
            self.sys_flag |= layout.BORN_HOST_V6
        if store_size == layout.HOST_SIZE_V6:
            self.sys_flag |= layout.STORE_HOST_V6
        return 0

    cdef Py_ssize_t size_of(self, Py_ssize_t body_size, Span own) except -1:
        """The size of a record with this body and these properties before those of the draft."""
        cdef Py_ssize_t properties_size = self._properties_size(own)
        if properties_size > layout.PROPERTIES_SIZE_MAX:
            raise TooLarge("properties", properties_size, layout.PROPERTIES_SIZE_MAX)
        if body_size > layout.BODY_SIZE_MAX:
            raise TooLarge("body", body_size, layout.BODY_SIZE_MAX)
        return (
            layout.BODY_AT
            + (PyBytes_GET_SIZE(self.born_host) - layout.HOST_SIZE_V4)
            + (PyBytes_GET_SIZE(self.store_host) - layout.HOST_SIZE_V4)
            + body_size
            + topic_size_width(self.magic)
            + PyBytes_GET_SIZE(self.topic)
            + layout.PROPERTIES_SIZE_WIDTH
            + properties_size
        )

    cdef Py_ssize_t _properties_size(self, Span own) noexcept:
        cdef Span kept = span_of(self.kept_properties)
        cdef Py_ssize_t size = own.size + _wants_separator(own) + kept.size
        if self.has_checksum:
            size += _wants_separator(kept) + layout.CHECKSUM_SIZE
        return size

    cdef uint8_t* put(
        self,
        uint8_t* start,
        const Item* item,
        int64_t queue_offset,
        int64_t physical_offset,
        int64_t store_timestamp,
    ) noexcept:
        """Writes the record of `item`; its end."""
        cdef Py_ssize_t width = topic_size_width(self.magic)
        cdef uint8_t* at
        # What comes after a long host lies further on than its number.
        cdef uint8_t* shifted = start
        put_int32(start, item.size)
        put_int32(start + layout.MAGIC_AT, self.magic)
        put_int32(start + layout.BODY_CRC_AT, item.body_crc)
        put_int32(start + layout.QUEUE_ID_AT, self.queue_id)
        put_int32(start + layout.FLAG_AT, item.flag)
        put_int64(start + layout.QUEUE_OFFSET_AT, queue_offset)
        put_int64(start + layout.PHYSICAL_OFFSET_AT, physical_offset)
        put_int32(start + layout.SYS_FLAG_AT, self.sys_flag)
        put_int64(start + layout.BORN_TIMESTAMP_AT, self.born_timestamp)
        put_bytes(start + layout.BORN_HOST_AT, self.born_host)
        shifted += PyBytes_GET_SIZE(self.born_host) - layout.HOST_SIZE_V4
        put_int64(shifted + layout.STORE_TIMESTAMP_AT, store_timestamp)
        put_bytes(shifted + layout.STORE_HOST_AT, self.store_host)
        shifted += PyBytes_GET_SIZE(self.store_host) - layout.HOST_SIZE_V4
        put_int32(shifted + layout.RECONSUME_TIMES_AT, self.reconsume_times)
        put_int64(shifted + layout.PREPARED_OFFSET_AT, self.prepared_transaction_offset)
        put_int32(shifted + layout.BODY_SIZE_AT, item.body.size)
        at = _put_span(shifted + layout.BODY_AT, item.body)
        if width == 1:
            at[0] = <uint8_t>PyBytes_GET_SIZE(self.topic)
        else:
            put_int16(at, <int32_t>PyBytes_GET_SIZE(self.topic))
        at = put_bytes(at + width, self.topic)
        put_int16(at, <int32_t>self._properties_size(item.properties))
        at = _put_separated(at + layout.PROPERTIES_SIZE_WIDTH, item.properties)
        if not self.has_checksum:
            return put_bytes(at, self.kept_properties)
        return put_checksum(_put_separated(at, span_of(self.kept_properties)), start)


cdef int open_target(
    object buffer, Py_buffer* target, Py_ssize_t position, Py_ssize_t size
) except -1:
    """The caller releases it."""
    PyObject_GetBuffer(buffer, target, PyBUF_WRITABLE)
    if position < 0 or size > target.len - position:
        PyBuffer_Release(target)
        raise IndexError(f"{size} bytes do not fit at byte {position}")
    return 0


cdef inline bint _wants_separator(Span properties) noexcept:
    """Whether one has to come between these and more of them."""
    return properties.size > 0 and properties.start[properties.size - 1] != layout.SEPARATOR


cdef inline uint8_t* _put_span(uint8_t* at, Span span) noexcept:
    memcpy(at, span.start, <size_t>span.size)
    return at + span.size


cdef inline uint8_t* _put_separated(uint8_t* at, Span properties) noexcept:
    """So that more of them can follow."""
    at = _put_span(at, properties)
    if _wants_separator(properties):
        at[0] = layout.SEPARATOR
        at += 1
    return at
