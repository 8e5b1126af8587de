from roquet.protocol.messages.record_parts cimport RecordParts


# `position` is that of the record in its file.
cdef bint has_lost_checksum(const RecordParts* record, Py_ssize_t position) noexcept
