# cython: boundscheck=False, wraparound=False
"""The hash of the tag of a message, which is what a queue knows of it."""

from roquet.protocol.binary cimport Span, int32_t, span_of, uint32_t
from roquet.protocol.messages.property_text cimport find_value

from roquet.protocol.java_hash import java_hash

cdef enum:
    _ASCII_MAX = 127


def tags_code_of(bytes properties not None):
    """0 without a tag."""
    return code_of(find_tags(span_of(properties)))


cdef Span find_tags(Span properties) noexcept:
    """Its start is NULL if there is none."""
    return find_value(properties, b"TAGS\x01")


cdef int32_t code_of(Span tags) except? -1:
    """Of what `find_tags` has found."""
    cdef uint32_t code = 0
    cdef Py_ssize_t index
    for index in range(tags.size):
        if tags.start[index] > _ASCII_MAX:
            return <int32_t>java_hash(tags.start[: tags.size].decode("utf-8", "replace"))
        code = 31 * code + tags.start[index]
    return <int32_t>code
