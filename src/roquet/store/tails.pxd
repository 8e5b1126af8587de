from roquet.protocol.binary cimport int64_t


cdef class LogTail:
    # The physical offset of the record to come. Set after the bytes before it are written, so that
    # another thread can take everything before it for written.
    cdef public int64_t end
    cdef public int64_t synced_end, last_store_timestamp
    # What lies behind it may not be read yet, whatever the disk has: nobody else has a copy of it.
    cdef public int64_t confirmed_end
    # What lies before it was read from disk; what follows was written by this process.
    cdef public int64_t written_from
    # All files, in order: one list, which changes. The one that is written to, and the end of what
    # records may use of it.
    cdef public list files
    cdef public object file, mapping
    cdef public int64_t file_start, used_end


cdef class QueueTail:
    cdef public int64_t min_offset
    cdef public int64_t max_offset  # of the entry to come
    # All files, as those of the log.
    cdef public list files
    # Where in the last file that goes, and the end of the space there is for it.
    cdef public object mapping
    cdef public int64_t position, reserved_position
