# cython: boundscheck=False, wraparound=False
"""The records of a pull reply that lie in a range of offsets and have one of some tags.

A broker compares hashes of tags, and reads past a range when it looks for a match; so a
reader looks again. How a record is laid out is drawn in `record.py`.
"""

from roquet.protocol.binary cimport Span, bytes_of, get_int32, get_int64, int64_t, span_of, uint8_t
from roquet.protocol.messages.record_layout cimport INNER_BATCH, QUEUE_OFFSET_AT, SYS_FLAG_AT
from roquet.protocol.messages.record_parts cimport RecordParts, fitting_size, locate_record
from roquet.protocol.messages.tags cimport find_tags

from roquet.protocol.errors import BadMessage


def pick_records(bytes buffer not None, int64_t begin, int64_t end, frozenset tags=None):
    """Those from offset `begin` on, but before `end`, with one of `tags`, if there are any.

    Returns the records, which are `buffer` itself if nothing is left out, how many they are,
    and the first offset of the range that has no record, whatever its tags; it is `end` if all
    have one, and also if there is a record of many messages. Raises BadMessage.
    """
    cdef Span data = span_of(buffer)
    cdef const uint8_t* at
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t kept_start = 0  # of the run of records that are kept
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t size
    cdef int64_t whole_end = begin
    cdef int64_t offset
    cdef bint is_batch, is_kept
    cdef list pieces = []
    while position < data.size:
        at = data.start + position
        size = fitting_size(at, data.size - position)
        if not size:
            raise BadMessage(f"no record fits between bytes {position} and {data.size}")
        offset = get_int64(at + QUEUE_OFFSET_AT)
        is_batch = get_int32(at + SYS_FLAG_AT) & INNER_BATCH
        if is_batch:
            whole_end = end
        elif offset == whole_end and offset < end:
            whole_end += 1
        is_kept = offset < end and (
            is_batch
            or offset >= begin
            and (tags is None or _tags_of(at, size) in tags)
        )
        if is_kept:
            count += 1
        else:
            if position > kept_start:
                pieces.append(buffer[kept_start:position])
            kept_start = position + size
        position += size
    if not kept_start:
        return buffer, count, whole_end
    if position > kept_start:
        pieces.append(buffer[kept_start:position])
    return b"".join(pieces), count, whole_end


cdef bytes _tags_of(const uint8_t* start, Py_ssize_t size):
    """None without any. Raises BadMessage."""
    cdef RecordParts record
    cdef Span tags
    if not locate_record(start, size, &record):
        raise BadMessage(f"the parts of a record do not add up to its {size} bytes")
    tags = find_tags(record.properties)
    return None if tags.start is NULL else bytes_of(tags)
