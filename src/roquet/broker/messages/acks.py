"""Acknowledgements that wait until what they acknowledge is safe.

A broker awaits none, one or both of two conditions:

    sync flush     the disk has it. Each round of the flush thread makes everything before one
                   physical offset durable; that is handed to the event loop once per round.
    SYNC_MASTER    as many slaves as needed have confirmed it (`replication/replica_progress`). If
                   none is close enough, nothing waits for it. A master that another broker may
                   replace must also hold its lease: nothing is acknowledged while it may be lost.

Each is an end that moves on. Records are appended in the order of the log, so everything that waits
is in one queue, released from its head by the moving ends. Deadlines are in the same order.

What happens on a timeout of the disk or of a slave, without a slave, and after a failed sync:

    what waits           timeout, or no slave                       failed
    send                 REPORT: its reply, FLUSH_DISK_TIMEOUT,     SERVICE_NOT_AVAILABLE
                         FLUSH_SLAVE_TIMEOUT or
                         SLAVE_NOT_AVAILABLE
    change of a topic    EXPLAIN: the codes of a send, and a        SERVICE_NOT_AVAILABLE
    or a group           remark that it is done at this broker
    send-back            REFUSE: SYSTEM_ERROR, the client then      SYSTEM_ERROR, likewise
                         sends the message itself
    copy of a reply      IGNORE: its reply all the same, for the    SERVICE_NOT_AVAILABLE
                         client that asked has it
    end of transaction,  KEEP_WAITING: no reply before it is safe   SERVICE_NOT_AVAILABLE
    resumed check
    pop                  IGNORE: its reply all the same; after a    SERVICE_NOT_AVAILABLE
                         crash its messages may come early
    ack, or change, of   REFUSE: SYSTEM_ERROR, the message may      SYSTEM_ERROR, likewise
    a popped message     come again
    delayed message      KEEP_WAITING: delivery continues late      never continues
    check-back           DROP: its producer is not asked in this    never asked
                         round, but in the next

A timeout leaves the outcome unknown: it may still become safe. Without a slave it is as safe as it
gets, so KEEP_WAITING and DROP proceed. Failed is forever: the broker has to stop.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias, final

import msgspec

from roquet.broker.replication.replica_progress import EVERYTHING, ReplicaProgress, do_nothing
from roquet.clock import Clock
from roquet.net.connection import Connection
from roquet.net.router import DEFERRED, Reply, ReplyDeferred, Request, encode_answer
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.store.errors import Damage, SyncFailed

log = logging.getLogger(__name__)

_SWEEP_S: Final = 0.5
_LATE_REMARKS: Final = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "not on disk in time, but it may still get there",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "not confirmed by a slave in time, but stored",
    ResponseCode.SLAVE_NOT_AVAILABLE: "stored, but there is no slave to confirm it",
}
_DONE_REMARKS: Final = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "done at this broker, but not on its disk in time",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "done at this broker, but not confirmed by a replica in time:"
    " if the broker is lost now, this may be lost with it",
    ResponseCode.SLAVE_NOT_AVAILABLE: "done at this broker, but no replica is there to confirm it:"
    " if the broker is lost now, this may be lost with it",
}
_FAILED_REMARK: Final = "the disk has failed"


class OnTimeout(Enum):
    """What happens when the deadline comes first. The table above has who uses which."""

    REPORT = "the reply goes out as a timeout"
    EXPLAIN = "the reply is a timeout that describes what is done"
    REFUSE = "an error goes out instead of the reply"
    IGNORE = "the reply goes out as if nothing were amiss"
    KEEP_WAITING = "nothing happens before it is safe"
    DROP = "nothing happens any more"


class _WaitingReplies(msgspec.Struct, gc=False):
    """The frames are encoded already. They contain the request's number, so it is not kept."""

    end: int
    since_s: float
    late: OnTimeout
    connection: Connection
    frames: bytes
    count: int

    def release(self) -> None:
        self.connection.send_deferred(self.frames, self.count)

    def be_late(self, why: ResponseCode) -> None:
        if self.late in (OnTimeout.IGNORE, OnTimeout.KEEP_WAITING):
            self.release()
        else:
            self._pay_each(lambda reply: _late_reply(reply, self.late, why))

    def fail(self) -> None:
        failed = _failed(self.late)
        self._pay_each(lambda reply: reply_to(reply, failed.code, remark=failed.remark))

    def _pay_each(self, changed: Callable[[Command], Command]) -> None:
        replies = map(decode_command, FrameDecoder().cut(self.frames))
        frames = b"".join([encode_command(changed(reply)) for reply in replies])
        self.connection.send_deferred(frames, self.count)


class _WaitingOutcome(msgspec.Struct):
    end: int
    since_s: float
    late: OnTimeout
    then: Callable[[ResponseCode], None]
    count: int = 1

    def release(self) -> None:
        self.then(ResponseCode.SUCCESS)

    def be_late(self, why: ResponseCode) -> None:
        if self.late in (OnTimeout.IGNORE, OnTimeout.KEEP_WAITING):
            self.release()
        else:
            self.then(why)

    def fail(self) -> None:
        self.then(ResponseCode.SERVICE_NOT_AVAILABLE)


class _WaitingCall(msgspec.Struct):
    end: int
    since_s: float
    late: OnTimeout
    then: Callable[[], None]

    def release(self) -> None:
        self.then()

    def be_late(self, why: ResponseCode) -> None:
        if why is ResponseCode.SLAVE_NOT_AVAILABLE:
            self.then()

    def fail(self) -> None:
        pass


_Waiting: TypeAlias = _WaitingReplies | _WaitingOutcome | _WaitingCall


@final
class AckQueue:
    """Belongs to the event loop, except for the calls of `StoreListener` in the flush thread."""

    def __init__(
        self,
        clock: Clock,
        timeout_s: float,
        *,
        is_awaited: bool,
        on_safe: Callable[[int], None] = lambda _end: None,
        replicas: ReplicaProgress | None = None,
        replica_timeout_s: float = 0.0,
        on_replica_awaited: Callable[[], None] = do_nothing,
    ) -> None:
        """`on_safe` is called once per round with the end up to which the log can be read.

        With `is_awaited` replies wait for the disk, with `replicas` also for a slave, and then
        `on_replica_awaited` is called.
        """
        self._clock = clock
        self._timeout_s = timeout_s
        self._on_safe = on_safe
        self._is_disk_awaited = is_awaited
        self._replicas = replicas
        self._replica_timeout_s = replica_timeout_s
        if replicas is not None:
            replicas.on_change = self.release_soon
        self._on_replica_awaited = on_replica_awaited
        # False if everything is safe as soon as it is stored.
        self.is_awaited: Final = is_awaited or replicas is not None
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        # Those at the head of the queue whose deadline is over, and which still wait.
        self._overdue: deque[_Waiting] = deque()
        self._safe_end = 0
        # What the disk has, as far as the loop knows.
        self._disk_end = 0 if is_awaited else EVERYTHING
        self._flushed_end = 0
        self._is_handing_over = False
        self._is_release_due = False
        self._timer: asyncio.TimerHandle | None = None
        # Sends that were answered before they were safe, by the code of the reply.
        self.late_counts: Counter[ResponseCode] = Counter()
        # The supervisor of the broker waits for this and stops it.
        self.has_failed = asyncio.Event()

    def check_room(self, request: Request[Any]) -> None:
        """Raises Refused if the sender has too many requests that wait.

        What is stored must not be refused, so this is asked before anything is.
        """
        if self.is_awaited:
            request.connection.check_room_to_defer()

    def reply_when_safe(
        self, request: Request[Any], end: int, reply: Reply | bytes, late: OnTimeout
    ) -> Reply | ReplyDeferred | bytes:
        """`reply` when all records before `end` are safe; for a handler to return."""
        if not self.is_awaited or end <= self._safe_end:
            return reply
        if self.has_failed.is_set():
            return _failed(late)
        frame = encode_answer(request.command, reply)
        if frame is None:
            return DEFERRED  # The request was one-way.
        self._hold(end, late, request.connection, frame, 1)
        return DEFERRED

    def send_when_safe(self, connection: Connection, end: int, frames: bytes, count: int) -> None:
        """The same for the replies to this many sends, of which the last ends there in the log.

        Only where safety is awaited, and never for what was stored after the disk has failed.
        """
        self._hold(end, OnTimeout.REPORT, connection, frames, count)

    def answer_when_safe(
        self, connection: Connection, end: int, frames: bytes, count: int, late: OnTimeout
    ) -> None:
        """The same for requests that are deferred already."""
        replies = _WaitingReplies(end, self._clock.monotonic_s(), late, connection, frames, count)
        if not self.is_awaited or end <= self._safe_end:
            replies.release()
        elif self.has_failed.is_set():
            replies.fail()
        else:
            self._enqueue(replies)

    def _hold(
        self, end: int, late: OnTimeout, connection: Connection, frames: bytes, count: int
    ) -> None:
        # They are stored, whether or not their sender is still connected.
        connection.defer(count)
        since_s = self._clock.monotonic_s()
        self._enqueue(_WaitingReplies(end, since_s, late, connection, frames, count))

    def _enqueue(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        if self._timer is None:
            self._set_timer()
        self.release_soon()

    def when_safe(
        self, end: int, then: Callable[[], None], late: OnTimeout = OnTimeout.KEEP_WAITING
    ) -> None:
        """Calls `then` when all records before `end` are safe, and never if that never comes."""
        if not self.is_awaited or end <= self._safe_end:
            then()
        elif not self.has_failed.is_set():
            self._enqueue(_WaitingCall(end, self._clock.monotonic_s(), late, then))

    def when_settled(self, end: int, then: Callable[[ResponseCode], None], late: OnTimeout) -> None:
        """Calls `then` with the code of the reply, as soon as it is known whether all records
        before `end` are safe."""
        if not self.is_awaited or end <= self._safe_end:
            then(ResponseCode.SUCCESS)
        elif self.has_failed.is_set():
            then(ResponseCode.SERVICE_NOT_AVAILABLE)
        else:
            self._enqueue(_WaitingOutcome(end, self._clock.monotonic_s(), late, then))

    def close(self) -> None:
        """What still waits is never answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        self._overdue.clear()

    # Called in the flush thread.

    def flushed(self, end: int) -> None:
        self._flushed_end = end
        if not self._is_handing_over:
            # Rounds that end before the loop has looked are handed over together.
            self._is_handing_over = True
            self._loop.call_soon_threadsafe(self._take_flushed)

    def flush_postponed(self, reason: str) -> None:
        log.warning("nothing is synced until there are descriptors again: %s", reason)

    def flush_failed(self, error: SyncFailed) -> None:
        self._loop.call_soon_threadsafe(self._fail, error)

    # Called by the store, in the loop's own thread.

    def damaged(self, damage: Damage) -> None:
        log.error("damage at physical offset %d: %s", damage.physical_offset, damage.reason)

    def _take_flushed(self) -> None:
        # First, so that a round which ends from now on is handed over again.
        self._is_handing_over = False
        if self._is_disk_awaited:
            self._disk_end = self._flushed_end
        self._release_safe()

    def release_soon(self) -> None:
        """A reply waits for a slave, or no longer has to; one call per turn of the loop."""
        if self._replicas is not None and not self._is_release_due:
            self._is_release_due = True
            self._loop.call_soon(self._release_safe)

    def _release_safe(self) -> None:
        """Releases those whose wait is over. This is the only place that computes what is safe."""
        self._is_release_due = False
        replicas = self._replicas
        if not self._may_acknowledge():
            return
        confirmed_end = EVERYTHING if replicas is None else replicas.confirmed_end
        self._safe_end = min(self._disk_end, confirmed_end)
        self._release(self._overdue)
        self._release(self._waiting)
        if replicas is not None and self._waiting:
            self._on_replica_awaited()
        self._show()

    def _release(self, queue: deque[_Waiting]) -> None:
        replicas = self._replicas
        while queue and queue[0].end <= self._disk_end:
            if queue[0].end <= self._safe_end:
                queue.popleft().release()
            elif replicas is not None and not replicas.is_awaited(queue[0].end):
                self._be_late(queue.popleft(), ResponseCode.SLAVE_NOT_AVAILABLE)
            else:
                return

    def _be_late(self, waiting: _Waiting, why: ResponseCode) -> None:
        if not isinstance(waiting, _WaitingCall) and waiting.late is OnTimeout.REPORT:
            self.late_counts[why] += waiting.count
        waiting.be_late(why)

    def _show(self) -> None:
        shown_end = EVERYTHING if self._replicas is None else self._replicas.shown_end
        self._on_safe(min(self._disk_end, shown_end))

    def _fail(self, error: SyncFailed) -> None:
        log.error("no message is acknowledged any more: %s", error)
        self.has_failed.set()
        for queue in (self._overdue, self._waiting):
            while queue:
                queue.popleft().fail()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _may_acknowledge(self) -> bool:
        return self._replicas is None or self._replicas.may_acknowledge()

    def _sweep(self) -> None:
        self._timer = None
        if not self._may_acknowledge():
            # Nor "unknown": a successor may cut it off.
            self._set_timer()
            return
        now_s = self._clock.monotonic_s()
        queue = self._waiting
        while queue and (why := self._why_late(queue[0], now_s)) is not None:
            late = queue.popleft()
            if self._replicas is not None:
                self._replicas.give_up(late.end)
            if late.late is OnTimeout.KEEP_WAITING:
                self._overdue.append(late)
            else:
                self._be_late(late, why)
        if queue:
            self._set_timer()
        if self._replicas is not None:
            self._show()

    def _why_late(self, waiting: _Waiting, now_s: float) -> ResponseCode | None:
        """The reply for the sender; None if there is time left."""
        is_on_disk = waiting.end <= self._disk_end
        timeout_s = self._replica_timeout_s if is_on_disk else self._timeout_s
        if now_s < waiting.since_s + timeout_s:
            return None
        if self._replicas is not None and waiting.end > self._replicas.confirmed_end:
            return ResponseCode.FLUSH_SLAVE_TIMEOUT
        return ResponseCode.FLUSH_DISK_TIMEOUT


def _failed(late: OnTimeout) -> Reply:
    is_refused = late is OnTimeout.REFUSE
    code = ResponseCode.SYSTEM_ERROR if is_refused else ResponseCode.SERVICE_NOT_AVAILABLE
    return Reply(code, remark=_FAILED_REMARK)


def _late_reply(reply: Command, late: OnTimeout, why: ResponseCode) -> Command:
    if late is OnTimeout.REPORT:
        reply.code = why
        return reply
    if late is OnTimeout.EXPLAIN:
        return reply_to(reply, why, remark=_DONE_REMARKS[why])
    assert late is OnTimeout.REFUSE
    return reply_to(reply, ResponseCode.SYSTEM_ERROR, remark=_LATE_REMARKS[why])
