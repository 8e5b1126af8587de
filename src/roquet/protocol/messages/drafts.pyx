# cython: boundscheck=False, wraparound=False
"""Records in the making: everything is known of them but where and when they are stored.

    RecordDraft(...)           one message
    SentBatch(common, body)    came in one send: they differ in flag, body and properties
    DraftBatch(drafts)         each has a history of its own: when and where it was born

All of them write themselves to the place where they are stored, the latter two with all
their records one behind the other. How a record is laid out is drawn in `record.py`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memchr, memcmp, memcpy

from roquet.protocol.binary cimport (
    crc31,
    get_int16,
    get_int32,
    int32_t,
    int64_t,
    put_bytes,
    put_int16,
    put_int32,
    put_int64,
    uint8_t,
    uint32_t,
)
from roquet.protocol.messages.record_layout cimport (
    BODY_SIZE_MAX,
    BORN_HOST_V6,
    CHECKSUM_MARK_SIZE,
    CHECKSUM_SIZE,
    HOST_SIZE_V4,
    HOST_SIZE_V6,
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    SEPARATOR,
    STORE_HOST_V6,
    TOPIC_SIZE_MAX_V1,
    TOPIC_SIZE_MAX_V2,
)

from roquet.protocol.messages.batch import BATCH_COUNT_MAX, split_batch
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.properties import without_property_bytes
from roquet.protocol.messages.record import CHECKSUM_NAME

cdef enum:
    _TAGS_MARK_SIZE = 5
    _FIXED_SIZE = 72  # of all between the start of a record and its body, without the hosts
    _ENTRY_SIZE = 20
    _ITEM_HEAD_SIZE = 20

cdef const char* _CHECKSUM_MARK = b"__CRC32#\x01"
cdef const char* _TAGS_MARK = b"TAGS\x01"


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
        magic=MAGIC_V1,
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
        self.settle(body)

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
            item.body = <const uint8_t*>body.buf
            item.body_size = body.len
            item.properties = item.body  # None of its own: a draft has them all in common.
            item.properties_size = 0
            item.tags_code = 0
            _open_target(buffer, &target, position, self.size)
            self._put(
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

    cdef int settle(self, object body) except -1:
        """To be called once, when all members are set but those that it finds out."""
        self._note_addresses()
        cdef Py_ssize_t topic_size_max = TOPIC_SIZE_MAX_V2
        if self.magic == MAGIC_V1:
            topic_size_max = TOPIC_SIZE_MAX_V1
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
            self.size = self._size_of(view.len, NULL, 0)
            self.body_crc = crc31(<const uint8_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int _note_addresses(self) except -1:
        cdef Py_ssize_t born_size = PyBytes_GET_SIZE(self.born_host)
        cdef Py_ssize_t store_size = PyBytes_GET_SIZE(self.store_host)
        self.sys_flag &= ~(BORN_HOST_V6 | STORE_HOST_V6)
        if born_size == HOST_SIZE_V4 and store_size == HOST_SIZE_V4:
            return 0
        for size in (born_size, store_size):
            if size != HOST_SIZE_V4 and size != HOST_SIZE_V6:
                raise BadMessage(
                    f"hosts of {born_size} and {store_size} bytes are neither IPv4 nor IPv6"
                )
        if born_size == HOST_SIZE_V6:
            self.sys_flag |= BORN_HOST_V6
        if store_size == HOST_SIZE_V6:
            self.sys_flag |= STORE_HOST_V6
        return 0

    cdef Py_ssize_t _size_of(
        self, Py_ssize_t body_size, const uint8_t* own, Py_ssize_t own_size
    ) except -1:
        """The size of a record with this body and these properties before those of the draft."""
        cdef Py_ssize_t properties_size = self._properties_size(own, own_size)
        if properties_size > PROPERTIES_SIZE_MAX:
            raise TooLarge("properties", properties_size, PROPERTIES_SIZE_MAX)
        if body_size > BODY_SIZE_MAX:
            raise TooLarge("body", body_size, BODY_SIZE_MAX)
        return (
            _FIXED_SIZE
            + PyBytes_GET_SIZE(self.born_host)
            + PyBytes_GET_SIZE(self.store_host)
            + body_size
            + (1 if self.magic == MAGIC_V1 else 2)
            + PyBytes_GET_SIZE(self.topic)
            + 2
            + properties_size
        )

    cdef Py_ssize_t _properties_size(self, const uint8_t* own, Py_ssize_t own_size) noexcept:
        cdef const uint8_t* kept = <const uint8_t*>PyBytes_AS_STRING(self.kept_properties)
        cdef Py_ssize_t kept_size = PyBytes_GET_SIZE(self.kept_properties)
        cdef Py_ssize_t size = own_size + kept_size + _wants_separator(own, own_size)
        if self.has_checksum:
            size += _wants_separator(kept, kept_size) + CHECKSUM_SIZE
        return size

    cdef uint8_t* _put(
        self,
        uint8_t* start,
        const Item* item,
        int64_t queue_offset,
        int64_t physical_offset,
        int64_t store_timestamp,
    ) noexcept:
        """Writes the record of `item`; its end."""
        cdef uint8_t* at = start
        cdef uint32_t checksum
        put_int32(at, item.size)
        put_int32(at + 4, self.magic)
        put_int32(at + 8, item.body_crc)
        put_int32(at + 12, self.queue_id)
        put_int32(at + 16, item.flag)
        put_int64(at + 20, queue_offset)
        put_int64(at + 28, physical_offset)
        put_int32(at + 36, self.sys_flag)
        put_int64(at + 40, self.born_timestamp)
        at = put_bytes(at + 48, self.born_host)
        put_int64(at, store_timestamp)
        at = put_bytes(at + 8, self.store_host)
        put_int32(at, self.reconsume_times)
        put_int64(at + 4, self.prepared_transaction_offset)
        put_int32(at + 12, item.body_size)
        memcpy(at + 16, item.body, item.body_size)
        at += 16 + item.body_size
        if self.magic == MAGIC_V1:
            at[0] = <uint8_t>PyBytes_GET_SIZE(self.topic)
            at += 1
        else:
            put_int16(at, <int32_t>PyBytes_GET_SIZE(self.topic))
            at += 2
        at = put_bytes(at, self.topic)
        put_int16(at, <int32_t>self._properties_size(item.properties, item.properties_size))
        at += 2
        memcpy(at, item.properties, item.properties_size)
        at += item.properties_size
        if _wants_separator(item.properties, item.properties_size):
            at[0] = SEPARATOR
            at += 1
        at = put_bytes(at, self.kept_properties)
        if self.has_checksum:
            if _wants_separator(
                <const uint8_t*>PyBytes_AS_STRING(self.kept_properties),
                PyBytes_GET_SIZE(self.kept_properties),
            ):
                at[0] = SEPARATOR
                at += 1
            checksum = crc31(start, at - start)
            memcpy(at, _CHECKSUM_MARK, CHECKSUM_MARK_SIZE)
            at += CHECKSUM_MARK_SIZE
            # Ten digits, the least significant one first.
            for _ in range(10):
                at[0] = <uint8_t>(48 + checksum % 10)
                checksum //= 10
                at += 1
            at[0] = SEPARATOR
            at += 1
        return at


@cython.final
cdef class SentBatch:
    """`common` is what all records have, with the properties that each gets behind its own.

    `body` is one of `batch.py`. Raises TooLarge for more than its limit of messages or one that
    does not fit into a record, BadMessage when sizes do not add up.
    """

    cdef readonly bytes topic
    cdef readonly int queue_id
    cdef readonly Py_ssize_t body_size  # of all together
    cdef readonly Py_ssize_t size  # of all records together
    cdef readonly list sizes
    cdef RecordDraft common
    cdef bytes body
    cdef Item* items

    def __init__(self, RecordDraft common not None, bytes body not None):
        assert not common.body_size, "a body belongs to one message"
        if body.find(CHECKSUM_NAME) >= 0:
            # What looks like a checksum belongs to another record and would condemn this one.
            body = encode_batch(
                [
                    (flag, each, without_property_bytes(properties, CHECKSUM_NAME))
                    for flag, each, properties in split_batch(body)
                ]
            )
        self.topic = common.topic
        self.queue_id = common.queue_id
        self.common = common
        self.body = body
        self.sizes = []
        cdef Py_ssize_t count = self._count()
        PyMem_Free(self.items)
        self.items = <Item*>PyMem_Malloc(max(count, 1) * sizeof(Item))
        if self.items is NULL:
            raise MemoryError
        self._find_items(count)

    def __dealloc__(self):
        PyMem_Free(self.items)

    def write(
        self,
        buffer,
        Py_ssize_t position,
        int64_t queue_offset,
        int64_t physical_offset,
        int64_t store_timestamp,
    ):
        """Writes `size` bytes from `position` on; the offsets are those of the first record."""
        cdef Py_buffer target
        cdef Py_ssize_t index
        cdef uint8_t* at
        _open_target(buffer, &target, position, self.size)
        at = <uint8_t*>target.buf + position
        for index in range(len(self.sizes)):
            at = self.common._put(
                at,
                &self.items[index],
                queue_offset + index,
                physical_offset + (at - (<uint8_t*>target.buf + position)),
                store_timestamp,
            )
        PyBuffer_Release(&target)

    def entries(self, int64_t physical_offset):
        """What the queue says of the records, if the first one lies there."""
        cdef Py_ssize_t count = len(self.sizes)
        cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * _ENTRY_SIZE)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(entries)
        for index in range(count):
            put_int64(at, physical_offset)
            put_int32(at + 8, self.items[index].size)
            put_int64(at + 12, self.items[index].tags_code)
            physical_offset += self.items[index].size
            at += _ENTRY_SIZE
        return entries

    cdef Py_ssize_t _count(self) except -1:
        """How many messages there are; all sizes are checked."""
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(self.body)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(self.body)
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t body_end, parts_end
        cdef int32_t size, body_size, properties_size
        while position < end:
            if end - position < _ITEM_HEAD_SIZE:
                raise BadMessage(f"a batch of {end} bytes ends within an item")
            size = get_int32(data + position)
            body_size = get_int32(data + position + 16)
            if body_size < 0:
                raise BadMessage(f"batch item with a body of {body_size} bytes")
            body_end = position + _ITEM_HEAD_SIZE + body_size
            if body_end + 2 > end:
                raise BadMessage(f"a batch of {end} bytes ends within an item")
            properties_size = get_int16(data + body_end)
            parts_end = body_end + 2 + properties_size
            if properties_size < 0 or parts_end != position + size or parts_end > end:
                raise BadMessage(f"the parts of a batch item do not add up to its {size} bytes")
            position = parts_end
            count += 1
            if count > BATCH_COUNT_MAX:
                raise TooLarge("batch", count, BATCH_COUNT_MAX)
        return count

    cdef int _find_items(self, Py_ssize_t count) except -1:
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(self.body)
        cdef bytes shared = self.common.kept_properties
        cdef bint is_tagged = False
        cdef int32_t shared_code = tags_code(
            <const uint8_t*>PyBytes_AS_STRING(shared), PyBytes_GET_SIZE(shared), &is_tagged
        )
        cdef Item* item
        for index in range(count):
            item = &self.items[index]
            item.flag = get_int32(at + 12)
            item.body_size = get_int32(at + 16)
            item.body = at + _ITEM_HEAD_SIZE
            item.body_crc = crc31(item.body, item.body_size)
            item.properties = item.body + item.body_size + 2
            item.properties_size = get_int16(item.properties - 2)
            item.size = self.common._size_of(
                item.body_size, item.properties, item.properties_size
            )
            item.tags_code = shared_code
            if not is_tagged:
                item.tags_code = tags_code(item.properties, item.properties_size, NULL)
            self.body_size += item.body_size
            self.size += item.size
            self.sizes.append(item.size)
            at = item.properties + item.properties_size
        return 0


@cython.final
cdef class DraftBatch:
    """The drafts are of one queue."""

    cdef readonly bytes topic
    cdef readonly int queue_id
    cdef readonly Py_ssize_t body_size, size
    cdef readonly list sizes
    cdef list drafts

    def __init__(self, drafts):
        cdef RecordDraft draft
        self.drafts = list(drafts)
        self.topic = (<RecordDraft?>self.drafts[0]).topic
        self.queue_id = (<RecordDraft?>self.drafts[0]).queue_id
        self.sizes = []
        for draft in self.drafts:
            assert draft.queue_id == self.queue_id and draft.topic == self.topic, "another queue"
            self.body_size += draft.body_size
            self.size += draft.size
            self.sizes.append(draft.size)

    def write(self, buffer, position, queue_offset, physical_offset, store_timestamp):
        """Writes `size` bytes from `position` on; the offsets are those of the first record."""
        cdef RecordDraft draft
        for draft in self.drafts:
            draft.write(buffer, position, queue_offset, physical_offset, store_timestamp)
            position += draft.size
            physical_offset += draft.size
            queue_offset += 1

    def entries(self, int64_t physical_offset):
        """What the queue says of the records, if the first one lies there."""
        cdef RecordDraft draft
        cdef bytes entries = PyBytes_FromStringAndSize(NULL, len(self.drafts) * _ENTRY_SIZE)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(entries)
        for draft in self.drafts:
            put_int64(at, physical_offset)
            put_int32(at + 8, draft.size)
            put_int64(at + 12, tags_code_of(draft.properties))
            physical_offset += draft.size
            at += _ENTRY_SIZE
        return entries


RecordBatch = SentBatch | DraftBatch


def tags_code_of(bytes properties not None):
    """The hash of the tag, which is what a queue knows of it; 0 without one."""
    return tags_code(
        <const uint8_t*>PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties), NULL
    )


cdef int32_t tags_code(const uint8_t* text, Py_ssize_t size, bint* is_tagged) except? -1:
    """`is_tagged`, if asked for, says whether there was a tag at all."""
    cdef const uint8_t* end = text + size
    cdef const uint8_t* at = text
    cdef const uint8_t* value = NULL
    cdef const uint8_t* value_end = NULL
    cdef const uint8_t* next
    # Of equal names the last one counts, and an empty one is not there.
    while at < end:
        next = <const uint8_t*>memchr(at, SEPARATOR, end - at)
        if next is NULL:
            next = end
        if next - at > _TAGS_MARK_SIZE and not memcmp(at, _TAGS_MARK, _TAGS_MARK_SIZE):
            value = at + _TAGS_MARK_SIZE
            value_end = next
        at = next + 1
    if is_tagged is not NULL:
        is_tagged[0] = value is not NULL
    if value is NULL:
        return 0
    cdef uint32_t code = 0
    at = value
    while at < value_end:
        if at[0] > 127:
            return <int32_t>java_hash(value[: value_end - value].decode("utf-8", "replace"))
        code = 31 * code + at[0]
        at += 1
    return <int32_t>code


cdef inline bint _wants_separator(const uint8_t* properties, Py_ssize_t size) noexcept:
    """Whether one has to come between these and more of them."""
    return size > 0 and properties[size - 1] != SEPARATOR


cdef int _open_target(
    object buffer, Py_buffer* target, Py_ssize_t position, Py_ssize_t size
) except -1:
    """The caller releases it."""
    PyObject_GetBuffer(buffer, target, PyBUF_WRITABLE)
    if position < 0 or size > target.len - position:
        PyBuffer_Release(target)
        raise IndexError(f"{size} bytes do not fit at byte {position}")
    return 0
