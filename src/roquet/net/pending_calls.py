"""Calls that wait for their responses, by their opaque.

One timer serves all of them: set for the earliest deadline, it finds the next when it
fires. A timer per call would cost as much as the rest of the call.

A program that kept the loop busy finds deadlines passed while responses lie in the socket. So
before a call expires, the loop reads what has been received.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import Final, final

import msgspec

from roquet.protocol.command import Command

_OPAQUE_MASK: Final = 0x7FFF_FFFF
# The loop reads sockets between its turns; a callback of the next turn may still be before that.
_TURNS_PER_READ: Final = 2
# Of at most 256 KB each: more than the system keeps for a socket.
_READ_COUNT_MAX: Final = 64


class PendingCall(msgspec.Struct):
    opaque: int
    code: int
    timeout_s: float
    deadline_s: float
    # How often bytes had been received when the call was made.
    receive_count: int
    response: asyncio.Future[Command]


@final
class PendingCalls:
    """`on_expired` is called once for each call that is past its deadline, with how late that was
    noticed. `receive_count` is how often bytes have been received."""

    __slots__ = (
        "_loop",
        "_on_expired",
        "_opaques",
        "_receive_count",
        "_timer",
        "_timer_s",
        "by_opaque",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_expired: Callable[[PendingCall, float], None],
        receive_count: Callable[[], int] = lambda: 0,
    ) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._receive_count = receive_count
        self._opaques = count()
        self.by_opaque: dict[int, PendingCall] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0  # when the timer fires

    def next_opaque(self) -> int:
        return next(self._opaques) & _OPAQUE_MASK

    def start(
        self, code: int, timeout_s: float, deadline_s: float, receive_count: int
    ) -> PendingCall:
        """`deadline_s` is in the time of the loop."""
        response: asyncio.Future[Command] = self._loop.create_future()
        call = PendingCall(self.next_opaque(), code, timeout_s, deadline_s, receive_count, response)
        self.by_opaque[call.opaque] = call
        self._look_at(deadline_s)
        return call

    def end(self, call: PendingCall) -> None:
        self.by_opaque.pop(call.opaque, None)

    def accept(self, response: Command) -> bool:
        """Whether a call waited for it."""
        call = self.by_opaque.pop(response.opaque, None)
        if call is None or call.response.done():
            return False
        call.response.set_result(response)
        return True

    def fail_all(self, new_error: Callable[[], Exception]) -> None:
        """Each caller gets an error of its own, because raising one changes it."""
        if self._timer is not None:
            self._timer.cancel()
        for call in self.by_opaque.values():
            if not call.response.done():
                call.response.set_exception(new_error())

    def _look_at(self, deadline_s: float) -> None:
        if self._timer is not None:
            if self._timer_s <= deadline_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline_s, self._read_first)
        self._timer_s = deadline_s

    def _read_first(self) -> None:
        late_s = self._loop.time() - self._timer_s
        self._wait_for_reads(late_s, self._receive_count(), 0)

    def _wait_for_reads(self, late_s: float, receive_count: int, turn_count: int) -> None:
        """Until nothing more is received, or that has happened often enough."""
        if turn_count % _TURNS_PER_READ == 0 and turn_count:
            is_quiet = receive_count == self._receive_count()
            if is_quiet or turn_count >= _TURNS_PER_READ * _READ_COUNT_MAX:
                self._expire(late_s)
                return
            receive_count = self._receive_count()
        self._timer = self._loop.call_soon(
            self._wait_for_reads, late_s, receive_count, turn_count + 1
        )

    def _expire(self, late_s: float) -> None:
        self._timer = None
        now_s = self._loop.time()
        overdue = [each for each in self.by_opaque.values() if each.deadline_s <= now_s]
        # A busy loop may find several at once.
        for call in sorted(overdue, key=attrgetter("deadline_s")):
            self.end(call)
            if not call.response.done():
                self._on_expired(call, late_s)
        if self.by_opaque:
            self._look_at(min(each.deadline_s for each in self.by_opaque.values()))
