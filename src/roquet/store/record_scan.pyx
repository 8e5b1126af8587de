# cython: boundscheck=False, wraparound=False
"""Consecutive records of the common layout, each one checked: one loop, four results.

    scan_heads   the fields of each record
    scan_runs    entries for the queues
    scan_places  where each record starts
    scan_whole   how far they go, for callers that take them as bytes

Those have magic V1 and short addresses, which is how `record.py` draws them. All
functions stop before any other record and leave it to Python, which knows all kinds.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memcmp

from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    get_int32,
    get_int64,
    int32_t,
    int64_t,
    uint8_t,
    uint64_t,
)
from roquet.protocol.messages.property_text cimport starts_with
from roquet.protocol.messages.record_layout cimport (
    CHECKSUM_MARK_SIZE,
    CHECKSUM_SIZE,
    PHYSICAL_OFFSET_AT,
    PROPERTIES_SIZE_MAX,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
)
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    checksum_mark,
    ends_in_checksum,
    has_common_layout,
    has_right_body,
    has_right_checksum,
    has_right_digits,
    locate_record,
    store_timestamp_of,
)
from roquet.protocol.messages.tags cimport code_of, find_tags
from roquet.store.queue_entries cimport ENTRY_SIZE, put_entry

cdef enum:
    # A disk writes a sector as a whole or not at all.
    _SECTOR_SIZE = 512
    _SCHEDULE_TOPIC_SIZE = 19
    _PREPARED = 0x4  # and rolled back: both have this bit, and are in no queue
    # At most this many runs at once, since they are searched one by one.
    _RUN_COUNT_MAX = 256

cdef enum RecordCheck:
    GOOD
    ODD
    ELSEWHERE
    WRONG_SIZES
    BROKEN_CHECKSUM
    BROKEN_BODY
    LOST_CHECKSUM

_REASONS = {
    GOOD: None,
    ODD: None,
    WRONG_SIZES: "its sizes do not add up",
    BROKEN_CHECKSUM: "breaks its checksum",
    BROKEN_BODY: "its body breaks its CRC",
    LOST_CHECKSUM: "its checksum is damaged",
}


cdef struct DirectoryEntry:
    int64_t physical_offset
    int32_t size
    int32_t tags_code
    Py_ssize_t run


cdef struct Run:
    Span topic
    int32_t queue_id
    int64_t first_offset
    Py_ssize_t count
    bint is_over  # another run of the same queue has started
    uint8_t* at


cdef struct Runs:
    Run* runs
    Py_ssize_t count
    Py_ssize_t last_found
    DirectoryEntry* entries
    Py_ssize_t entry_count


def scan_heads(
    buffer,
    int64_t base,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t size_max,
    bint must_have_checksum=False,
):
    """The records between two bytes of a file, and no more when they take `size_max` bytes.

    `base` is the physical offset of byte 0. Where a record must have a checksum, one without is
    damaged, unless its properties left no room for it. Returns the fields of a
    `LogRecord` for each, where the scan stopped, and why: None if it reached the end or the
    maximum, or if the next record is not of the common layout.
    """
    cdef Py_ssize_t start = position
    cdef Py_buffer view
    cdef RecordParts record
    cdef RecordCheck check = GOOD
    cdef list heads = []
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        end = min(end, view.len)
        while 0 <= position <= end - RECORD_SIZE_MIN and position - start < size_max:
            check = _measure(<const uint8_t*>view.buf, base, position, end, &record)
            if check == GOOD:
                check = _check_sums(&record, position, must_have_checksum)
            if check != GOOD:
                break
            heads.append(_members(&record))
            position += record.size
        return heads, position, _reason(check, <const uint8_t*>view.buf + position)
    finally:
        PyBuffer_Release(&view)


def scan_runs(
    buffer,
    int64_t base,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t size_max,
    bint must_have_checksum=False,
):
    """The same records as entries of their queues.

    Returns their count, the times of the last and of the latest one, the runs, the delayed
    ones, where the scan stopped, and why. A run is topic, queue id, queue offset of the first,
    and entries of consecutive ones; runs of one queue come in the order of the log. The delayed
    ones are in no run, because their entries need more than the record.
    """
    cdef Py_ssize_t start = position
    cdef Py_ssize_t count_max = size_max // RECORD_SIZE_MIN + 1
    cdef Py_buffer view
    cdef RecordParts record
    cdef RecordCheck check = GOOD
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
            check = _measure(<const uint8_t*>view.buf, base, position, end, &record)
            if check == GOOD:
                check = _check_sums(&record, position, must_have_checksum)
            if check != GOOD:
                break
            if not record.sys_flag & _PREPARED:
                if _is_delayed(&record):
                    delayed.append(_members(&record))
                else:
                    _enter(&found, &record)
            last = store_timestamp_of(&record)
            latest = max(latest, last)
            count += 1
            position += record.size
        runs = _packed_runs(&found)
        reason = _reason(check, <const uint8_t*>view.buf + position)
        return count, last, latest, runs, delayed, position, reason
    finally:
        PyMem_Free(found.entries)
        PyMem_Free(found.runs)
        PyBuffer_Release(&view)


def scan_places(
    buffer,
    int64_t base,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t size_max,
    Py_ssize_t count_max,
    bint with_checksums,
    bint must_have_checksum=False,
):
    """Physical offsets of up to `count_max` of the same records.

    Returns them, where the scan stopped, and why. Without checksums a record is good when its
    sizes add up and it lies where it claims to.
    """
    cdef Py_ssize_t start = position
    cdef Py_buffer view
    cdef RecordParts record
    cdef RecordCheck check = GOOD
    cdef list places = []
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        end = min(end, view.len)
        while (
            0 <= position <= end - RECORD_SIZE_MIN
            and position - start < size_max
            and len(places) < count_max
        ):
            check = _measure(<const uint8_t*>view.buf, base, position, end, &record)
            if check == GOOD and with_checksums:
                check = _check_sums(&record, position, must_have_checksum)
            if check != GOOD:
                break
            places.append(base + position)
            position += record.size
        return places, position, _reason(check, <const uint8_t*>view.buf + position)
    finally:
        PyBuffer_Release(&view)


def scan_whole(
    buffer,
    int64_t base,
    Py_ssize_t position,
    Py_ssize_t stop,
    Py_ssize_t end,
    Py_ssize_t size_max,
    bint with_checksums,
    bint must_have_checksum=False,
):
    """How far good records go that start before `stop` and end at or before `end`.

    Returns their count, where the scan stopped, and why, as the others do. Without checksums a
    record is good when its sizes add up and it lies where it claims to.
    """
    cdef Py_ssize_t start = position
    cdef Py_buffer view
    cdef RecordParts record
    cdef RecordCheck check = GOOD
    cdef Py_ssize_t count = 0
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        end = min(end, view.len)
        while (
            0 <= position <= end - RECORD_SIZE_MIN
            and position < stop
            and position - start < size_max
        ):
            check = _measure(<const uint8_t*>view.buf, base, position, end, &record)
            if check == GOOD and with_checksums:
                check = _check_sums(&record, position, must_have_checksum)
            if check != GOOD:
                break
            count += 1
            position += record.size
        return count, position, _reason(check, <const uint8_t*>view.buf + position)
    finally:
        PyBuffer_Release(&view)


cdef RecordCheck _measure(
    const uint8_t* data, int64_t base, Py_ssize_t position, Py_ssize_t end, RecordParts* record
) noexcept:
    """Whether it lies where it claims to and its sizes add up. The smallest record fits there."""
    cdef const uint8_t* start = data + position
    if not has_common_layout(start):
        return ODD
    if get_int64(start + PHYSICAL_OFFSET_AT) != base + position:
        return ELSEWHERE
    if not locate_record(start, end - position, record):
        return WRONG_SIZES
    return GOOD


cdef RecordCheck _check_sums(
    const RecordParts* record, Py_ssize_t position, bint must_have_checksum
) noexcept:
    """The result of the checksums of a record whose sizes add up."""
    if ends_in_checksum(record):
        # It covers the body, so the CRC of the body is not computed.
        return GOOD if has_right_checksum(record) else BROKEN_CHECKSUM
    if must_have_checksum and record.properties.size + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX:
        return LOST_CHECKSUM
    if not has_right_body(record):
        return BROKEN_BODY
    return LOST_CHECKSUM if has_lost_checksum(record, position) else GOOD


cdef bint has_lost_checksum(const RecordParts* record, Py_ssize_t position) noexcept:
    """As in `log_scan.py`, of a record that does not end in a checksum of its own."""
    cdef Span tail = record.properties
    cdef Py_ssize_t last_written, index
    if tail.size > CHECKSUM_SIZE:
        tail = Span(record.start + record.size - CHECKSUM_SIZE, CHECKSUM_SIZE)
    if starts_with(tail, checksum_mark()):
        # Too short for one; or what set it apart from the property before it is gone.
        return tail.start != record.properties.start
    last_written = min(
        record.properties.size,
        (position + record.size - 1) % _SECTOR_SIZE + 1,
        CHECKSUM_SIZE - CHECKSUM_MARK_SIZE,
    )
    for index in range(record.size - last_written, record.size):
        if record.start[index]:
            break
    else:
        if last_written:
            return True
    return has_right_digits(record)


cdef inline bint _is_delayed(const RecordParts* record) noexcept:
    return record.topic.size == _SCHEDULE_TOPIC_SIZE and starts_with(
        record.topic, b"SCHEDULE_TOPIC_XXXX"
    )


cdef inline bint _is_equal(Span one, Span other) noexcept:
    return one.size == other.size and not memcmp(one.start, other.start, <size_t>one.size)


cdef int _make_room(Runs* found, Py_ssize_t count_max) except -1:
    found.count = found.last_found = found.entry_count = 0
    found.runs = <Run*>PyMem_Malloc(_RUN_COUNT_MAX * sizeof(Run))
    found.entries = <DirectoryEntry*>PyMem_Malloc(count_max * sizeof(DirectoryEntry))
    if found.runs is NULL or found.entries is NULL:
        raise MemoryError
    return 0


cdef int _enter(Runs* found, const RecordParts* record) except -1:
    """There is room for one more run and one more entry."""
    cdef DirectoryEntry* entry = &found.entries[found.entry_count]
    entry.physical_offset = get_int64(record.start + PHYSICAL_OFFSET_AT)
    entry.size = <int32_t>record.size
    entry.tags_code = code_of(find_tags(record.properties))
    entry.run = found.last_found = _run_of(found, record)
    found.entry_count += 1
    return 0


cdef Py_ssize_t _run_of(Runs* found, const RecordParts* record) noexcept:
    """The number of the run that the record continues; if there is none, of a new one."""
    cdef int32_t queue_id = get_int32(record.start + QUEUE_ID_AT)
    cdef int64_t queue_offset = get_int64(record.start + QUEUE_OFFSET_AT)
    cdef Py_ssize_t step, index
    cdef Run* run
    # Queues tend to take turns, so the search starts after the last one found.
    for step in range(1, found.count + 1):
        index = found.last_found + step
        if index >= found.count:
            index -= found.count
        run = &found.runs[index]
        if (
            run.queue_id == queue_id
            and not run.is_over
            and _is_equal(run.topic, record.topic)
        ):
            # Offsets can be any number, so adding to one may overflow.
            if <uint64_t>run.first_offset + run.count == <uint64_t>queue_offset:
                run.count += 1
                return index
            run.is_over = True
            break
    run = &found.runs[found.count]
    run.topic = record.topic
    run.queue_id = queue_id
    run.first_offset = queue_offset
    run.count = 1
    run.is_over = False
    found.count += 1
    return found.count - 1


cdef list _packed_runs(Runs* found):
    cdef list packed = []
    cdef bytes entries
    cdef Run* run
    cdef const DirectoryEntry* entry
    cdef Py_ssize_t index
    for index in range(found.count):
        run = &found.runs[index]
        entries = PyBytes_FromStringAndSize(NULL, run.count * ENTRY_SIZE)
        run.at = <uint8_t*>PyBytes_AS_STRING(entries)
        packed.append((bytes_of(run.topic), run.queue_id, run.first_offset, entries))
    for index in range(found.entry_count):
        entry = &found.entries[index]
        run = &found.runs[entry.run]
        run.at = put_entry(run.at, entry.physical_offset, entry.size, entry.tags_code)
    return packed


cdef tuple _members(const RecordParts* record):
    return (
        get_int64(record.start + PHYSICAL_OFFSET_AT),
        record.size,
        bytes_of(record.topic),
        get_int32(record.start + QUEUE_ID_AT),
        get_int64(record.start + QUEUE_OFFSET_AT),
        record.sys_flag,
        store_timestamp_of(record),
        bytes_of(record.properties),
    )


cdef object _reason(RecordCheck check, const uint8_t* start):
    if check == ELSEWHERE:
        return f"claims to lie at {get_int64(start + PHYSICAL_OFFSET_AT)}"
    return _REASONS[check]
