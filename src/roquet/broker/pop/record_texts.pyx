# cython: boundscheck=False, wraparound=False
"""Records of the journal that are written again and again: of pops and of acks, without an object
for each of their values.

`journal_writing.py` writes all records, and is where their form is declared: the texts around the
numbers are cut from what it writes. What the fast path of appends does not take is left to it.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE

from roquet.protocol.binary cimport (
    Span,
    crc31,
    int32_t,
    int64_t,
    put_bytes,
    put_decimal,
    uint8_t,
)
from roquet.protocol.decimals cimport put_decimals
from roquet.protocol.messages.drafts cimport Item, Origin, RecordDraft
from roquet.protocol.scratch cimport Scratch
from roquet.store.fast_appends cimport FastAppends
from roquet.store.write_cursors cimport QueueCursor

cdef enum:
    _NUMBER_SIZE_MAX = 21  # with the comma after it
    _NUMBER_COUNT = 8  # beside the offsets
    # Of one record. Messages are popped by 32.
    _OFFSET_COUNT_MAX = 256
    # Groups times topics, of which honest brokers have fewer.
    _KNOWN_COUNT_MAX = 20_000

# Times that are larger are written by Python, whose numbers have no end.
cdef int64_t _TIME_MAX = 1 << 60

@cython.final
cdef class RecordTexts:
    """Writes records about the queues of one journal. Belongs to the event loop."""

    def __init__(self, FastAppends appends not None, RecordDraft draft not None, cut not None):
        """`draft` has what all records have in common, `cut` the texts of each kind."""
        self.appends = appends
        self._draft = draft
        self._topic = draft.topic
        self._host = draft.store_host
        self._pop_start, self._pop_next = cut.pop_properties
        self._ack_start = cut.ack_properties
        self._acks_start = cut.acks_properties
        self._pop_pieces = cut.pop_pieces
        self._ack_pieces = cut.ack_pieces
        self._acks_pieces = cut.acks_pieces
        self._pops = {}
        self._ack = {}
        self._acks = {}
        self._scratch = Scratch()

    cdef int64_t put_pop(
        self,
        int64_t journal_queue_id,
        key,
        offsets,
        int64_t invisible_ms,
        int64_t next_offset,
        int64_t now_ms,
    ) except -2:
        """The offset of the record in the journal; -1 if it has to be written in another way."""
        cdef tuple pieces
        cdef object queue = key[0]
        cdef int64_t start_offset = key[1]
        cdef int64_t pop_time_ms = key[2]
        cdef int64_t queue_id = queue[2]
        cdef Py_ssize_t count = len(offsets)
        cdef uint8_t* body
        cdef uint8_t* at
        cdef uint8_t* properties
        if count > _OFFSET_COUNT_MAX or invisible_ms >= _TIME_MAX or pop_time_ms >= _TIME_MAX:
            return -1
        pieces = self._pieces(self._pops, self._pop_pieces, queue)
        body = at = self._room(pieces, self._pop_start, count)
        at = _put_offsets(put_bytes(at, pieces[0]), offsets, count, start_offset)
        at = put_decimal(put_bytes(at, pieces[1]), invisible_ms)
        at = put_decimal(put_bytes(at, pieces[2]), count)
        at = put_decimal(put_bytes(at, pieces[3]), pop_time_ms)
        at = put_decimal(put_bytes(at, pieces[4]), queue_id)
        at = put_decimal(put_bytes(at, pieces[5]), pop_time_ms + invisible_ms)
        at = put_decimal(put_bytes(at, pieces[6]), start_offset)
        properties = put_bytes(at, pieces[7])
        at = put_decimal(put_bytes(properties, self._pop_start), now_ms)
        at = put_decimal(put_bytes(at, self._pop_next), next_offset)
        return self._append(
            journal_queue_id,
            Span(body, properties - body),
            Span(properties, at - properties),
            now_ms,
        )

    cdef int64_t put_acks(
        self, int64_t journal_queue_id, key, offsets, int64_t now_ms
    ) except -2:
        """The same, of messages of one check point."""
        cdef tuple pieces
        cdef bytes start
        cdef object queue = key[0]
        cdef int64_t start_offset = key[1]
        cdef int64_t pop_time_ms = key[2]
        cdef int64_t queue_id = queue[2]
        cdef Py_ssize_t count = len(offsets)
        cdef uint8_t* body
        cdef uint8_t* at
        cdef uint8_t* properties
        if not 0 < count <= _OFFSET_COUNT_MAX:
            return -1
        if count == 1:
            start = self._ack_start
            pieces = self._pieces(self._ack, self._ack_pieces, queue)
        else:
            start = self._acks_start
            pieces = self._pieces(self._acks, self._acks_pieces, queue)
        body = at = self._room(pieces, start, count)
        at = _put_offsets(put_bytes(at, pieces[0]), offsets, count, 0)
        at = put_decimal(put_bytes(at, pieces[1]), pop_time_ms)
        at = put_decimal(put_bytes(at, pieces[2]), queue_id)
        at = put_decimal(put_bytes(at, pieces[3]), start_offset)
        properties = put_bytes(at, pieces[4])
        at = put_decimal(put_bytes(properties, start), now_ms)
        return self._append(
            journal_queue_id,
            Span(body, properties - body),
            Span(properties, at - properties),
            now_ms,
        )

    cdef int64_t _append(
        self, int64_t journal_queue_id, Span body, Span properties, int64_t now_ms
    ) except -2:
        cdef QueueCursor queue
        cdef Item item
        cdef Origin origin
        cdef int64_t offset, physical_offset
        if not self.appends.is_open():
            return -1
        queue = self.appends.find(self._topic, journal_queue_id)
        if queue is None:
            return -1
        origin.queue_id = <int32_t>journal_queue_id
        origin.sys_flag = origin.reconsume_times = 0
        origin.born_timestamp = now_ms
        self._draft.turn_to(&origin, self._host)
        item.flag = 0
        item.body = body
        item.body_crc = crc31(body.start, body.size)
        item.properties = properties
        item.size = self._draft.size_of(body.size, properties)
        offset = queue.max_offset
        if not self.appends.append(queue, self._draft, &item, 1, now_ms, &physical_offset, NULL):
            return -1
        self.appends.want_flush()
        return offset

    cdef tuple _pieces(self, dict known, write, queue):
        name = queue[0], queue[1]
        cdef tuple pieces = known.get(name)
        if pieces is None:
            if len(known) >= _KNOWN_COUNT_MAX:
                known.clear()
            pieces = known[name] = tuple(write(queue))
        return pieces

    cdef uint8_t* _room(self, tuple pieces, bytes properties, Py_ssize_t count) except NULL:
        """For all texts and numbers of one record."""
        cdef Py_ssize_t size = (count + _NUMBER_COUNT + 2) * _NUMBER_SIZE_MAX
        cdef bytes piece
        size += PyBytes_GET_SIZE(properties) + PyBytes_GET_SIZE(self._pop_next)
        for piece in pieces:
            size += PyBytes_GET_SIZE(piece)
        return self._scratch.room(size)


cdef uint8_t* _put_offsets(uint8_t* at, offsets, Py_ssize_t count, int64_t origin) except NULL:
    """Each of them less `origin`, with commas between them."""
    cdef Py_ssize_t index
    if type(offsets) is range and offsets.step == 1 and offsets.start >= origin:
        return put_decimals(at, <int64_t>offsets.start - origin, count) if count else at
    for index in range(count):
        if index:
            at[0] = b","
            at += 1
        at = put_decimal(at, <int64_t>offsets[index] - origin)
    return at
