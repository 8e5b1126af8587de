# cython: boundscheck=False, wraparound=False
"""Names and values inside many property texts; their form is drawn in `properties.py`.

A pair is four int32 positions in the data: where its name begins and ends, and its value.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.protocol.binary cimport int32_t, uint8_t, uint64_t
from roquet.protocol.messages.record_layout cimport SEPARATOR

cdef enum:
    _EQUALS = 1
    # A name, a value and what is between them; the last pair may lack the separator behind.
    _PAIR_TEXT_SIZE_MIN = 4
    _PAIRS_MIN = 1024
    # Up to here it is quicker to compare names than to hash them.
    _FEW_PAIRS = 64


cdef struct Pair:
    int32_t name_start
    int32_t name_end
    int32_t value_start
    int32_t value_end


def find_pairs(const uint8_t[::1] data not None, const int32_t[:, ::1] texts not None):
    """All pairs of all texts in a bytearray, and int32 bounds: text i has those from bounds[i] up
    to bounds[i + 1]. What is no property is passed over; equal names are all there.
    """
    cdef Py_ssize_t text_count = texts.shape[0]
    cdef bytes bounds = PyBytes_FromStringAndSize(NULL, (text_count + 1) * sizeof(int32_t))
    cdef int32_t* bound_at = <int32_t*>PyBytes_AS_STRING(bounds)
    cdef bytearray pairs = bytearray()
    cdef Py_ssize_t capacity = 0
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t index, count_max
    cdef int32_t start, end
    bound_at[0] = 0
    for index in range(text_count):
        start = texts[index, 0]
        end = texts[index, 1]
        if start < 0 or end < start or end > data.shape[0]:
            raise IndexError(f"text {index} lies outside of {data.shape[0]} bytes")
        count_max = count + (end - start + 1) // _PAIR_TEXT_SIZE_MIN
        if count_max > capacity:
            capacity = max(_PAIRS_MIN, count_max + count)
            PyByteArray_Resize(pairs, capacity * sizeof(Pair))
        count += _split(
            &data[0], start, end, <Pair*>PyByteArray_AS_STRING(pairs) + count, count_max - count
        )
        bound_at[index + 1] = <int32_t>count
    PyByteArray_Resize(pairs, count * sizeof(Pair))
    return pairs, bounds


cdef Py_ssize_t _split(
    const uint8_t* data, int32_t at, int32_t end, Pair* pairs, Py_ssize_t room
) noexcept:
    """Fills in the pairs of one text; returns how many."""
    cdef Py_ssize_t count = 0
    cdef int32_t name_start, name_end
    while at < end:
        name_start = at
        while at < end and data[at] != _EQUALS and data[at] != SEPARATOR:
            at += 1
        name_end = at
        if at == end or data[at] == SEPARATOR:
            at += 1
            continue
        at += 1
        while at < end and data[at] != SEPARATOR:
            at += 1
        if name_end > name_start and at > name_end + 1 and count < room:
            pairs[count] = Pair(name_start, name_end, name_end + 1, at)
            count += 1
        at += 1
    return count


def find_repeats(
    const uint8_t[::1] data not None,
    const int32_t[:, ::1] pairs not None,
    const int32_t[::1] bounds not None,
):
    """A byte for each pair, 1 if a later one of its text has the same name; None without such."""
    cdef Py_ssize_t count = pairs.shape[0]
    cdef const Pair* first = _checked_pairs(data, pairs, bounds)
    cdef bytearray is_repeat = bytearray(count)
    cdef uint8_t* is_repeat_at = <uint8_t*>PyByteArray_AS_STRING(is_repeat)
    cdef Py_ssize_t index, repeat_count = 0
    for index in range(bounds.shape[0] - 1):
        if bounds[index + 1] - bounds[index] <= _FEW_PAIRS:
            repeat_count += _note_few(
                &data[0], first, bounds[index], bounds[index + 1], is_repeat_at
            )
        else:
            repeat_count += _note_many(
                &data[0], first, bounds[index], bounds[index + 1], is_repeat_at
            )
    return is_repeat if repeat_count else None


cdef Py_ssize_t _note_few(
    const uint8_t* data, const Pair* pairs, Py_ssize_t begin, Py_ssize_t end, uint8_t* is_repeat
) noexcept:
    cdef Py_ssize_t index, later, repeat_count = 0
    cdef uint64_t bit, seen = 0
    for index in range(end - 1, begin - 1, -1):
        bit = _print(data, &pairs[index])
        if not seen & bit:
            # The usual case, and it takes no comparison.
            seen |= bit
            continue
        for later in range(index + 1, end):
            if _has_name(data, &pairs[later], data + pairs[index].name_start,
                         pairs[index].name_end - pairs[index].name_start):
                is_repeat[index] = 1
                repeat_count += 1
                break
    return repeat_count


cdef Py_ssize_t _note_many(
    const uint8_t* data, const Pair* pairs, Py_ssize_t begin, Py_ssize_t end, uint8_t* is_repeat
) except -1:
    cdef Py_ssize_t index, repeat_count = 0
    cdef set seen = set()
    cdef bytes name
    for index in range(end - 1, begin - 1, -1):
        name = PyBytes_FromStringAndSize(
            <const char*>data + pairs[index].name_start,
            pairs[index].name_end - pairs[index].name_start,
        )
        if name in seen:
            is_repeat[index] = 1
            repeat_count += 1
        seen.add(name)
    return repeat_count


def find_named(
    const uint8_t[::1] data not None,
    const int32_t[:, ::1] pairs not None,
    const int32_t[::1] bounds not None,
    bytes name not None,
):
    """Two int32 for each text: where the value of this name begins and ends, or -1 twice."""
    cdef const Pair* first = _checked_pairs(data, pairs, bounds)
    cdef Py_ssize_t count = bounds.shape[0] - 1
    cdef bytes spans = PyBytes_FromStringAndSize(NULL, 2 * count * sizeof(int32_t))
    cdef int32_t* span_at = <int32_t*>PyBytes_AS_STRING(spans)
    cdef const uint8_t* name_at = <const uint8_t*>PyBytes_AS_STRING(name)
    cdef Py_ssize_t name_size = PyBytes_GET_SIZE(name)
    cdef Py_ssize_t index, pair
    for index in range(count):
        span_at[2 * index] = span_at[2 * index + 1] = -1
        for pair in range(bounds[index + 1] - 1, bounds[index] - 1, -1):
            if _has_name(&data[0], &first[pair], name_at, name_size):
                span_at[2 * index] = first[pair].value_start
                span_at[2 * index + 1] = first[pair].value_end
                break
    return spans


cdef const Pair* _checked_pairs(
    const uint8_t[::1] data, const int32_t[:, ::1] pairs, const int32_t[::1] bounds
) except? NULL:
    """The first pair. Makes sure that bounds are those of pairs, and names lie in the data."""
    cdef Py_ssize_t index
    if pairs.shape[1] != 4 or not bounds.shape[0] or bounds[0] < 0:
        raise IndexError("these are no pairs")
    for index in range(bounds.shape[0] - 1):
        if bounds[index] > bounds[index + 1]:
            raise IndexError(f"the pairs of text {index} end before they begin")
    if bounds[bounds.shape[0] - 1] > pairs.shape[0]:
        raise IndexError("there are fewer pairs than their bounds say")
    for index in range(pairs.shape[0]):
        if not 0 < pairs[index, 0] < pairs[index, 1] <= data.shape[0]:
            raise IndexError(f"the name of pair {index} lies outside of the data")
    return <const Pair*>&pairs[0, 0]


cdef inline bint _has_name(
    const uint8_t* data, const Pair* pair, const uint8_t* name, Py_ssize_t size
) noexcept:
    return pair.name_end - pair.name_start == size and not memcmp(
        data + pair.name_start, name, size
    )


cdef inline uint64_t _print(const uint8_t* data, const Pair* pair) noexcept:
    """One bit of 64 that equal names share, and others mostly do not."""
    cdef uint64_t mix = (
        <uint64_t>(pair.name_end - pair.name_start) * 3
        + data[pair.name_start] * 7
        + data[pair.name_end - 1] * 13
        + data[(pair.name_start + pair.name_end) >> 1] * 29
    )
    return <uint64_t>1 << (mix & 63)
