"""The way of a plain message to others of its topic that are gathered already.

When a request is begun, when it is full and what becomes of it is said in `batching.py`: what would
begin one or fill it is left to that.
"""

cimport cython

from roquet.client.producer.gathered cimport Gathered
from roquet.client.producer.plain_messages cimport PlainMessages
from roquet.client.producer.occupancy cimport Occupancy

from roquet.client.producer.batching import GATHERED_COUNT_MAX


@cython.final
cdef class PlainGathering:
    """Of one producer, between `open` and `close`."""

    cdef Occupancy _occupancy
    cdef PlainMessages _messages
    cdef dict _begun
    cdef Py_ssize_t _size_max, _count_max
    cdef object _check_usable, _look, _now_s, _new_future

    def __init__(
        self, PlainMessages messages not None, gatherer, window, instance, loop
    ):
        self._messages = messages
        self._begun = gatherer.begun
        self._size_max = gatherer.size_max
        self._count_max = GATHERED_COUNT_MAX
        self._check_usable = instance.check_usable
        self._occupancy = window.occupancy
        self._look = window.look
        self._now_s = loop.time
        self._new_future = loop.create_future

    def add(self, message, double timeout_s):
        """What becomes of a message: a receipt or a SendError. It has to leave the window then.

        None if there is anything to decide: then nothing was done. Raises as `Outbox.usable`.
        """
        topic = getattr(message, "topic", None)
        if type(topic) is not str:
            return None
        cdef Gathered gathered = self._begun.get(topic)
        if gathered is None:
            return None
        cdef Py_ssize_t body_size = self._messages.body_size(message, <str>topic)
        cdef Py_ssize_t size = self._messages.bare_size + body_size
        if (
            body_size < 0
            or self._occupancy.is_watched
            or gathered.size + size > self._size_max
            or len(gathered.messages) + 1 >= self._count_max
        ):
            return None
        self._check_usable()
        if not self._occupancy.try_enter(body_size):
            return None
        waiting = self._new_future()
        cdef double now_s = self._now_s()
        gathered.add(
            self._messages.made(message, self._messages.now_ms()), waiting, size, now_s + timeout_s
        )
        return waiting

    def leave(self, Py_ssize_t size):
        """It makes room for others."""
        self._occupancy.leave(size)
        if self._occupancy.is_watched:
            self._look()
