"""Which records were compared with their checksums moments ago, and need not be again.

Several groups read the same messages, mostly within the same second. A quarter of a megabyte
remembers some thousands of them; who comes late compares once more.
"""

cimport cython
from libc.string cimport memset


@cython.final
cdef class ComparedRecords:
    def __cinit__(self):
        self.forget()

    def forget(self):
        """A disk may have changed its mind since."""
        memset(self.slots, 0, sizeof(self.slots))
