# cython: boundscheck=False, wraparound=False
"""Rows of columns as the messages of a batch send; how it is laid out is drawn in `batch.py`.

A row is measured first and then written, so every body is allocated once and at its size.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memchr, memcmp, memcpy

from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    int32_t,
    int64_t,
    put_int16,
    put_int32,
    span_of,
    uint8_t,
)
from roquet.protocol.messages.batch_layout cimport (
    ITEM_BODY_SIZE_AT,
    ITEM_FLAG_AT,
    ITEM_HEAD_SIZE,
)
from roquet.protocol.messages.property_text cimport next_property
from roquet.protocol.messages.record_layout cimport (
    PROPERTIES_SIZE_MAX,
    PROPERTIES_SIZE_WIDTH,
    SEPARATOR,
)

from roquet.protocol.record_columns.row_errors import BadProperty, RowTooLarge

cdef enum:
    _EQUALS = 1
    # Of an item with nothing in it.
    _ITEM_SIZE_MIN = ITEM_HEAD_SIZE + PROPERTIES_SIZE_WIDTH
    _COLUMNS_MAX = 16


cdef class Texts:
    """A column of texts or bodies: int32 offsets, one more than rows, and the joined bytes."""

    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] joined
    cdef readonly Py_ssize_t count

    def __init__(self, const int32_t[::1] offsets not None, const uint8_t[::1] joined not None):
        cdef Py_ssize_t index
        self.offsets = offsets
        self.joined = joined
        self.count = offsets.shape[0] - 1
        if self.count < 0 or offsets[0] < 0 or offsets[self.count] > joined.shape[0]:
            raise IndexError(f"the texts lie outside of {joined.shape[0]} bytes")
        for index in range(self.count):
            if offsets[index] > offsets[index + 1]:
                raise IndexError(f"text {index} ends before it starts")

    cdef inline Span text(self, Py_ssize_t index) noexcept:
        """The caller knows that there is one."""
        cdef int32_t start = self.offsets[index]
        return Span(&self.joined[0] + start, self.offsets[index + 1] - start)


cdef class NamedTexts:
    """A column that is one property of each row. An empty text is none."""

    cdef bytes name
    cdef Texts values

    def __init__(self, bytes name not None, Texts values not None):
        self.name = name
        self.values = values

    cdef inline Span name_text(self) noexcept:
        return span_of(self.name)


cdef class Maps:
    """A column of properties as maps: row i has the entries from spans[i, 0] up to spans[i, 1]."""

    cdef const int32_t[:, ::1] spans
    cdef Texts names
    cdef Texts values

    def __init__(
        self, const int32_t[:, ::1] spans not None, Texts names not None, Texts values not None
    ):
        cdef Py_ssize_t index
        if spans.shape[1] != 2 or names.count != values.count:
            raise IndexError("these are no maps")
        for index in range(spans.shape[0]):
            if not 0 <= spans[index, 0] <= spans[index, 1] <= names.count:
                raise IndexError(f"the entries of row {index} are not there")
        self.spans = spans
        self.names = names
        self.values = values


cdef struct Output:
    # Without a place to write to it only counts.
    uint8_t* at
    Py_ssize_t size
    Py_ssize_t room
    bint has_property


cdef class RowWriter:
    """Makes batches of rows. `properties` are Texts as stored, or Maps, or None.

    A property that is also a column in `named` gives way to it in rows where that has a value.
    """

    cdef Texts bodies
    cdef const int32_t[::1] flags
    cdef bint has_flags
    cdef Texts property_texts
    cdef Maps property_maps
    cdef list named

    def __init__(
        self, Texts bodies not None, const int32_t[::1] flags, properties, list named not None
    ):
        cdef NamedTexts column
        self.bodies = bodies
        self.has_flags = flags is not None
        if self.has_flags:
            _check_count(flags.shape[0], bodies)
            self.flags = flags
        if isinstance(properties, Texts):
            self.property_texts = properties
            _check_count(self.property_texts.count, bodies)
        elif properties is not None:
            self.property_maps = properties
            _check_count(self.property_maps.spans.shape[0], bodies)
        for column in named:
            _check_count(column.values.count, bodies)
        if len(named) > _COLUMNS_MAX:
            raise IndexError(f"{len(named)} columns are too many")
        self.named = named

    def sizes(self, Py_ssize_t size_max):
        """The size of each row as an int64. Raises BadProperty or RowTooLarge."""
        cdef bytes sizes = PyBytes_FromStringAndSize(NULL, self.bodies.count * sizeof(int64_t))
        cdef int64_t* size_at = <int64_t*>PyBytes_AS_STRING(sizes)
        cdef Py_ssize_t row
        cdef Output output
        for row in range(self.bodies.count):
            output = Output(NULL, 0, PROPERTIES_SIZE_MAX, False)
            self._put_properties(&output, row, True)
            if output.size > PROPERTIES_SIZE_MAX:
                raise RowTooLarge(row, "properties", output.size, PROPERTIES_SIZE_MAX)
            size_at[row] = _ITEM_SIZE_MIN + self.bodies.text(row).size + output.size
            if size_at[row] > size_max:
                raise RowTooLarge(row, "message", size_at[row], size_max)
        return sizes

    def write(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t size):
        """The batch of the rows from `first` up to `last`, which take `size` bytes."""
        if not 0 <= first <= last <= self.bodies.count or size < 0:
            raise IndexError(f"there are no rows from {first} to {last}")
        cdef bytes batch = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(batch)
        cdef uint8_t* end = at + size
        cdef Py_ssize_t row
        for row in range(first, last):
            at = self._put_row(at, end - at, row)
        if at != end:
            raise IndexError(f"rows {first} to {last} do not have {size} bytes")
        return batch

    cdef uint8_t* _put_row(self, uint8_t* at, Py_ssize_t room, Py_ssize_t row) except NULL:
        cdef Span body = self.bodies.text(row)
        cdef uint8_t* properties_at = at + _ITEM_SIZE_MIN + body.size
        room -= _ITEM_SIZE_MIN + body.size
        if room < 0:
            raise IndexError(f"there is no room for row {row}")
        cdef Output output = Output(properties_at, 0, room, False)
        self._put_properties(&output, row, False)
        put_int32(at, _ITEM_SIZE_MIN + body.size + output.size)
        # Here a record has its magic and its CRC.
        put_int32(at + 4, 0)
        put_int32(at + 8, 0)
        put_int32(at + ITEM_FLAG_AT, self.flags[row] if self.has_flags else 0)
        put_int32(at + ITEM_BODY_SIZE_AT, body.size)
        memcpy(at + ITEM_HEAD_SIZE, body.start, body.size)
        put_int16(properties_at - PROPERTIES_SIZE_WIDTH, <int32_t>output.size)
        return properties_at + output.size

    cdef int _put_properties(self, Output* output, Py_ssize_t row, bint check) except -1:
        cdef NamedTexts column
        cdef Span value
        if self.property_texts is not None:
            self._put_text(output, row)
        elif self.property_maps is not None:
            self._put_map(output, row, check)
        for column in self.named:
            value = column.values.text(row)
            if value.size:
                if check:
                    _check_property(row, column.name_text(), value)
                _put_property(output, column.name_text(), value)
        return 0

    cdef int _put_text(self, Output* output, Py_ssize_t row) except -1:
        """What is a property, of a text as stored."""
        cdef Span rest = self.property_texts.text(row)
        cdef Span property, name, value
        cdef const uint8_t* name_end
        while next_property(&rest, &property):
            name_end = <const uint8_t*>memchr(property.start, _EQUALS, property.size)
            if name_end is NULL:
                continue
            name = Span(property.start, name_end - property.start)
            value = Span(name_end + 1, property.size - name.size - 1)
            if name.size and value.size and not self._is_replaced(name, row):
                _put_property(output, name, value)
        return 0

    cdef int _put_map(self, Output* output, Py_ssize_t row, bint check) except -1:
        cdef Maps maps = self.property_maps
        cdef Py_ssize_t entry
        cdef Span name, value
        for entry in range(maps.spans[row, 0], maps.spans[row, 1]):
            name = maps.names.text(entry)
            value = maps.values.text(entry)
            if self._is_replaced(name, row):
                continue
            if check:
                _check_property(row, name, value)
            _put_property(output, name, value)
        return 0

    cdef bint _is_replaced(self, Span name, Py_ssize_t row) except -1:
        cdef NamedTexts column
        for column in self.named:
            if column.name_text().size == name.size and column.values.text(row).size and (
                not memcmp(column.name_text().start, name.start, name.size)
            ):
                return True
        return False


cdef int _check_count(Py_ssize_t count, Texts bodies) except -1:
    if count != bodies.count:
        raise IndexError(f"{count} values are not one for each of {bodies.count} bodies")
    return 0


cdef int _check_property(Py_ssize_t row, Span name, Span value) except -1:
    """As `is_property` does."""
    if not name.size or not value.size or _has(name, _EQUALS) or _has(name, SEPARATOR) or (
        _has(value, SEPARATOR)
    ):
        raise BadProperty(
            row,
            bytes_of(name).decode("utf-8", "replace"),
            bytes_of(value).decode("utf-8", "replace"),
        )
    return 0


cdef inline bint _has(Span text, int byte) noexcept:
    return memchr(text.start, byte, text.size) is not NULL


cdef inline int _put_property(Output* output, Span name, Span value) except -1:
    cdef Py_ssize_t size = name.size + 1 + value.size
    cdef uint8_t* at
    if output.has_property:
        size += 1
    if output.at is not NULL:
        if size > output.room - output.size:
            raise IndexError("there is no room for a property")
        at = output.at + output.size
        if output.has_property:
            at[0] = SEPARATOR
            at += 1
        memcpy(at, name.start, name.size)
        at[name.size] = _EQUALS
        memcpy(at + name.size + 1, value.start, value.size)
    output.size += size
    output.has_property = True
    return 0
