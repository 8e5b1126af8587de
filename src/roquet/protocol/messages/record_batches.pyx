# cython: boundscheck=False, wraparound=False
"""Records of one queue that are stored together, all or none.

    SentBatch(common, body)    came in one send: they differ in flag, body and properties
    DraftBatch(drafts)         each has a history of its own: when and where it was born

Both write all their records one after another, and return what the queue has to know.
"""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from roquet.protocol.binary cimport (
    Span,
    crc31,
    get_int16,
    get_int32,
    int64_t,
    span_of,
    uint8_t,
)
from roquet.protocol.messages.batch_layout cimport (
    ITEM_BODY_SIZE_AT,
    ITEM_FLAG_AT,
    ITEM_HEAD_SIZE,
)
from roquet.protocol.messages.drafts cimport Item, RecordDraft, open_target
from roquet.protocol.messages.tags cimport code_of, find_tags

from roquet.protocol.messages.batch import BATCH_COUNT_MAX, split_batch
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.properties import without_property_bytes
from roquet.protocol.messages.record import CHECKSUM_NAME
from roquet.protocol.messages.tags import tags_code_of


@cython.final
cdef class SentBatch:
    """`common` is what all records have, with the properties that each gets after its own.

    `body` is one of `batch.py`. Raises TooLarge for more than its limit of messages or one that
    does not fit into a record, BadMessage when sizes do not add up.
    """

    cdef readonly bytes topic
    cdef readonly int queue_id
    cdef readonly Py_ssize_t body_size  # of all together
    cdef readonly Py_ssize_t size  # of all records together
    cdef readonly list sizes, tags_codes
    cdef RecordDraft common
    cdef bytes body
    cdef Py_ssize_t count
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
        self.tags_codes = []
        self.count = self._count()
        PyMem_Free(self.items)
        self.items = <Item*>PyMem_Malloc(max(self.count, 1) * sizeof(Item))
        if self.items is NULL:
            raise MemoryError
        self._find_items()

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
        open_target(buffer, &target, position, self.size)
        at = <uint8_t*>target.buf + position
        for index in range(self.count):
            at = self.common.put(
                at,
                &self.items[index],
                queue_offset + index,
                physical_offset + (at - (<uint8_t*>target.buf + position)),
                store_timestamp,
            )
        PyBuffer_Release(&target)

    cdef Py_ssize_t _count(self) except -1:
        """How many messages there are; all sizes are checked."""
        cdef Py_ssize_t count = count_items(span_of(self.body))
        if count < 0 or count > BATCH_COUNT_MAX:
            split_batch(self.body)  # Raises with the reason.
            raise AssertionError("a batch that only one of two readers refuses")
        return count

    cdef int _find_items(self) except -1:
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(self.body)
        cdef Span shared_tags = find_tags(span_of(self.common.kept_properties))
        cdef Span tags
        cdef Item* item
        for index in range(self.count):
            item = &self.items[index]
            at = read_item(at, item)
            item.size = self.common.size_of(item.body.size, item.properties)
            tags = shared_tags
            if tags.start is NULL:
                tags = find_tags(item.properties)
            self.body_size += item.body.size
            self.size += item.size
            self.sizes.append(item.size)
            self.tags_codes.append(code_of(tags))
        return 0


cdef Py_ssize_t count_items(Span body) noexcept nogil:
    """How many messages a batch has; -1 if their sizes do not add up to its size."""
    cdef const uint8_t* at = body.start
    cdef Py_ssize_t rest = body.size
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t size, body_size, properties_size
    while rest > 0:
        if rest < ITEM_HEAD_SIZE:
            return -1
        size = get_int32(at)
        body_size = get_int32(at + ITEM_BODY_SIZE_AT)
        if body_size < 0 or body_size > rest - ITEM_HEAD_SIZE - 2:
            return -1
        properties_size = get_int16(at + ITEM_HEAD_SIZE + body_size)
        if (
            properties_size < 0
            or size != ITEM_HEAD_SIZE + body_size + 2 + properties_size
            or size > rest
        ):
            return -1
        at += size
        rest -= size
        count += 1
    return count


cdef const uint8_t* read_item(const uint8_t* at, Item* item) noexcept nogil:
    """All but the size of its record; returned is the item's end. `count_items` has looked at it."""
    item.flag = get_int32(at + ITEM_FLAG_AT)
    item.body = Span(at + ITEM_HEAD_SIZE, get_int32(at + ITEM_BODY_SIZE_AT))
    item.body_crc = crc31(item.body.start, item.body.size)
    at = item.body.start + item.body.size
    item.properties = Span(at + 2, get_int16(at))
    return item.properties.start + item.properties.size


@cython.final
cdef class DraftBatch:
    """The drafts are of one queue."""

    cdef readonly bytes topic
    cdef readonly int queue_id
    cdef readonly Py_ssize_t body_size, size
    cdef readonly list sizes, tags_codes
    cdef list drafts

    def __init__(self, drafts):
        cdef RecordDraft draft
        self.drafts = list(drafts)
        self.topic = (<RecordDraft?>self.drafts[0]).topic
        self.queue_id = (<RecordDraft?>self.drafts[0]).queue_id
        self.sizes = []
        self.tags_codes = []
        for draft in self.drafts:
            assert draft.queue_id == self.queue_id and draft.topic == self.topic, "another queue"
            self.body_size += draft.body_size
            self.size += draft.size
            self.sizes.append(draft.size)
            self.tags_codes.append(tags_code_of(draft.properties))

    def write(self, buffer, position, queue_offset, physical_offset, store_timestamp):
        """Writes `size` bytes from `position` on; the offsets are those of the first record."""
        cdef RecordDraft draft
        for draft in self.drafts:
            draft.write(buffer, position, queue_offset, physical_offset, store_timestamp)
            position += draft.size
            physical_offset += draft.size
            queue_offset += 1


RecordBatch = SentBatch | DraftBatch
