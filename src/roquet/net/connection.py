"""One socket, whichever side opened it.

Frames in, frames out. Requests of the peer go to `answer` and their replies leave in
one write per wake-up; responses go to our own pending calls. `router.py` maps requests to
handlers, `serving.py` and `peers.py` own the connections.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Final, Protocol, cast, final

import msgspec

from roquet.net.deadlines import CLOSING_TIMEOUT_S, DeadlineSweep
from roquet.net.errors import (
    MAY_NEED_TLS,
    CallTimedOut,
    ConnectionLost,
    Refused,
    TooManyInFlight,
)
from roquet.net.limits import ConnectionBudget, ConnectionLimits
from roquet.net.pending_calls import PendingCall, PendingCalls
from roquet.net.tls.transport import TlsTransport
from roquet.protocol.codes import CommandFlag, ResponseCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.frame import Frame
from roquet.protocol.frame_decoder import FrameDecoder, WholeFrames
from roquet.protocol.host import Address, pack_host

log = logging.getLogger(__name__)

# About forty requests. With many more in one write, either side would wait while the other works.
_KEPT_BACK_SIZE_MAX: Final = 16384
# Larger writes are counted at once, and not only once a second.
_SMALL_WRITE_SIZE: Final = 1024
# Frames that are larger on average are written one by one: to join them is to copy them.
_JOINED_SIZE_MAX: Final = 2048
# `writelines` of asyncio in Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 does not call
# `pause_writing`, and what a peer does not read would pile up: the last frame is written apart.
_PYTHON: Final[tuple[int, ...]] = tuple(sys.version_info[:3])
_WRITELINES_PAUSES: Final = not ((3, 12) <= _PYTHON < (3, 12, 9) or (3, 13) <= _PYTHON < (3, 13, 2))
# A loop that was held for so long, and for a good part of the time of a call, made it fail.
_BUSY_S: Final = 0.1
_BY_PEER: Final = "closed by the peer"
_NO_ADDRESS: Final = Address("0.0.0.0", 0)  # noqa: S104  Nothing is bound to it.


class ConnectionOwner(Protocol):
    """A server, or `Peers`."""

    def opened(self, connection: "Connection") -> None: ...

    def closed(self, connection: "Connection") -> None: ...


class DeferredRequest(Protocol):
    """A request of the peer that is answered later."""

    def drop(self) -> None:
        """Called once when the connection is lost: it cannot be answered any more."""


class FastPath(Protocol):
    """Answers frames that leave nothing to decide, in place. Others it leaves to the router."""

    def take(
        self, connection: "Connection", frames: WholeFrames, replies: list[bytes], size_max: int
    ) -> int:
        """Answers frames up to the first that it leaves, and moves `frames.position` to that.

        Appends the replies that are ready to `replies` and returns their size in bytes. It stops
        when they are `size_max`, or more.
        """


# From a frame of the peer to the bytes that answer it now, if any.
AnswerFrame = Callable[["Connection", Frame], bytes | None]


@final
class Connection(asyncio.Protocol):
    """Frames over one socket, in both directions at once.

    `peer` is the name for logs and errors, `peer_address` the other end of the socket,
    `peer_host` the same as messages hold it, `receive_count` how often bytes were received.
    """

    __slots__ = (
        "_answer",
        "_budget",
        "_calls",
        "_close_reason",
        "_deadlines",
        "_deferred",
        "_deferred_frame_count",
        "_fast_path",
        "_frames",
        "_is_mid_frame",
        "_is_server",
        "_limits",
        "_loop",
        "_outgoing",
        "_outgoing_size",
        "_owner",
        "_transport",
        "_unanswered",
        "_writable",
        "deadline_s",
        "held_size",
        "is_encrypted",
        "peer",
        "peer_address",
        "peer_host",
        "receive_count",
    )

    def __init__(
        self,
        owner: ConnectionOwner,
        answer: AnswerFrame,
        deadlines: DeadlineSweep,
        limits: ConnectionLimits,
        *,
        dialed: str | None = None,
        fast_path: FastPath | None = None,
        budget: ConnectionBudget | None = None,
    ) -> None:
        """`dialed` is the address that we connected to; without it, the peer connected to us.

        `answer` raises ProtocolError when the stream cannot be trusted any more. `fast_path` gets
        every frame before it. With a `budget`, all connections of a server share one limit.
        """
        self._owner = owner
        self._answer = answer
        self._deadlines = deadlines
        self._limits = limits
        self._fast_path = fast_path
        self._budget = budget
        self._is_server = dialed is None
        self._loop = asyncio.get_running_loop()
        self._frames = FrameDecoder(limits.frame_size_max, limits.header_size_max)
        self._outgoing: list[bytes] = []
        self._outgoing_size = 0
        self._calls = PendingCalls(self._loop, self._expire_call, lambda: self.receive_count)
        # Most connections never defer a request, and an empty set is not small.
        self._deferred: set[DeferredRequest] | None = None
        self._deferred_frame_count = 0
        self._is_mid_frame = False
        self._unanswered: WholeFrames | None = None
        # Set while the peer reads slower than we write; done when writing may resume.
        self._writable: asyncio.Future[None] | None = None
        self._close_reason: str | None = None
        self.deadline_s = float("inf")
        self.receive_count = 0
        self.held_size = 0
        self.peer = dialed or ""
        self.peer_address = _NO_ADDRESS
        self.peer_host = b""
        self.is_encrypted = False

    @property
    def is_open(self) -> bool:
        return self._close_reason is None

    @property
    def is_stalled(self) -> bool:
        """The peer reads slower than we write."""
        return self._writable is not None

    @property
    def deferred_count(self) -> int:
        """How many requests of the peer are answered later."""
        return self._deferred_frame_count + (len(self._deferred) if self._deferred else 0)

    @property
    def room_to_defer(self) -> int:
        """How many more requests of the peer may be answered later."""
        return self._limits.deferred_count_max - self.deferred_count

    # Called by owners of requests and calls.

    async def call(self, command: Command, timeout_s: float) -> Command:
        """The response to `command`, whose opaque is set here.

        Raises CallTimedOut, ConnectionLost or TooManyInFlight.
        """
        return await self.call_by(
            command.code,
            lambda opaque: encode_command(msgspec.structs.replace(command, opaque=opaque)),
            timeout_s,
        )

    async def call_by(
        self, code: int, frame_of: Callable[[int], bytes], timeout_s: float
    ) -> Command:
        """The response to the request that `frame_of` makes for an opaque. Raises like `call`."""
        deadline_s = self._loop.time() + timeout_s
        if self._writable is not None:
            await self.until_writable(code, timeout_s)
        self._check_open()
        if len(self._calls.by_opaque) >= self._limits.call_count_max:
            raise TooManyInFlight(self.peer, self._limits.call_count_max)
        call = self._begin_call(code, frame_of, timeout_s, deadline_s)
        try:
            return await call.response
        except BaseException:
            self.end_call(call)
            raise

    def begin_call(
        self, code: int, frame_of: Callable[[int], bytes], timeout_s: float, now_s: float
    ) -> PendingCall | None:
        """The same call, if it can be sent at once; `now_s` is the time of the loop.

        A caller that stops waiting for the response has to call `end_call`.
        """
        if (
            self._writable is not None
            or self._close_reason is not None
            or len(self._calls.by_opaque) >= self._limits.call_count_max
        ):
            return None
        return self._begin_call(code, frame_of, timeout_s, now_s + timeout_s)

    def end_call(self, call: PendingCall) -> None:
        """The caller stops waiting. A response that was received has ended the call already."""
        self._calls.end(call)

    def send_oneway(self, command: Command) -> None:
        """Sends without expecting a response, and without waiting for a slow peer.

        Raises ConnectionLost. Unread bytes count against the limit of the peer.
        """
        self._check_open()
        opaque = self._calls.next_opaque()
        flag = command.flag | CommandFlag.ONEWAY
        self.send(encode_command(msgspec.structs.replace(command, opaque=opaque, flag=flag)))

    async def until_writable(self, code: int, timeout_s: float) -> None:
        """Returns when the peer has read enough to send request `code`. Raises CallTimedOut."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._writable is not None and self.is_open:
                    # Others wait for the same future.
                    await asyncio.shield(self._writable)
        except TimeoutError:
            raise CallTimedOut(self.peer, code, timeout_s) from None

    def send(self, frame: bytes, *, at_once: bool = False) -> None:
        """Queues bytes for one common write at the end of this turn of the loop, or writes them.

        One turn may answer thousands of waiting requests: what has become too much for a queue
        is written, and counted as unread, before there is more.
        """
        if self._close_reason is not None:
            return
        self._outgoing.append(frame)
        self._outgoing_size += len(frame)
        if at_once or self._outgoing_size > self._limits.unread_size_high:
            self._flush()
        elif len(self._outgoing) == 1:
            self._loop.call_soon(self._flush)
        if self._writable is None and not self._is_mid_frame:
            self.deadline_s = self._deadlines.now_s + self._limits.idle_timeout_s

    def accept_response(self, response: Command) -> None:
        if not self._calls.accept(response):
            log.debug("%s answered unknown or expired call %d", self.peer, response.opaque)

    def check_room_to_defer(self) -> None:
        """Raises Refused when no more requests may be deferred."""
        if self.room_to_defer <= 0:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"[OVERLOAD]{self.deferred_count} requests of this connection are pending",
            )

    def add_deferred(self, request: DeferredRequest) -> None:
        """`request` is dropped when the connection is lost. Raises Refused at the limit."""
        self.check_room_to_defer()
        if self._deferred is None:
            self._deferred = set()
        if self._budget is not None:
            self._budget.check_room_to_defer()
            self._budget.deferred_count += 1
        self._deferred.add(request)

    def remove_deferred(self, request: DeferredRequest) -> None:
        if self._deferred is not None and request in self._deferred:
            self._deferred.remove(request)
            if self._budget is not None:
                self._budget.deferred_count -= 1

    def defer(self, count: int = 1) -> None:
        """Counts requests that `send_deferred` answers. Check first whether there is room."""
        self._deferred_frame_count += count

    def send_deferred(self, frames: bytes, count: int = 1) -> None:
        """Answers deferred requests; without effect when the peer is gone."""
        self._deferred_frame_count -= count
        self.send(frames)

    def note_refusal(self, code: int) -> None:
        """A request of this peer was refused."""
        if self._budget is not None:
            self._budget.refusals[code] += 1

    def warn(self, key: str, text: str) -> None:
        """Logs a warning, throttled by its key for all connections of the owner."""
        self._deadlines.warnings.warning(key, text)

    def close(self, reason: str) -> None:
        """Sends what is queued, then closes."""
        if self._close_reason is None:
            self._flush()
            self._close_reason = reason
            self.deadline_s = self._deadlines.now_s + CLOSING_TIMEOUT_S
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Closes at once; unsent bytes are lost."""
        if self._close_reason is None:
            self._close_reason = reason
        self._transport.abort()

    # Called by deadlines and budget.

    def count_held(self) -> None:
        """Reports incomplete requests and bytes that the peer has not read to the budget."""
        if self._budget is None or self._close_reason is not None:
            return
        size = self._frames.pending_size + self._transport.get_write_buffer_size()
        difference = size - self.held_size
        if difference:
            self.held_size = size
            self._budget.hold(difference)

    def expire(self) -> None:
        if not self.is_open:
            self._transport.abort()
        elif self.is_stalled:
            self.cut_off(f"read too little for {self._limits.unread_timeout_s:g} s")
        elif self._is_mid_frame:
            self.cut_off(f"did not complete a frame within {self._limits.frame_timeout_s:g} s")
        else:
            self.close(f"idle for {self._limits.idle_timeout_s:g} s")

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_encrypted = isinstance(transport, TlsTransport)
        high = self._limits.unread_size_high
        self._transport.set_write_buffer_limits(high=high, low=high // 4)
        # A peer that is gone already has no address any more.
        ip, port = (transport.get_extra_info("peername") or _NO_ADDRESS)[:2]
        self.peer_address = Address(ip, port)
        self.peer_host = pack_host(ip, port)
        self.peer = self.peer or str(self.peer_address)
        self.deadline_s = self._deadlines.refresh() + self._limits.idle_timeout_s
        if self._budget is not None:
            self._budget.add(self)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        self.receive_count += 1
        try:
            frames = self._frames.whole(data)
            has_frames = frames.end > 0
            self._move_deadline(has_frames=has_frames)
            self._answer_all(frames)
            if has_frames and self._frames.pending_size and self._unanswered is None:
                # Finds a bad frame after good ones now, and not with the next bytes.
                self._frames.whole(b"")
        except ProtocolError as error:
            self._distrust(error)
        if self._frames.pending_size or self.held_size:
            self.count_held()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()
        self.deadline_s = self._deadlines.now_s + self._limits.unread_timeout_s
        if self._is_server:
            # A client must continue to read, or each side could wait for the other forever.
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if not self.is_open:
            return
        self._is_mid_frame = False
        self._move_deadline(has_frames=False)
        unanswered, self._unanswered = self._unanswered, None
        try:
            if unanswered is None:
                self._flush()
            else:
                self._answer_all(unanswered)
        except ProtocolError as error:
            self._distrust(error)
        self._resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        reason = self._close_reason or (str(error) if error else self._by_peer())
        self._close_reason = reason
        self._outgoing.clear()
        # Transport and connection form a cycle, so their buffers would wait for the collector.
        self._frames = FrameDecoder()
        self._unanswered = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._budget is not None:
            self._budget.discard(self)
        self._calls.fail_all(lambda: ConnectionLost(self.peer, reason))
        deferred, self._deferred = self._deferred, None
        if self._budget is not None:
            self._budget.deferred_count -= len(deferred or ())
        for request in deferred or ():
            request.drop()
        self._owner.closed(self)

    # Private.

    def _by_peer(self) -> str:
        is_unheard = not (self._is_server or self.is_encrypted or self.receive_count)
        return f"{_BY_PEER} before it answered: {MAY_NEED_TLS}" if is_unheard else _BY_PEER

    def _begin_call(
        self, code: int, frame_of: Callable[[int], bytes], timeout_s: float, deadline_s: float
    ) -> PendingCall:
        call = self._calls.start(code, timeout_s, deadline_s, self.receive_count)
        try:
            frame = frame_of(call.opaque)
        except BaseException:
            self._calls.end(call)
            raise
        # A single call has nothing to wait for, and the peer can start with the first of many.
        is_alone = len(self._calls.by_opaque) == 1
        self.send(frame, at_once=is_alone or self._outgoing_size > _KEPT_BACK_SIZE_MAX)
        return call

    def _answer_all(self, frames: WholeFrames) -> None:
        fast_path = self._fast_path
        outgoing = self._outgoing
        size = 0
        size_max = self._limits.unread_size_high
        while True:
            if fast_path is not None:
                size += fast_path.take(self, frames, outgoing, size_max - size)
            if size < size_max:
                if frames.position >= frames.end:
                    break
                answer = self._answer(self, next(frames))
                if answer is None:  # deferred and one-way requests answer later or never
                    continue
                outgoing.append(answer)
                size += len(answer)
            if size >= size_max:
                # A few hundred bytes can ask for megabytes: see whether the peer reads them.
                self._flush()
                size = 0
                if self.is_stalled and self._is_server:
                    self._unanswered = frames
                    return
        # One write per wake-up: a pipelined client gets all its answers in one segment.
        self._flush()

    def _resume_reading(self) -> None:
        # The replies sent meanwhile may have been too much again.
        if self._is_server and self.is_open and not self.is_stalled:
            self._transport.resume_reading()

    def _flush(self) -> None:
        outgoing = self._outgoing
        self._outgoing_size = 0
        if not outgoing or self._close_reason is not None:
            outgoing.clear()
            return
        if len(outgoing) == 1:
            frame = outgoing.pop()
            size = len(frame)
            self._transport.write(frame)
        else:
            size = self._write_several(outgoing)
            outgoing.clear()
        if self._writable is not None:
            unread_size = self._transport.get_write_buffer_size()
            if unread_size > self._limits.unread_size_max:
                self.cut_off(f"left {unread_size} bytes unread")
        if size > _SMALL_WRITE_SIZE:
            self.count_held()

    def _write_several(self, frames: list[bytes]) -> int:
        """The size of all; not all of them are left in the list."""
        size = sum(map(len, frames))
        if size > _JOINED_SIZE_MAX * len(frames):
            last = [] if _WRITELINES_PAUSES else [frames.pop()]
            self._transport.writelines(frames)
            for frame in last:
                self._transport.write(frame)
        else:
            self._transport.write(b"".join(frames))
        return size

    def _move_deadline(self, *, has_frames: bool) -> None:
        if self._writable is not None:
            return  # Only reading extends the deadline now.
        if not self._frames.pending_size:
            self._is_mid_frame = False
            self.deadline_s = self._deadlines.now_s + self._limits.idle_timeout_s
        elif has_frames or not self._is_mid_frame:
            self._is_mid_frame = True
            self.deadline_s = self._deadlines.now_s + self._limits.frame_timeout_s

    def _distrust(self, error: ProtocolError) -> None:
        self.warn("closing", f"closing {self.peer}: {error}")
        self.close(str(error))

    def cut_off(self, reason: str) -> None:
        self.warn("disconnecting", f"disconnecting {self.peer}: it {reason}")
        self.abort(f"the peer {reason}")

    def _check_open(self) -> None:
        if self._close_reason is not None:
            raise ConnectionLost(self.peer, self._close_reason)

    def _expire_call(self, call: PendingCall, late_s: float) -> None:
        held_s = max(late_s, self._deadlines.held_s_since(call.deadline_s - call.timeout_s))
        is_our_fault = held_s >= max(_BUSY_S, call.timeout_s / 4)
        call.response.set_exception(
            CallTimedOut(self.peer, call.code, call.timeout_s, held_s if is_our_fault else None)
        )
        is_silent = call.receive_count == self.receive_count and not is_our_fault
        if is_silent and call.timeout_s >= self._limits.silence_timeout_s and self.is_open:
            # A pulled cable closes no socket; the next call connects again.
            self.cut_off(f"was silent for {call.timeout_s:g} s")
