"""Properties as a record has them: name 0x01 value, one after another, 0x02 between them.

A mark is a name with the 0x01 after it.
"""

from libc.string cimport memchr, memcmp, strlen

from roquet.protocol.binary cimport Span, uint8_t
from roquet.protocol.messages.record_layout cimport SEPARATOR


cdef inline bint next_property(Span* rest, Span* property) noexcept nogil:
    """Cut the first property off; whether there was any."""
    cdef const uint8_t* end
    property.start = rest.start
    property.size = rest.size
    if rest.size <= 0:
        return False
    end = <const uint8_t*>memchr(rest.start, SEPARATOR, <size_t>rest.size)
    if end is not NULL:
        property.size = end - rest.start
    # One byte more, for the separator: after the last property `size` may be -1.
    rest.start += property.size + 1
    rest.size -= property.size + 1
    return True


cdef inline bint starts_with(Span text, const char* start) noexcept nogil:
    return text.size >= <Py_ssize_t>strlen(start) and not memcmp(text.start, start, strlen(start))


cdef inline bint note_value(Span property, const char* mark, Span* value) noexcept nogil:
    """Whether the property has this name; then its value is noted, unless it has none."""
    if not starts_with(property, mark):
        return False
    if property.size > <Py_ssize_t>strlen(mark):
        value.start = property.start + strlen(mark)
        value.size = property.size - <Py_ssize_t>strlen(mark)
    return True


cdef inline Span find_value(Span properties, const char* mark) noexcept nogil:
    """Of equal names the last one counts, and an empty one is not there. NULL if there is none."""
    cdef Span value = Span(NULL, 0)
    cdef Span property
    while next_property(&properties, &property):
        note_value(property, mark, &value)
    return value
