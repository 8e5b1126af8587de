# cython: boundscheck=False, wraparound=False
"""The records that entries of one queue lead to, as far as they are of the usual kind.

Every message that anybody reads passes through here. An entry is compared with its record
before that is taken, whatever bytes there are; what does not look as usual is left to the
caller, who knows more kinds of records, and what to do about damage.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

from roquet.protocol.binary cimport (
    crc31,
    get_int16,
    get_int32,
    get_int64,
    get_uint32,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
)
from roquet.protocol.messages.record_layout cimport (
    ADDRESS_BITS,
    BODY_AT,
    BODY_CRC_AT,
    BODY_SIZE_AT,
    CHECKSUM_MARK_SIZE,
    CHECKSUM_SIZE,
    MAGIC_AT,
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SEPARATOR,
    SYS_FLAG_AT,
)

cdef enum:
    _ENTRY_SIZE = 20
    # What lies below is no hash but an address in a file that we do not write: every filter
    # has to let it pass.
    _TAGS_CODE_MIN = -2147483648
    _RUN_COUNT_MAX = 128
    _AHEAD_COUNT = 4
    _FETCHED_SIZE_MAX = 1024  # Behind it the processor guesses right.
    _LINE_SIZE = 64

cdef const char* _CHECKSUM_MARK = b"__CRC32#\x01"

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* at) noexcept nogil

cdef struct File:
    const uint8_t* data
    int64_t start  # in the log
    int64_t size
    bint is_verified

cdef struct Place:
    const uint8_t* start
    Py_ssize_t size


@cython.final
cdef class Gathering:
    """What one read brings: never more than its limits, but one record however large it is.

    `count` and `size` are those of the records so far, `offset` is that of the entry to come.
    None as a filter lets everything pass.
    """

    cdef readonly Py_ssize_t count
    cdef readonly int64_t size
    cdef readonly int64_t offset
    cdef Py_ssize_t count_max
    cdef int64_t size_max
    cdef object matches_code, matches_record
    cdef bytes entries
    cdef Py_ssize_t position
    cdef int32_t queue_id
    cdef bytes topic_field
    cdef list pieces

    def __init__(self, limits, bytes entries not None, int64_t offset, queue):
        """`offset` is that of the first entry."""
        self.count_max = limits.count_max
        self.size_max = limits.size_max
        self.matches_code = limits.matches_code
        self.matches_record = limits.matches_record
        self.entries = entries
        self.offset = offset
        self.queue_id = queue.queue_id
        self.topic_field = queue.topic_field
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
        return get_int64(entry), get_int32(entry + 8)

    def take_usual(self, mapping, int64_t file_start, int64_t end, bint is_verified):
        """Take records that lie in this file, up to an unusual one; whether there were any.

        The log ends at `end`, or later. Unless the file is verified, only records are usual that
        have a checksum, and it is right.
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
            while self._take_run(&file):
                pass
        finally:
            PyBuffer_Release(&view)
        return self.offset != offset

    def take(self, bytes record not None):
        """Take what was found for the next entry: a record, or nothing."""
        self.position += _ENTRY_SIZE
        self.offset += 1
        if record and (self.matches_record is None or self.matches_record(record)):
            self.pieces.append(record)
            self.count += 1
            self.size += PyBytes_GET_SIZE(record)

    def body(self):
        """All records, one behind the other."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        return b"".join(self.pieces)

    cdef const uint8_t* _find_entry(self) except? NULL:
        """Passes by the entries that the filter drops; NULL at the end and at the limits."""
        cdef const uint8_t* entry
        cdef int64_t code
        while PyBytes_GET_SIZE(self.entries) - self.position >= _ENTRY_SIZE:
            entry = <const uint8_t*>PyBytes_AS_STRING(self.entries) + self.position
            if self.count and (
                self.count >= self.count_max or self.size + get_int32(entry + 8) > self.size_max
            ):
                return NULL
            if self.matches_code is None:
                return entry
            code = get_int64(entry + 12)
            if code < _TAGS_CODE_MIN or self.matches_code(code):
                return entry
            self.position += _ENTRY_SIZE
            self.offset += 1
        return NULL

    cdef bint _take_run(self, const File* file) except -1:
        """Take so many records as one piece; whether there may be more of them."""
        cdef Place places[_RUN_COUNT_MAX]
        cdef Py_ssize_t place_count = 0
        cdef Py_ssize_t run_size = 0
        cdef const uint8_t* entry
        cdef const uint8_t* record
        cdef Py_ssize_t size
        cdef bytes piece
        cdef uint8_t* at
        while place_count < _RUN_COUNT_MAX:
            entry = self._find_entry()
            if entry is NULL:
                break
            self._fetch_ahead(file)
            record = self._usual_record(entry, file)
            if record is NULL:
                break
            self.position += _ENTRY_SIZE
            self.offset += 1
            size = get_int32(entry + 8)
            if self.matches_record is not None and not self.matches_record(record[:size]):
                continue
            places[place_count].start = record
            places[place_count].size = size
            place_count += 1
            run_size += size
            self.count += 1
            self.size += size
        if not place_count:
            return False
        piece = PyBytes_FromStringAndSize(NULL, run_size)
        at = <uint8_t*>PyBytes_AS_STRING(piece)
        for index in range(place_count):
            memcpy(at, places[index].start, places[index].size)
            at += places[index].size
        self.pieces.append(piece)
        return place_count == _RUN_COUNT_MAX

    cdef void _fetch_ahead(self, const File* file) noexcept:
        """Have the memory send a record that comes some entries later.

        Those between the records of one queue belong to others, so the processor does not guess
        where the next one lies, and most of the time would be spent waiting for it.
        """
        cdef Py_ssize_t position = self.position + _AHEAD_COUNT * _ENTRY_SIZE
        if PyBytes_GET_SIZE(self.entries) - position < _ENTRY_SIZE:
            return
        cdef const uint8_t* entry = <const uint8_t*>PyBytes_AS_STRING(self.entries) + position
        cdef int64_t physical_offset = get_int64(entry)
        cdef int64_t size = get_int32(entry + 8)
        if physical_offset < file.start or physical_offset - file.start > file.size - size:
            return
        cdef const uint8_t* record = file.data + (physical_offset - file.start)
        cdef int64_t line = 0
        while line < size and line < _FETCHED_SIZE_MAX:
            prefetch(record + line)
            line += _LINE_SIZE

    cdef const uint8_t* _usual_record(self, const uint8_t* entry, const File* file) noexcept:
        """NULL unless the entry leads to a usual record of this very message in the file."""
        cdef int64_t physical_offset = get_int64(entry)
        cdef int64_t size = get_int32(entry + 8)
        cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(self.topic_field)
        if physical_offset < file.start or physical_offset - file.start > file.size - size:
            return NULL
        # Now the room for a body is known to be there, and every sum below to be a small one.
        cdef int64_t room = size - BODY_AT - topic_size - 2
        if room < 0:
            return NULL
        cdef const uint8_t* record = file.data + (physical_offset - file.start)
        if (
            get_int32(record) != size
            or get_int32(record + MAGIC_AT) != MAGIC_V1
            or get_int32(record + QUEUE_ID_AT) != self.queue_id
            or get_int64(record + QUEUE_OFFSET_AT) != self.offset
            or get_int64(record + PHYSICAL_OFFSET_AT) != physical_offset
            or get_int32(record + SYS_FLAG_AT) & ADDRESS_BITS
        ):
            return NULL
        cdef int64_t body_size = get_int32(record + BODY_SIZE_AT)
        if body_size < 0 or body_size > room:
            return NULL
        cdef const uint8_t* topic = record + BODY_AT + body_size
        if memcmp(topic, PyBytes_AS_STRING(self.topic_field), topic_size):
            return NULL
        cdef int64_t properties_size = room - body_size
        if get_int16(topic + topic_size) != properties_size:
            return NULL
        if not file.is_verified and (
            not _has_right_checksum(record, size, properties_size)
            or crc31(record + BODY_AT, body_size) != get_uint32(record + BODY_CRC_AT)
        ):
            return NULL
        return record


cdef bint _has_right_checksum(
    const uint8_t* record, int64_t size, int64_t properties_size
) noexcept:
    """Whether a record ends in a checksum of its own, and that is right."""
    cdef const uint8_t* at = record + size - CHECKSUM_SIZE
    if properties_size < CHECKSUM_SIZE or memcmp(at, _CHECKSUM_MARK, CHECKSUM_MARK_SIZE):
        return False
    # Only a property of its own is a checksum.
    if properties_size > CHECKSUM_SIZE and (at - 1)[0] != SEPARATOR:
        return False
    cdef uint32_t checksum = crc31(record, size - CHECKSUM_SIZE)
    at += CHECKSUM_MARK_SIZE
    # Ten digits, the least significant one first.
    for _ in range(10):
        if at[0] != 48 + checksum % 10:
            return False
        checksum //= 10
        at += 1
    return at[0] == SEPARATOR
