from roquet.protocol.binary cimport int64_t


cdef class LogCursor:
    # The physical offset of the next record. Set after the bytes before it are written, so that
    # another thread can rely on everything before it being written.
    cdef public int64_t end
    cdef public int64_t synced_end, last_store_timestamp
    # Records past it may not be read yet, even if they are on disk: no slave has confirmed them.
    cdef public int64_t confirmed_end
    # Bytes before it were found on disk at the start; this process wrote what follows.
    cdef public int64_t written_from
    # All files, in order: one list, changed in place. The file that is written to, and the end of
    # the part of it that records may use.
    cdef public list files
    cdef public object file, mapping
    cdef public int64_t file_start, used_end


cdef class QueueCursor:
    cdef public int64_t min_offset
    cdef public int64_t max_offset  # of the next entry
    # All files, as those of the log.
    cdef public list files
    # Where in the last file the next entry is written, and the end of the space reserved there.
    cdef public object mapping
    cdef public int64_t position, reserved_position
