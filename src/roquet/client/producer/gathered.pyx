"""Messages that will share a request, and those who wait for them; see `batching.py`."""

cimport cython
from libc.math cimport INFINITY

from roquet.client.producer.receipt import SendReceipt

cdef object _SendReceipt = SendReceipt


@cython.final
cdef class Gathered:
    """Messages of `size` bytes in all, the futures of those who wait for them, and the earliest
    of their deadlines."""

    def __init__(self):
        self.messages = []
        self.waiting = []
        self.size = 0
        self.deadline_s = INFINITY

    cpdef int add(self, message, waiting, Py_ssize_t size, double deadline_s) except -1:
        self.messages.append(message)
        self.waiting.append(waiting)
        self.size += size
        if deadline_s < self.deadline_s:
            self.deadline_s = deadline_s
        return 0

    def hand_out(self, list results not None):
        """A receipt or an error to each who waits, unless that has given up."""
        for waiting, result in zip(self.waiting, results, strict=True):
            if waiting.done():
                continue
            if type(result) is _SendReceipt:
                waiting.set_result(result)
            else:
                waiting.set_exception(result)
