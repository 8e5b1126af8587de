# cython: boundscheck=False, wraparound=False
"""Records of a pull reply, cut apart at once and read when somebody looks.

How a record is laid out is drawn in `record.py`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject

from roquet.protocol.binary cimport (
    crc31,
    get_int32,
    get_int64,
    get_uint32,
    int32_t,
    int64_t,
    uint8_t,
)
from roquet.protocol.messages.record_layout cimport (
    ADDRESS_BITS,
    BODY_AT,
    BODY_CRC_AT,
    BODY_SIZE_AT,
    COMPRESSED,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    SYS_FLAG_AT,
)

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import read_record

cdef enum:
    # In the system flag.
    _NO_PLAIN_BODY = COMPRESSED | ADDRESS_BITS

cdef tuple _NO_ARGUMENTS = ()


cdef class LazyRecord:
    """The record at `position` of a buffer; what it is to its reader is added by who derives.

    `record` and `body` raise BadMessage when there is nonsense.
    """

    cdef readonly Py_ssize_t size
    cdef readonly int64_t queue_offset
    # Which queue it came from, as the reader names it.
    cdef public object queue
    cdef readonly object _namespace
    cdef bytes buffer
    cdef Py_ssize_t position
    cdef object known_record
    cdef object known_body

    def __init__(
        self,
        bytes buffer not None,
        Py_ssize_t position,
        Py_ssize_t size,
        queue,
        int64_t queue_offset,
        namespace=None,
    ):
        self.buffer = buffer
        self.position = position
        self.size = size
        self.queue = queue
        self.queue_offset = queue_offset
        self._namespace = namespace

    @property
    def record(self):
        """Everything a broker keeps of the message."""
        if self.known_record is None:
            self.known_record = read_record(self.buffer, self.position)
        return self.known_record

    @property
    def body(self):
        """Decompressed."""
        if self.known_body is None:
            self.known_body = read_plain_body(
                self.buffer, self.position, self.position + self.size
            )
            if self.known_body is None:
                self.known_body = self.record.decompressed_body()
        return self.known_body


def split_lazily(type kind not None, bytes buffer not None, queue, namespace=None):
    """The records that `buffer` is made of, each one a `kind` of LazyRecord. Raises BadMessage."""
    if not issubclass(kind, LazyRecord):
        raise TypeError(f"{kind} is no LazyRecord")
    cdef list found = []
    cdef LazyRecord each
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(buffer)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(buffer)
    cdef Py_ssize_t position = 0
    cdef int32_t size
    while position < end:
        if end - position < RECORD_SIZE_MIN:
            raise BadMessage(f"{end - position} bytes are no record")
        size = get_int32(data + position)
        if size < RECORD_SIZE_MIN or size > end - position:
            raise BadMessage(f"a record of {size} bytes does not fit at byte {position}")
        # Without `__init__`: there are many of them.
        each = <LazyRecord>(<PyTypeObject*>kind).tp_new(kind, <PyObject*>_NO_ARGUMENTS, NULL)
        each.buffer = buffer
        each.position = position
        each.size = size
        each.queue = queue
        each.queue_offset = get_int64(data + position + QUEUE_OFFSET_AT)
        each._namespace = namespace
        found.append(each)
        position += size
    return found


cpdef bytes read_plain_body(bytes buffer, Py_ssize_t position, Py_ssize_t end):
    """The body alone of the record from `position` to `end`, for who wants nothing else of it.

    None if it is compressed, or lies elsewhere because of long addresses: then it takes
    `read_record`. Raises BadMessage.
    """
    if buffer is None or position < 0 or end > PyBytes_GET_SIZE(buffer) or (
        end - position < BODY_AT
    ):
        raise BadMessage(f"no record fits between bytes {position} and {end}")
    cdef const uint8_t* record = <const uint8_t*>PyBytes_AS_STRING(buffer) + position
    if get_int32(record + SYS_FLAG_AT) & _NO_PLAIN_BODY:
        return None
    cdef int32_t size = get_int32(record + BODY_SIZE_AT)
    if size < 0 or size > end - position - BODY_AT:
        raise BadMessage(f"a body of {size} bytes does not fit its record")
    if crc31(record + BODY_AT, size) != get_uint32(record + BODY_CRC_AT):
        raise BadMessage(f"the body at byte {position + BODY_AT} breaks its CRC")
    return PyBytes_FromStringAndSize(<const char*>record + BODY_AT, size)
