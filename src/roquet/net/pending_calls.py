"""Calls that wait for their responses, by their opaque.

One timer serves all of them: set for the earliest deadline, it finds the next when it
fires. A timer per call would cost as much as the rest of the call.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import Final, final

import msgspec

from roquet.protocol.command import Command

_OPAQUE_MASK: Final = 0x7FFF_FFFF


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
    """`on_expired` is called once for each call that is past its deadline."""

    __slots__ = ("_loop", "_on_expired", "_opaques", "_timer", "_timer_s", "by_opaque")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[PendingCall], None]
    ) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._opaques = count()
        self.by_opaque: dict[int, PendingCall] = {}
        self._timer: asyncio.TimerHandle | None = None
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
        self._timer = self._loop.call_at(deadline_s, self._expire)
        self._timer_s = deadline_s

    def _expire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        overdue = [each for each in self.by_opaque.values() if each.deadline_s <= now_s]
        # A busy loop may find several at once.
        for call in sorted(overdue, key=attrgetter("deadline_s")):
            self.end(call)
            if not call.response.done():
                self._on_expired(call)
        if self.by_opaque:
            self._look_at(min(each.deadline_s for each in self.by_opaque.values()))
