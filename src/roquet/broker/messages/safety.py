"""Is it safe? One answer for everybody who has stored something and must not say so too early.

With async flush everything is safe at once. With sync flush it is when the disk has it. Each round
of the flush thread makes everything before one physical offset durable; that is handed to the
event loop once per round, and moves the end of what is safe. Records are appended in the order of
the log, so all who wait stand in one line, and the moving end lets them go from its head. Their
deadlines are in the same order.

What it means to each when the disk takes too long (late), or has failed:

    who waits            late                                       failed
    send                 SAY_SO: its reply, FLUSH_DISK_TIMEOUT      SERVICE_NOT_AVAILABLE
    send-back            REFUSE: SYSTEM_ERROR, the client then      SYSTEM_ERROR, likewise
                         sends the message itself
    copy of a reply      IGNORE: its reply all the same, for the    SERVICE_NOT_AVAILABLE
                         client that asked has it
    end of transaction,  WAIT_ON: nothing is said before it is      SERVICE_NOT_AVAILABLE
    resumed check        true
    delayed message      WAIT_ON: whoever delivers is woken late    never woken
    check-back           FORGET: its producer is not asked in this  never asked
                         round, but in the next

Late means that nobody knows: it may still get there. Failed is forever: the broker has to stop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, final

import msgspec

from roquet.clock import Clock
from roquet.net.connection import Connection
from roquet.net.router import OWED, Owed, Reply, Request, encode_answer
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.store.damage import Damage
from roquet.store.errors import SyncFailed

log = logging.getLogger(__name__)

_SWEEP_S: Final = 0.5
_LATE_REMARK: Final = "not on disk in time, but it may still get there"
_FAILED_REMARK: Final = "the disk has failed"


class Late(Enum):
    """What happens when the deadline comes first. Who uses which is said above."""

    SAY_SO = "the reply goes out as a timeout"
    REFUSE = "an error goes out instead of the reply"
    IGNORE = "the reply goes out as if nothing were amiss"
    WAIT_ON = "nothing happens before it is safe"
    FORGET = "nothing happens any more"


class _WaitingReplies(msgspec.Struct, gc=False):
    """The frames are encoded already. They say whom they answer: nothing else has to be kept."""

    end: int
    deadline_s: float
    late: Late
    connection: Connection
    frames: bytes
    count: int

    def release(self) -> None:
        self.connection.pay(self.frames, self.count)

    def be_late(self) -> None:
        if self.late is Late.IGNORE:
            self.release()
        else:
            self._pay_each(lambda reply: _late_reply(reply, self.late))

    def fail(self) -> None:
        failed = _failed(self.late)
        self._pay_each(lambda reply: reply_to(reply, failed.code, remark=failed.remark))

    def _pay_each(self, changed: Callable[[Command], Command]) -> None:
        replies = map(decode_command, FrameDecoder().cut(self.frames))
        frames = b"".join([encode_command(changed(reply)) for reply in replies])
        self.connection.pay(frames, self.count)


class _WaitingCall(msgspec.Struct):
    end: int
    deadline_s: float
    late: Late
    then: Callable[[], None]

    def release(self) -> None:
        self.then()

    def be_late(self) -> None:
        assert self.late is Late.FORGET

    def fail(self) -> None:
        pass


@final
class Safety:
    """Belongs to the event loop, except for what `StoreListener` says of the flush thread."""

    def __init__(
        self,
        clock: Clock,
        timeout_s: float,
        *,
        is_awaited: bool,
        on_safe: Callable[[int], None] = lambda _end: None,
    ) -> None:
        """`on_safe` is told, once for all who waited, up to where the log is safe."""
        self._clock = clock
        self._timeout_s = timeout_s
        self._on_safe = on_safe
        # False if everything is safe as soon as it is stored.
        self.is_awaited: Final = is_awaited
        self._loop = asyncio.get_running_loop()
        self._line: deque[_WaitingReplies | _WaitingCall] = deque()
        # Those at the head of the line whose deadline is over, and who wait on.
        self._overdue: deque[_WaitingReplies | _WaitingCall] = deque()
        self._safe_end = 0
        self._flushed_end = 0
        self._is_handing_over = False
        self._timer: asyncio.TimerHandle | None = None
        # Whoever keeps the broker alive waits for this, and ends it.
        self.has_failed = asyncio.Event()

    def check_room(self, request: Request[Any]) -> None:
        """Raises Refused if the sender has too many requests that wait.

        What is stored must not be refused, so this is asked before anything is.
        """
        if self.is_awaited:
            request.connection.check_room_to_park()

    def reply_when_safe(
        self, request: Request[Any], end: int, reply: Reply | bytes, late: Late
    ) -> Reply | Owed | bytes:
        """`reply` when all records before `end` are safe; for a handler to return."""
        if not self.is_awaited or end <= self._safe_end:
            return reply
        if self.has_failed.is_set():
            return _failed(late)
        frame = encode_answer(request.command, reply)
        if frame is None:
            return OWED  # To nobody: the request was one-way.
        self._hold(end, late, request.connection, frame, 1)
        return OWED

    def send_when_safe(self, connection: Connection, end: int, frames: bytes, count: int) -> None:
        """The same for the replies to this many sends, of which the last ends there in the log.

        Only where safety is awaited, and never for what was stored after the disk has failed.
        """
        self._hold(end, Late.SAY_SO, connection, frames, count)

    def _hold(
        self, end: int, late: Late, connection: Connection, frames: bytes, count: int
    ) -> None:
        # Stored they are, whether or not their sender is still there to hear of it.
        connection.owe(count)
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        self._line.append(_WaitingReplies(end, deadline_s, late, connection, frames, count))
        if self._timer is None:
            self._set_timer()

    def when_safe(self, end: int, then: Callable[[], None], late: Late = Late.WAIT_ON) -> None:
        """Calls `then` when all records before `end` are safe, and never if that never comes."""
        if not self.is_awaited or end <= self._safe_end:
            then()
        elif not self.has_failed.is_set():
            deadline_s = self._clock.monotonic_s() + self._timeout_s
            self._line.append(_WaitingCall(end, deadline_s, late, then))
            if self._timer is None:
                self._set_timer()

    def close(self) -> None:
        """Whoever still waits hears nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._line.clear()
        self._overdue.clear()

    # What the flush thread says.

    def flushed(self, end: int) -> None:
        self._flushed_end = end
        if not self._is_handing_over:
            # Rounds that end before the loop has looked are handed over together.
            self._is_handing_over = True
            self._loop.call_soon_threadsafe(self._move_end)

    def flush_postponed(self, reason: str) -> None:
        log.warning("nothing is synced until there are descriptors again: %s", reason)

    def flush_failed(self, error: SyncFailed) -> None:
        self._loop.call_soon_threadsafe(self._fail, error)

    # What the store says in the loop's own thread.

    def damaged(self, damage: Damage) -> None:
        log.error("damage at physical offset %d: %s", damage.physical_offset, damage.reason)

    def _move_end(self) -> None:
        # First, so that a round which ends from now on is handed over again.
        self._is_handing_over = False
        # Nothing but the disk has to have it. This is the only place that says so.
        end = self._safe_end = self._flushed_end
        for line in (self._overdue, self._line):
            while line and line[0].end <= end:
                line.popleft().release()
        self._on_safe(end)

    def _fail(self, error: SyncFailed) -> None:
        log.error("no message is acknowledged any more: %s", error)
        self.has_failed.set()
        for line in (self._overdue, self._line):
            while line:
                line.popleft().fail()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now_s = self._clock.monotonic_s()
        line = self._line
        while line and line[0].deadline_s <= now_s:
            late = line.popleft()
            if late.late is Late.WAIT_ON:
                self._overdue.append(late)
            else:
                late.be_late()
        if line:
            self._set_timer()


def _failed(late: Late) -> Reply:
    is_refused = late is Late.REFUSE
    code = ResponseCode.SYSTEM_ERROR if is_refused else ResponseCode.SERVICE_NOT_AVAILABLE
    return Reply(code, remark=_FAILED_REMARK)


def _late_reply(reply: Command, late: Late) -> Command:
    if late is Late.SAY_SO:
        reply.code = ResponseCode.FLUSH_DISK_TIMEOUT
        return reply
    assert late is Late.REFUSE
    return reply_to(reply, ResponseCode.SYSTEM_ERROR, remark=_LATE_REMARK)
