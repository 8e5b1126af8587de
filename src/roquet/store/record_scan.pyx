# cython: boundscheck=False, wraparound=False
"""Records of the usual kind one behind the other, each one checked: one loop, two results.

    scan_heads   what is asked of each record
    scan_runs    what goes into the queues

Usual are those of magic V1 with short addresses, which is how `record.py` draws them. Both
functions stop before anything else and leave it to `log_scan.py`, which says what is good.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memcmp

from roquet.protocol.binary cimport (
    crc31,
    get_int32,
    get_int64,
    get_uint16,
    int32_t,
    int64_t,
    put_int32,
    put_int64,
    uint8_t,
    uint32_t,
    uint64_t,
)
from roquet.protocol.messages.drafts cimport tags_code
from roquet.protocol.messages.record_layout cimport (
    ADDRESS_BITS,
    BODY_AT,
    BODY_CRC_AT,
    BODY_SIZE_AT,
    CHECKSUM_DIGITS,
    CHECKSUM_MARK_SIZE,
    CHECKSUM_SIZE,
    MAGIC_AT,
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    SEPARATOR,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
)

cdef enum:
    # A disk writes a sector as a whole or not at all.
    _SECTOR_SIZE = 512
    _ENTRY_SIZE = 20
    _PREPARED = 0x4  # and rolled back: both have this bit, and are in no queue
    _SCHEDULE_TOPIC_SIZE = 19
    # So many queues are kept apart at once, since they are looked for one by one.
    _RUN_COUNT_MAX = 256

cdef const char* _CHECKSUM_MARK = b"__CRC32#\x01"
cdef const char* _SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"

cdef enum Verdict:
    GOOD
    ODD
    ELSEWHERE
    WRONG_SIZES
    BROKEN_CHECKSUM
    BROKEN_BODY
    LOST_CHECKSUM

_REASONS = {
    ODD: None,
    WRONG_SIZES: "its sizes do not add up",
    BROKEN_CHECKSUM: "breaks its checksum",
    BROKEN_BODY: "its body breaks its CRC",
    LOST_CHECKSUM: "its checksum is damaged",
}


cdef struct Head:
    int64_t physical_offset
    int32_t size
    int32_t queue_id
    int64_t queue_offset
    int32_t sys_flag
    int64_t store_timestamp
    const uint8_t* topic
    Py_ssize_t topic_size
    const uint8_t* properties
    Py_ssize_t properties_size


cdef struct Entry:
    int64_t physical_offset
    int32_t size
    int32_t tags_code
    Py_ssize_t run


cdef struct Run:
    const uint8_t* topic
    Py_ssize_t topic_size
    int32_t queue_id
    int64_t first_offset
    Py_ssize_t count
    bint is_over  # another run of the same queue has begun
    uint8_t* at


cdef struct Runs:
    Run* runs
    Py_ssize_t count
    Py_ssize_t last_found
    Entry* entries
    Py_ssize_t entry_count


def scan_heads(buffer, int64_t base, Py_ssize_t position, Py_ssize_t end, Py_ssize_t size_max):
    """The records between two bytes of a file, and no more when they take `size_max` bytes.

    `base` is the physical offset of byte 0. Returns what `LogRecord` takes of each, where the
    scan stopped, and why: None if it got to the end or the maximum, or what comes is not of the
    usual kind.
    """
    cdef Py_ssize_t start = position
    cdef Py_buffer view
    cdef Head head
    cdef Verdict verdict = GOOD
    cdef list heads = []
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        end = min(end, view.len)
        while 0 <= position <= end - RECORD_SIZE_MIN and position - start < size_max:
            verdict = _check(<const uint8_t*>view.buf, base, position, end, &head)
            if verdict != GOOD:
                break
            heads.append(_members(&head))
            position += head.size
    finally:
        PyBuffer_Release(&view)
    return heads, position, _reason(verdict, &head)


def scan_runs(buffer, int64_t base, Py_ssize_t position, Py_ssize_t end, Py_ssize_t size_max):
    """The same records as queues want them.

    Returns their count, the times of the last and of the latest one, the runs, the delayed
    ones, where the scan stopped, and why. A run is topic, queue id, queue offset of the first,
    and entries of consecutive ones; runs of one queue come in the order of the log. The delayed
    ones are in no run, because their entries take more than the record.
    """
    cdef Py_ssize_t start = position
    cdef Py_ssize_t count_max = size_max // RECORD_SIZE_MIN + 1
    cdef Py_buffer view
    cdef Head head
    cdef Verdict verdict = GOOD
    cdef Py_ssize_t count = 0
    cdef int64_t last = 0
    cdef int64_t latest = 0
    cdef list delayed = []
    cdef Runs found
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        _make_room(&found, count_max)
        end = min(end, view.len)
        while (
            0 <= position <= end - RECORD_SIZE_MIN
            and position - start < size_max
            and found.count < _RUN_COUNT_MAX
        ):
            verdict = _check(<const uint8_t*>view.buf, base, position, end, &head)
            if verdict != GOOD:
                break
            if not head.sys_flag & _PREPARED:
                if _is_delayed(&head):
                    delayed.append(_members(&head))
                else:
                    _enter(&found, &head)
            last = head.store_timestamp
            latest = max(latest, last)
            count += 1
            position += head.size
        runs = _packed_runs(&found)
    finally:
        PyMem_Free(found.entries)
        PyMem_Free(found.runs)
        PyBuffer_Release(&view)
    return count, last, latest, runs, delayed, position, _reason(verdict, &head)


cdef Verdict _check(
    const uint8_t* data, int64_t base, Py_ssize_t position, Py_ssize_t end, Head* head
) noexcept:
    """What is wrong with the record at `position`. A record of the least size fits there."""
    cdef const uint8_t* start = data + position
    cdef const uint8_t* record_end
    cdef const uint8_t* body_end
    cdef int32_t body_size = get_int32(start + BODY_SIZE_AT)
    head.size = get_int32(start)
    head.queue_id = get_int32(start + QUEUE_ID_AT)
    head.queue_offset = get_int64(start + QUEUE_OFFSET_AT)
    head.physical_offset = get_int64(start + PHYSICAL_OFFSET_AT)
    head.sys_flag = get_int32(start + SYS_FLAG_AT)
    head.store_timestamp = get_int64(start + STORE_TIMESTAMP_AT)
    if get_int32(start + MAGIC_AT) != MAGIC_V1 or head.sys_flag & ADDRESS_BITS:
        return ODD
    if head.physical_offset != base + position:
        return ELSEWHERE
    if head.size < RECORD_SIZE_MIN or head.size > end - position:
        return WRONG_SIZES
    if body_size < 0 or body_size > head.size - RECORD_SIZE_MIN:
        return WRONG_SIZES
    record_end = start + head.size
    body_end = start + BODY_AT + body_size
    head.topic = body_end + 1
    head.topic_size = body_end[0]
    head.properties = head.topic + head.topic_size + 2
    head.properties_size = record_end - head.properties
    if head.properties_size < 0 or get_uint16(head.properties - 2) != head.properties_size:
        return WRONG_SIZES
    if _has_checksum(head):
        # It covers the body, so the CRC of the body need not be made.
        if start[head.size - 1] == SEPARATOR and _has_its_digits(start, head):
            return GOOD
        return BROKEN_CHECKSUM
    if crc31(start + BODY_AT, body_size) != <uint32_t>get_int32(start + BODY_CRC_AT):
        return BROKEN_BODY
    return LOST_CHECKSUM if _has_lost_checksum(start, position, head) else GOOD


cdef inline bint _has_checksum(const Head* head) noexcept:
    return head.properties_size >= CHECKSUM_SIZE and not memcmp(
        head.properties + head.properties_size - CHECKSUM_SIZE,
        _CHECKSUM_MARK,
        CHECKSUM_MARK_SIZE,
    )


cdef bint _has_its_digits(const uint8_t* start, const Head* head) noexcept:
    """Whether the digits of a checksum are there, and those of the bytes before its property."""
    cdef const uint8_t* first = start + head.size - 1 - CHECKSUM_DIGITS
    cdef const uint8_t* digit = start + head.size - 1
    cdef uint64_t checksum = 0
    # The least significant one comes first.
    while digit > first:
        digit -= 1
        if not 48 <= digit[0] <= 57:
            return False
        checksum = checksum * 10 + digit[0] - 48
    return checksum == crc31(start, head.size - CHECKSUM_SIZE)


cdef bint _has_lost_checksum(
    const uint8_t* start, Py_ssize_t position, const Head* head
) noexcept:
    """The same as in `log_scan.py`, of a record that does not end with the mark of a checksum."""
    cdef Py_ssize_t last_written, index
    if (
        CHECKSUM_MARK_SIZE <= head.properties_size < CHECKSUM_SIZE
        and not memcmp(head.properties, _CHECKSUM_MARK, CHECKSUM_MARK_SIZE)
    ):
        return False
    last_written = min(
        head.properties_size,
        (position + head.size - 1) % _SECTOR_SIZE + 1,
        CHECKSUM_SIZE - CHECKSUM_MARK_SIZE,
    )
    for index in range(head.size - last_written, head.size):
        if start[index]:
            break
    else:
        if last_written:
            return True
    return _has_its_digits(start, head)


cdef inline bint _is_delayed(const Head* head) noexcept:
    return head.topic_size == _SCHEDULE_TOPIC_SIZE and not memcmp(
        head.topic, _SCHEDULE_TOPIC, _SCHEDULE_TOPIC_SIZE
    )


cdef int _make_room(Runs* found, Py_ssize_t count_max) except -1:
    found.count = found.last_found = found.entry_count = 0
    found.runs = <Run*>PyMem_Malloc(_RUN_COUNT_MAX * sizeof(Run))
    found.entries = <Entry*>PyMem_Malloc(count_max * sizeof(Entry))
    if found.runs is NULL or found.entries is NULL:
        raise MemoryError
    return 0


cdef int _enter(Runs* found, const Head* head) except -1:
    """There is room for one more run and one more entry."""
    cdef Entry* entry = &found.entries[found.entry_count]
    entry.physical_offset = head.physical_offset
    entry.size = head.size
    entry.tags_code = tags_code(head.properties, head.properties_size, NULL)
    entry.run = found.last_found = _run_of(found, head)
    found.entry_count += 1
    return 0


cdef Py_ssize_t _run_of(Runs* found, const Head* head) noexcept:
    """The number of the run that the record continues; if there is none, of a new one."""
    cdef Py_ssize_t step, index
    cdef Run* run
    # Queues tend to take turns, so the search begins behind the last one found.
    for step in range(1, found.count + 1):
        index = found.last_found + step
        if index >= found.count:
            index -= found.count
        run = &found.runs[index]
        if (
            run.queue_id == head.queue_id
            and run.topic_size == head.topic_size
            and not run.is_over
            and not memcmp(run.topic, head.topic, head.topic_size)
        ):
            # Offsets can be any number, so their difference may be none.
            if <uint64_t>run.first_offset + run.count == <uint64_t>head.queue_offset:
                run.count += 1
                return index
            run.is_over = True
            break
    found.runs[found.count] = Run(
        head.topic, head.topic_size, head.queue_id, head.queue_offset, 1, False, NULL
    )
    found.count += 1
    return found.count - 1


cdef list _packed_runs(Runs* found):
    cdef list packed = []
    cdef bytes entries
    cdef Run* run
    cdef const Entry* entry
    cdef Py_ssize_t index
    for index in range(found.count):
        run = &found.runs[index]
        entries = PyBytes_FromStringAndSize(NULL, run.count * _ENTRY_SIZE)
        run.at = <uint8_t*>PyBytes_AS_STRING(entries)
        topic = PyBytes_FromStringAndSize(<const char*>run.topic, run.topic_size)
        packed.append((topic, run.queue_id, run.first_offset, entries))
    for index in range(found.entry_count):
        entry = &found.entries[index]
        run = &found.runs[entry.run]
        put_int64(run.at, entry.physical_offset)
        put_int32(run.at + 8, entry.size)
        put_int64(run.at + 12, entry.tags_code)
        run.at += _ENTRY_SIZE
    return packed


cdef tuple _members(const Head* head):
    return (
        head.physical_offset,
        head.size,
        PyBytes_FromStringAndSize(<const char*>head.topic, head.topic_size),
        head.queue_id,
        head.queue_offset,
        head.sys_flag,
        head.store_timestamp,
        PyBytes_FromStringAndSize(<const char*>head.properties, head.properties_size),
    )


cdef object _reason(Verdict verdict, const Head* head):
    if verdict == GOOD:
        return None
    if verdict == ELSEWHERE:
        return f"claims to lie at {head.physical_offset}"
    return _REASONS[verdict]
