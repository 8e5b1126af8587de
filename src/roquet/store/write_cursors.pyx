"""Where the next record and the next entry are written: the numbers that every append advances.

`CommitLog` and `ConsumeQueue` extend these and decide about new files, space and cuts. The compiled
append advances the same numbers while there is room, so they exist once.
"""


cdef class LogCursor:
    """Of the log."""


cdef class QueueCursor:
    """Of one queue. Without an open file both positions are 0: there is no room."""
