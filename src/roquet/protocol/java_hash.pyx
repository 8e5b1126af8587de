"""Java's `String.hashCode`: tags and index keys are compared by it.

    hash = unit[0] * 31^(n-1) + ... + unit[n-1], in 32 bits, signed

The units are UTF-16 code units, so a character beyond the basic plane counts as two. To Java a
lone surrogate is a unit like any other.
"""

from libc.stdint cimport int32_t, uint32_t


def java_hash(str text not None):
    """The signed 32-bit hash of one text."""
    return <int32_t>_hash(text)


def index_hash(str text not None):
    """The hash under which the key index files a text: never negative."""
    cdef uint32_t java_hash = _hash(text)
    # The smallest number has no opposite in 32 bits: it becomes 0.
    return (java_hash if <int32_t>java_hash >= 0 else 0 - java_hash) & 0x7FFFFFFF


cdef uint32_t _hash(str text):
    cdef uint32_t result = 0
    cdef Py_UCS4 character
    for character in text:
        if character > 0xFFFF:
            result = 31 * result + 0xD800 + ((<uint32_t>character - 0x10000) >> 10)
            result = 31 * result + 0xDC00 + (<uint32_t>character & 0x3FF)
        else:
            result = 31 * result + <uint32_t>character
    return result
