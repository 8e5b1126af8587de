from roquet.protocol.binary cimport int64_t

cdef enum:
    SLOT_COUNT = 1 << 15
    # A record is longer, so that no two of them have a slot in common unless they lie far apart.
    GRAIN_SHIFT = 6


cdef class ComparedRecords:
    # Physical offsets plus one; 0 stands for none.
    cdef int64_t slots[SLOT_COUNT]

    cdef inline bint knows(self, int64_t physical_offset) noexcept:
        return self.slots[(physical_offset >> GRAIN_SHIFT) & (SLOT_COUNT - 1)] == physical_offset + 1

    cdef inline void note(self, int64_t physical_offset) noexcept:
        self.slots[(physical_offset >> GRAIN_SHIFT) & (SLOT_COUNT - 1)] = physical_offset + 1
