# cython: boundscheck=False, wraparound=False
"""A JSON header as clients usually write it, found in one pass over its bytes.

    {"code":310,"extFields":{"a":"group","e":"0"},"flag":0,"language":"JAVA","opaque":7,"version":407}

Usual are: no space between anything, each member once and none but those that are known, numbers
without leading zeros, and texts of printable ASCII in which nothing is escaped but the separators of
properties, 0x01 and 0x02. Whatever else JSON allows is not usual, and is read by `command.py`.
"""

from libc.string cimport memcmp

from roquet.protocol.binary cimport Span, bytes_of, int64_t, uint8_t, uint32_t

cdef enum:
    _HAS_CODE = 1
    _HAS_FIELDS = 2
    _HAS_FLAG = 4
    _HAS_OPAQUE = 8
    _HAS_VERSION = 16
    _HAS_LANGUAGE = 32
    _HAS_SERIALIZER = 64
    # Java leaves out `extFields` where there are none.
    _NEEDED = _HAS_CODE | _HAS_FLAG | _HAS_OPAQUE
    _ESCAPE_SIZE = 6  # of \u0001
    _DIGIT_COUNT_MAX = 18
    _INT32_MAX = 2147483647


def scanned(bytes header not None):
    """What `scan_header` finds, for tests: code, opaque and flag, and the fields; None if nothing."""
    cdef ScannedHeader found
    if not scan_header(Span(header, len(header)), &found):
        return None
    fields = {}
    for index in range(found.count):
        text = bytearray(found.fields[index].text.size)
        size = unescape(found.fields[index].text, text)
        fields[bytes_of(found.fields[index].name).decode()] = text[:size].decode()
    return found.code, found.opaque, found.flag, fields


cdef bint scan_header(Span json, ScannedHeader* header) noexcept nogil:
    """Whether it is a usual one."""
    cdef const uint8_t* at = json.start
    cdef const uint8_t* end = at + json.size
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef Field member
    header.version = 0
    header.count = 0
    if json.size < 2 or at[0] != c"{":
        return False
    while True:
        # After the brace, or after a comma.
        at = _skip_text(at + 1, end, &member)
        if at is NULL or member.is_escaped or end - at < 2 or at[0] != c":":
            return False
        member.name = member.text
        at += 1
        bit = _member_bit(member.name)
        if bit == _HAS_FIELDS:
            at = _scan_fields(at, end, header)
        elif bit == _HAS_LANGUAGE or bit == _HAS_SERIALIZER:
            at = _skip_text(at, end, &member)
        elif bit == _HAS_CODE:
            at = _skip_number(at, end, &header.code)
        elif bit == _HAS_FLAG:
            at = _skip_number(at, end, &header.flag)
        elif bit == _HAS_OPAQUE:
            at = _skip_number(at, end, &header.opaque)
        elif bit == _HAS_VERSION:
            at = _skip_number(at, end, &header.version)
        else:
            return False
        if at is NULL or at >= end or seen & bit:
            return False
        seen |= bit
        if at[0] == c"}":
            break
        if at[0] != c",":
            return False
    return (
        at + 1 == end
        and seen & _NEEDED == _NEEDED
        and _is_int32(header.code)
        and _is_int32(header.flag)
        and _is_int32(header.opaque)
        and _is_int32(header.version)
    )


cdef bint read_number(Span text, int64_t* number) noexcept nogil:
    """Whether the text is a usual number."""
    return _skip_number(text.start, text.start + text.size, number) == text.start + text.size


cdef bint read_int32(Span text, int64_t* number) noexcept nogil:
    return read_number(text, number) and _is_int32(number[0])


cdef bint read_bool(Span text, bint* truth) noexcept nogil:
    """Whether the text is one of the two that Java writes."""
    truth[0] = is_text(text, b"true")
    return truth[0] or is_text(text, b"false")


cdef Py_ssize_t unescape(Span text, uint8_t* target) noexcept nogil:
    """Writes what the text of a field means, which is never longer; its size."""
    cdef const uint8_t* at = text.start
    cdef const uint8_t* end = at + text.size
    cdef uint8_t* to = target
    while at < end:
        if at[0] == c"\\":
            to[0] = at[_ESCAPE_SIZE - 1] - c"0"
            at += _ESCAPE_SIZE
        else:
            to[0] = at[0]
            at += 1
        to += 1
    return to - target


cdef inline bint _is_int32(int64_t number) noexcept nogil:
    return -_INT32_MAX - 1 <= number <= _INT32_MAX


cdef inline uint32_t _member_bit(Span name) noexcept nogil:
    """0 for a member that is not known."""
    if is_text(name, b"code"):
        return _HAS_CODE
    if is_text(name, b"extFields"):
        return _HAS_FIELDS
    if is_text(name, b"flag"):
        return _HAS_FLAG
    if is_text(name, b"opaque"):
        return _HAS_OPAQUE
    if is_text(name, b"version"):
        return _HAS_VERSION
    if is_text(name, b"language"):
        return _HAS_LANGUAGE
    return _HAS_SERIALIZER if is_text(name, b"serializeTypeCurrentRPC") else 0


# Each of these takes what is usual and returns where it ends, or NULL.

cdef const uint8_t* _scan_fields(
    const uint8_t* at, const uint8_t* end, ScannedHeader* header
) noexcept nogil:
    cdef Field* field
    header.count = 0
    if at[0] != c"{":
        return NULL
    if end - at > 1 and at[1] == c"}":
        return at + 2
    while header.count < FIELD_COUNT_MAX:
        field = &header.fields[header.count]
        at = _skip_text(at + 1, end, field)
        if at is NULL or field.is_escaped or at >= end or at[0] != c":":
            return NULL
        field.name = field.text
        at = _skip_text(at + 1, end, field)
        if at is NULL or at >= end:
            return NULL
        header.count += 1
        if at[0] == c"}":
            return at + 1
        if at[0] != c",":
            return NULL
    return NULL


cdef inline const uint8_t* _skip_text(
    const uint8_t* at, const uint8_t* end, Field* field
) noexcept nogil:
    field.is_escaped = False
    if at >= end or at[0] != c'"':
        return NULL
    at += 1
    field.text.start = at
    while at < end and at[0] != c'"':
        if at[0] == c"\\":
            # More follows a text: at least the quotes that end it.
            if end - at <= _ESCAPE_SIZE or memcmp(at, b"\\u000", _ESCAPE_SIZE - 1):
                return NULL
            if at[_ESCAPE_SIZE - 1] != c"1" and at[_ESCAPE_SIZE - 1] != c"2":
                return NULL
            field.is_escaped = True
            at += _ESCAPE_SIZE
        elif 32 <= at[0] < 127:
            at += 1
        else:
            return NULL
    if at >= end:
        return NULL
    field.text.size = at - field.text.start
    return at + 1


cdef inline const uint8_t* _skip_number(
    const uint8_t* at, const uint8_t* end, int64_t* number
) noexcept nogil:
    cdef bint is_negative = at < end and at[0] == c"-"
    cdef const uint8_t* start
    cdef int64_t value = 0
    if is_negative:
        at += 1
    start = at
    while at < end and c"0" <= at[0] <= c"9":
        value = 10 * value + (at[0] - c"0")
        at += 1
        if at - start > _DIGIT_COUNT_MAX:
            return NULL
    if at == start or (start[0] == c"0" and (at - start > 1 or is_negative)):
        return NULL
    number[0] = -value if is_negative else value
    return at
