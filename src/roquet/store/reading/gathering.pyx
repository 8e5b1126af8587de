# cython: boundscheck=False, wraparound=False
"""The records that entries of one queue point to, as far as they have the common layout.

Every message that is read passes through here. Each entry is compared with its record before the
record is taken, whatever its bytes are. Anything else is left to the caller, which knows the
other kinds of records and handles damage.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    get_int32,
    get_int64,
    int32_t,
    int64_t,
    span_of,
    uint8_t,
)
from roquet.protocol.messages.record_filter cimport RecordFilter
from roquet.protocol.messages.record_layout cimport (
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
)
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    ends_in_checksum,
    has_common_layout,
    has_right_body,
    has_right_checksum,
    locate_record,
)
from roquet.store.queue_entries cimport ENTRY_SIZE, entry_code, entry_offset, entry_size
from roquet.store.record_scan cimport has_lost_checksum

cdef enum:
    # A smaller code is no hash but an address in a file that we do not write: every filter
    # has to pass it.
    _TAGS_CODE_MIN = -2147483648
    _RUN_COUNT_MAX = 128
    _AHEAD_COUNT = 4
    _FETCHED_SIZE_MAX = 1024  # Past it the processor prefetches by itself.
    _LINE_SIZE = 64

cdef extern from *:
    """
    /* A function that only prefetches has no effect known to compilers, and calls of it are removed.
     * Assembler counts as an effect. */
    static inline void roquet_prefetch(const void *at) {
        __builtin_prefetch(at);
        __asm__ volatile("");
    }
    """
    void prefetch "roquet_prefetch"(const void* at) noexcept nogil

@cython.final
cdef class Gathering:
    """The result of one read: never more than its limits, but one record however large it is.

    `count` and `size` are those of the records so far, `offset` is that of the next entry.
    None as a filter passes everything.
    """

    def __init__(self, limits, bytes entries not None, int64_t offset, queue):
        """`offset` is that of the first entry."""
        self.ask_for(limits)
        self.own_entries = entries
        self.begin(span_of(entries), offset, queue.topic, queue.queue_id)

    cdef int ask_for(self, limits) except -1:
        self.count_max = limits.count_max
        self.size_max = limits.size_max
        self.matches_code = limits.matches_code
        self.matches_record = limits.matches_record
        self.record_filter = (
            self.matches_record if isinstance(self.matches_record, RecordFilter) else None
        )

    cdef int begin(self, Span entries, int64_t offset, bytes topic, int64_t queue_id) except -1:
        self.entries = entries
        self.offset = offset
        self.topic = topic
        self.queue_id = <int32_t>queue_id
        self.pieces = []

    def limit(self, count_max, size_max):
        """Take less than was asked for."""
        self.count_max = min(self.count_max, count_max)
        self.size_max = min(self.size_max, size_max)

    def next_entry(self):
        """Physical offset and size of the next record that may be wanted; None at the end."""
        cdef const uint8_t* entry = self._find_entry()
        if entry is NULL:
            return None
        return entry_offset(entry), entry_size(entry)

    cpdef bint take_common(
        self,
        mapping,
        int64_t file_start,
        int64_t end,
        bint is_verified,
        int64_t checksums_from,
        int64_t fresh_from,
    ) except -1:
        """Take records of this file, up to an uncommon one; whether there were any.

        The log ends at `end`, or later. If the file is verified, records from `fresh_from` on are
        taken unchecked; all others are checked. From `checksums_from` on, none without a checksum is
        common.
        """
        cdef Py_buffer view
        cdef File file
        cdef int64_t offset = self.offset
        PyObject_GetBuffer(mapping, &view, PyBUF_SIMPLE)
        try:
            file.data = <const uint8_t*>view.buf
            file.start = file_start
            file.size = min(view.len, end - file_start)
            file.is_verified = is_verified
            file.checksums_from = checksums_from
            file.fresh_from = fresh_from
            self._fetch(&file, 0, _AHEAD_COUNT)
            while self._take_run(&file):
                pass
        finally:
            PyBuffer_Release(&view)
        return self.offset != offset

    def take(self, bytes record not None):
        """Take what was found for the next entry: a record, or nothing."""
        self.position += ENTRY_SIZE
        self.offset += 1
        if record and (self.matches_record is None or self.matches_record(record)):
            self.pieces.append(record)
            self.count += 1
            self.size += PyBytes_GET_SIZE(record)

    def body(self):
        """All records, one after another."""
        return self.whole_body()

    cdef bytes whole_body(self):
        if len(self.pieces) == 1:
            return self.pieces[0]
        return b"".join(self.pieces)

    cdef const uint8_t* _find_entry(self) except? NULL:
        """Passes over the entries that the filter drops; NULL at the end and at the limits."""
        cdef const uint8_t* entry
        cdef int64_t code
        while self.entries.size - self.position >= ENTRY_SIZE:
            entry = self.entries.start + self.position
            if self.count and (
                self.count >= self.count_max or self.size + entry_size(entry) > self.size_max
            ):
                return NULL
            if self.matches_code is None:
                return entry
            code = entry_code(entry)
            if code < _TAGS_CODE_MIN or self.matches_code(code):
                return entry
            self.position += ENTRY_SIZE
            self.offset += 1
        return NULL

    cdef bint _take_run(self, const File* file) except -1:
        """Take some records as one piece; whether there may be more of them."""
        cdef Span found[_RUN_COUNT_MAX]
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t run_size = 0
        cdef const uint8_t* entry
        cdef RecordParts record
        cdef bytes piece
        cdef uint8_t* at
        while count < _RUN_COUNT_MAX:
            entry = self._find_entry()
            if entry is NULL:
                break
            self._fetch(file, _AHEAD_COUNT, 1)
            if not self._is_common_record(_place_of(entry, file), file, &record):
                break
            self.position += ENTRY_SIZE
            self.offset += 1
            if self.matches_record is not None and not self._is_wanted(&record):
                continue
            found[count] = Span(record.start, record.size)
            count += 1
            run_size += record.size
            self.count += 1
            self.size += record.size
        if not count:
            return False
        piece = PyBytes_FromStringAndSize(NULL, run_size)
        at = <uint8_t*>PyBytes_AS_STRING(piece)
        for index in range(count):
            memcpy(at, found[index].start, <size_t>found[index].size)
            at += found[index].size
        self.pieces.append(piece)
        return count == _RUN_COUNT_MAX

    cdef void _fetch(self, const File* file, Py_ssize_t ahead, Py_ssize_t count) noexcept:
        """Prefetch `count` records, the first of which comes `ahead` entries later.

        The records between those of one queue belong to others, so the processor cannot predict
        the next address, and most of the time would be spent waiting for memory.
        """
        cdef Py_ssize_t position = self.position + ahead * ENTRY_SIZE
        cdef Py_ssize_t end = min(position + count * ENTRY_SIZE, self.entries.size)
        cdef Py_ssize_t line
        cdef Span record
        while end - position >= ENTRY_SIZE:
            record = _place_of(self.entries.start + position, file)
            line = 0
            while line < record.size and line < _FETCHED_SIZE_MAX:
                prefetch(record.start + line)
                line += _LINE_SIZE
            position += ENTRY_SIZE

    cdef bint _is_wanted(self, const RecordParts* record) except -1:
        if self.record_filter is not None:
            return self.record_filter.matches(record)
        return self.matches_record(bytes_of(Span(record.start, record.size)))

    cdef bint _is_common_record(
        self, Span place, const File* file, RecordParts* record
    ) noexcept:
        """Whether a common record of exactly this message lies there."""
        cdef Span topic = span_of(self.topic)
        return (
            locate_record(place.start, place.size, record)
            and record.size == place.size
            and has_common_layout(record.start)
            and get_int32(record.start + QUEUE_ID_AT) == self.queue_id
            and get_int64(record.start + QUEUE_OFFSET_AT) == self.offset
            and get_int64(record.start + PHYSICAL_OFFSET_AT)
            == file.start + (record.start - file.data)
            and record.topic.size == topic.size
            and not memcmp(record.topic.start, topic.start, <size_t>topic.size)
            and _is_right(record, file)
        )


cdef inline bint _is_right(
    const RecordParts* record, const File* file
) noexcept:
    """Whether its bytes are those that were written, as far as this has to be checked."""
    cdef int64_t physical_offset = file.start + (record.start - file.data)
    if file.is_verified and physical_offset >= file.fresh_from:
        return True
    if ends_in_checksum(record):
        # It covers the body, whose own CRC needs to be checked only once.
        return has_right_checksum(record) and (file.is_verified or has_right_body(record))
    if physical_offset >= file.checksums_from or not has_right_body(record):
        return False
    # In a file that was never verified, it may have lost its checksum.
    return file.is_verified or not has_lost_checksum(record, record.start - file.data)


cdef inline Span _place_of(const uint8_t* entry, const File* file) noexcept:
    """The bytes that the entry points to; empty unless the file holds all of them."""
    cdef int64_t position = entry_offset(entry) - file.start
    cdef int64_t size = entry_size(entry)
    if entry_offset(entry) < file.start or size < 0 or position > file.size - size:
        return Span(NULL, 0)
    return Span(file.data + position, size)
