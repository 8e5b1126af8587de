# cython: boundscheck=False, wraparound=False
"""Names and values inside many property texts; their form is drawn in `properties.py`.

A pair is four int32 positions in the data: where its name starts and ends, and its value.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcmp, memcpy

from roquet.protocol.binary cimport Span, bytes_of, int32_t, span_of, uint8_t, uint64_t
from roquet.protocol.messages.record_layout cimport SEPARATOR
from roquet.protocol.record_columns.text_shape cimport (
    EQUALS,
    Pair,
    Shape,
    __builtin_ctzll,
    le64toh,
    split_alike,
    take_shape,
)

cdef enum:
    # A name, a value and what is between them; the last pair may lack the separator after it.
    _PAIR_TEXT_SIZE_MIN = 4
    _PAIRS_MIN = 1024
    # Up to here it is quicker to compare names than to hash them.
    _FEW_PAIRS = 64
    _NAMES_MAX = 8


def find_pairs(
    const uint8_t[::1] data not None,
    const int32_t[:, ::1] texts not None,
    tuple names not None,
    bint keep_all,
):
    """The pairs of all texts, bounds, and the values of some names.

    Pairs are in a bytearray; text i has those from bounds[i] up to bounds[i + 1], which are int32.
    What is no property is passed over; of equal names in a text only the last is there. Without
    `keep_all` there are no pairs. Values are two int32 for each text and name: where the last one
    of it lies, or -1 twice.
    """
    cdef Py_ssize_t text_count = texts.shape[0]
    cdef bytes bounds = PyBytes_FromStringAndSize(NULL, (text_count + 1) * sizeof(int32_t))
    cdef int32_t* bound_at = <int32_t*>PyBytes_AS_STRING(bounds)
    cdef bytearray pairs = bytearray()
    cdef WantedNames wanted = WantedNames(names, text_count)
    cdef Shape shape
    cdef Repeats repeats = Repeats()
    cdef Pair* row
    cdef Py_ssize_t capacity = 0
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t index, row_count, row_count_max
    cdef int32_t start, end
    bound_at[0] = 0
    shape.count = 0
    for index in range(text_count):
        start = texts[index, 0]
        end = texts[index, 1]
        if start < 0 or end < start or end > data.shape[0]:
            raise IndexError(f"text {index} lies outside of {data.shape[0]} bytes")
        row_count_max = (end - start + 1) // _PAIR_TEXT_SIZE_MIN
        if count + row_count_max > capacity:
            capacity = max(_PAIRS_MIN, 2 * count + row_count_max)
            PyByteArray_Resize(pairs, capacity * sizeof(Pair))
        row = <Pair*>PyByteArray_AS_STRING(pairs) + count
        row_count = split_alike(
            &shape, &data[0], data.shape[0], start, end, row, row_count_max
        )
        if not row_count:
            row_count = _split(&data[0], start, end, row, row_count_max)
            take_shape(&shape, &data[0], row, row_count)
            wanted.look_for(&data[0], row, row_count)
            if keep_all:
                repeats.look_for(&data[0], row, row_count)
        wanted.note(row, index)
        if keep_all:
            count += repeats.dropped(row, row_count)
        bound_at[index + 1] = <int32_t>count
    PyByteArray_Resize(pairs, count * sizeof(Pair))
    return pairs, bounds, wanted.values


cdef class WantedNames:
    """Names that are looked for, which pairs have them, and the places of their values."""

    cdef readonly list values
    cdef tuple kept
    cdef Span names[_NAMES_MAX]
    cdef Py_ssize_t pairs[_NAMES_MAX]  # negative if there is none
    cdef int32_t* places[_NAMES_MAX]
    cdef Py_ssize_t count

    def __init__(self, tuple names, Py_ssize_t text_count):
        cdef bytes name, places
        if len(names) > _NAMES_MAX:
            raise IndexError(f"{len(names)} names are too many")
        # They must live as long as the pointers.
        self.kept = names
        self.values = []
        self.count = 0
        for name in names:
            if not name:
                raise ValueError("no property has an empty name")
            places = PyBytes_FromStringAndSize(NULL, 2 * text_count * sizeof(int32_t))
            self.values.append(places)
            self.names[self.count] = span_of(name)
            self.places[self.count] = <int32_t*>PyBytes_AS_STRING(places)
            self.count += 1

    cdef void look_for(self, const uint8_t* data, const Pair* pairs, Py_ssize_t pair_count) noexcept:
        """Of equal names the last one counts."""
        cdef Py_ssize_t index, pair
        for index in range(self.count):
            self.pairs[index] = -1
        for pair in range(pair_count):
            for index in range(self.count):
                if _is_name(data, &pairs[pair], self.names[index]):
                    self.pairs[index] = pair

    cdef inline void note(self, const Pair* pairs, Py_ssize_t text) noexcept:
        """Of pairs that have their names where `look_for` found them."""
        cdef Py_ssize_t index, pair
        for index in range(self.count):
            pair = self.pairs[index]
            self.places[index][2 * text] = -1 if pair < 0 else pairs[pair].value_start
            self.places[index][2 * text + 1] = -1 if pair < 0 else pairs[pair].value_end


cdef inline bint _is_name(const uint8_t* data, const Pair* pair, Span name) noexcept:
    return (
        pair.name_end - pair.name_start == name.size
        and data[pair.name_start] == name.start[0]
        and not memcmp(data + pair.name_start, name.start, name.size)
    )


cdef struct Splitter:
    Pair* pairs
    Py_ssize_t count
    Py_ssize_t room
    int32_t name_start
    int32_t name_end  # before the name's start, until it is known


cdef Py_ssize_t _split(
    const uint8_t* data, int32_t at, int32_t end, Pair* pairs, Py_ssize_t room
) noexcept:
    """Fills in the pairs of one text; returns how many."""
    cdef Splitter splitter = Splitter(pairs, 0, room, at, at - 1)
    cdef uint64_t word, found
    while end - at >= <int32_t>sizeof(word):
        memcpy(&word, data + at, sizeof(word))
        word = le64toh(word)
        # The high bit of each byte that is 2 or less: nothing carries from one to the next.
        found = ~(
            ((word & <uint64_t>0x7F7F7F7F7F7F7F7F) + <uint64_t>0x7D7D7D7D7D7D7D7D) | word
        ) & <uint64_t>0x8080808080808080
        while found:
            _take(&splitter, data, at + (__builtin_ctzll(found) >> 3))
            found &= found - 1
        at += <int32_t>sizeof(word)
    while at < end:
        _take(&splitter, data, at)
        at += 1
    _close(&splitter, end)
    return splitter.count


cdef inline void _take(Splitter* splitter, const uint8_t* data, int32_t at) noexcept:
    if data[at] == SEPARATOR:
        _close(splitter, at)
        splitter.name_start = at + 1
        splitter.name_end = at
    elif data[at] == EQUALS and splitter.name_end < splitter.name_start:
        splitter.name_end = at


cdef inline void _close(Splitter* splitter, int32_t end) noexcept:
    """Notes the pair that ends here, if it has a name and a value."""
    if splitter.name_start < splitter.name_end < end - 1 and splitter.count < splitter.room:
        splitter.pairs[splitter.count] = Pair(
            splitter.name_start, splitter.name_end, splitter.name_end + 1, end
        )
        splitter.count += 1


cdef class Repeats:
    """Which pairs of a text are followed by another one of the same name."""

    cdef bytearray marks
    cdef Py_ssize_t count

    cdef int look_for(self, const uint8_t* data, const Pair* pairs, Py_ssize_t count) except -1:
        self.marks = bytearray(count)
        cdef uint8_t* marks = <uint8_t*>PyByteArray_AS_STRING(self.marks)
        if count <= _FEW_PAIRS:
            self.count = _mark_few(data, pairs, count, marks)
        else:
            self.count = _mark_many(data, pairs, count, marks)
        return 0

    cdef inline Py_ssize_t dropped(self, Pair* pairs, Py_ssize_t count) noexcept:
        """Takes them out of pairs that have the names `look_for` saw; returns how many are left."""
        cdef Py_ssize_t index, kept = 0
        if not self.count:
            return count
        cdef const uint8_t* marks = <const uint8_t*>PyByteArray_AS_STRING(self.marks)
        for index in range(count):
            # What is written too much is written over.
            pairs[kept] = pairs[index]
            kept += not marks[index]
        return kept


cdef Py_ssize_t _mark_few(
    const uint8_t* data, const Pair* pairs, Py_ssize_t count, uint8_t* marks
) noexcept:
    cdef Py_ssize_t index, later, repeat_count = 0
    cdef uint64_t bit, seen = 0
    cdef Span name
    for index in range(count - 1, -1, -1):
        name = _name_of(data, &pairs[index])
        bit = _print(name)
        if not seen & bit:
            # The common case, and it takes no comparison.
            seen |= bit
            continue
        for later in range(index + 1, count):
            if _is_name(data, &pairs[later], name):
                marks[index] = 1
                repeat_count += 1
                break
    return repeat_count


cdef Py_ssize_t _mark_many(
    const uint8_t* data, const Pair* pairs, Py_ssize_t count, uint8_t* marks
) except -1:
    cdef Py_ssize_t index, repeat_count = 0
    cdef set seen = set()
    for index in range(count - 1, -1, -1):
        text = bytes_of(_name_of(data, &pairs[index]))
        if text in seen:
            marks[index] = 1
            repeat_count += 1
        seen.add(text)
    return repeat_count


cdef inline Span _name_of(const uint8_t* data, const Pair* pair) noexcept:
    return Span(data + pair.name_start, pair.name_end - pair.name_start)


cdef inline uint64_t _print(Span name) noexcept:
    """One bit of 64 that equal names share, and others mostly do not."""
    cdef uint64_t mix = (
        <uint64_t>name.size * 3
        + name.start[0] * 7
        + name.start[name.size - 1] * 13
        + name.start[name.size >> 1] * 29
    )
    return <uint64_t>1 << (mix & 63)
