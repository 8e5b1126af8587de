from roquet.protocol.binary cimport int64_t
from roquet.protocol.messages.numbered_ids cimport NumberedIds


cdef class PlainMessages:
    cdef bytes _before_id, _behind_id
    cdef Py_ssize_t _body_size_max
    cdef Py_ssize_t _properties_size
    # What a plain message takes of a batch besides its body.
    cdef Py_ssize_t bare_size
    cdef object _make_id, now_ms
    cdef NumberedIds _of_moment

    cdef Py_ssize_t body_size(self, message, str topic) except -2
    cdef object made(self, message, int64_t now_ms)
