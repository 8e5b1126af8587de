# cython: boundscheck=False, wraparound=False
"""Records of a pull reply, cut apart at once and decoded on first access.

How a record is laid out is drawn in `record.py`.
"""

from cpython.object cimport PyObject, PyTypeObject

from roquet.protocol.binary cimport Span, bytes_of, get_int64, int64_t, span_of
from roquet.protocol.messages.record_layout cimport COMPRESSED, QUEUE_OFFSET_AT
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    fitting_size,
    has_right_body,
    locate_record,
)

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import read_record

cdef tuple _NO_ARGUMENTS = ()


cdef class LazyRecord:
    """The record at `position` of a buffer; subclasses add what it is to its reader.

    `record` and `body` raise BadMessage for invalid bytes.
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
            self.known_body = self._uncompressed_body()
            if self.known_body is None:
                self.known_body = self.record.decompressed_body()
        return self.known_body

    cdef bytes _uncompressed_body(self):
        """None if it is compressed or invalid: then it takes `read_record`."""
        cdef Span buffer
        cdef RecordParts record
        if self.buffer is None:
            return None
        buffer = span_of(self.buffer)
        if (
            self.position < 0
            or self.size > buffer.size - self.position
            or not locate_record(buffer.start + self.position, self.size, &record)
            or record.sys_flag & COMPRESSED
            or not has_right_body(&record)
        ):
            return None
        return bytes_of(record.body)


def split_lazily(type kind not None, bytes buffer not None, queue, namespace=None):
    """The records that `buffer` is made of, each one a `kind` of LazyRecord. Raises BadMessage."""
    if not issubclass(kind, LazyRecord):
        raise TypeError(f"{kind} is not a LazyRecord")
    cdef list found = []
    cdef LazyRecord each
    cdef Span data = span_of(buffer)
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t size
    while position < data.size:
        size = fitting_size(data.start + position, data.size - position)
        if not size:
            raise BadMessage(f"no record fits between bytes {position} and {data.size}")
        # Without `__init__`: there are many of them.
        each = <LazyRecord>(<PyTypeObject*>kind).tp_new(kind, <PyObject*>_NO_ARGUMENTS, NULL)
        each.buffer = buffer
        each.position = position
        each.size = size
        each.queue = queue
        each.queue_offset = get_int64(data.start + position + QUEUE_OFFSET_AT)
        each._namespace = namespace
        found.append(each)
        position += size
    return found
