"""Where the next record and the next entry go: the numbers that every append moves on.

`CommitLog` and `ConsumeQueue` are made of these and decide what becomes of them: new files, space,
cuts. Compiled code that finds room moves the same numbers on, so there is one truth about them.
"""


cdef class LogTail:
    """Of the log."""


cdef class QueueTail:
    """Of one queue. Without a file to write to, both positions are 0: there is no room."""
