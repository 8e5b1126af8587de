from libc.stdint cimport int32_t, int64_t


cdef struct Key:
    # As it is drawn in `message_keys.py`.
    int64_t physical_offset
    int64_t timestamp
    int32_t key_hash
    int32_t unused
