"""The text of numbers that follow one another: offsets of messages, in records and in replies."""

from libc.string cimport memcpy

from roquet.protocol.binary cimport int64_t, put_decimal, uint8_t


cdef inline uint8_t* put_decimals(uint8_t* at, int64_t first, Py_ssize_t count) noexcept nogil:
    """Numbers that follow one another, none of them negative, with commas between them."""
    cdef const uint8_t* text = at
    cdef uint8_t* digit
    cdef Py_ssize_t size, index
    at = put_decimal(at, first)
    for index in range(1, count):
        size = at - text
        at[0] = b","
        memcpy(at + 1, text, <size_t>size)
        text = at + 1
        at = at + 1 + size
        # Only the last digit changes, and nines before it.
        digit = at - 1
        while digit[0] == b"9" and digit > text:
            digit[0] = b"0"
            digit -= 1
        if digit[0] == b"9":
            # One digit more.
            at = put_decimal(<uint8_t*>text, first + index)
        else:
            digit[0] += 1
    return at
