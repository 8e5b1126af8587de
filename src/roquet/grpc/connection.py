"""The connection of one client of gRPC: bytes to calls, answers to bytes.

`http2` does frames, header compression and flow control. Here is what a peer may do how often, how
much it may hold, and how long it may be silent or not read:

    streams           more at once are refused by HTTP/2 itself
    headers           a request with more bytes of them is reset
    messages          a larger one is refused as soon as its length is there
    control frames    resets, settings, pings: a peer that sends more in a second is cut off
    slow requests     one that is not complete in time ends the connection
    slow readers      as do answers that are not read
    silence           a peer that does not answer a ping is gone
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast, final

import msgspec

from roquet.grpc.calls import MESSAGE_HEAD_SIZE, Call, GrpcStatus, is_whole
from roquet.grpc.errors import Http2Broken
from roquet.grpc.http2 import DATA, END, HEADERS, REQUEST, Http2Session
from roquet.net.deadlines import CLOSING_TIMEOUT_S, DeadlineSweep
from roquet.net.limits import ConnectionBudget
from roquet.protocol.frame import FRAME_SIZE_MAX
from roquet.protocol.host import Address, pack_host

if TYPE_CHECKING:
    from roquet.grpc.header_block import HeaderBlock
    from roquet.grpc.http2 import Event, Request

log = logging.getLogger(__name__)

_NO_ERROR: Final = 0
_ENHANCE_YOUR_CALM: Final = 11
_NO_ADDRESS: Final = Address("0.0.0.0", 0)  # noqa: S104  Nothing is bound to it.
_NOT_GRPC: Final = b"this port speaks gRPC: use a client of RocketMQ 5.x\n"
_NOT_GRPC_HEADERS: Final = (
    (b":status", b"415"),
    (b"content-type", b"text/plain"),
    (b"content-length", b"%d" % len(_NOT_GRPC)),
)


class GrpcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may take."""

    # Long polls of a client stay open, one for each queue and topic it reads.
    stream_count_max: int = 1024
    header_size_max: int = 16 * 1024
    message_size_max: int = FRAME_SIZE_MAX
    # What a peer may send before it is read, on one stream and on all together.
    window_size: int = 1024 * 1024
    # Frames in one second that cost work and carry nothing.
    control_rate_max: int = 1_000
    # From the headers of a request to its end.
    request_timeout_s: float = 30.0
    # Silent for so long, a peer gets a ping; not answered in time, it is gone.
    silence_s_max: float = 60.0
    ping_timeout_s: float = 20.0
    unread_size_high: int = 1024 * 1024
    unread_size_max: int = 64 * 1024 * 1024
    unread_timeout_s: float = 30.0


class MessageStream(Protocol):
    """Takes the messages of one call, as they come."""

    def receive(self, message: bytes) -> None: ...

    def end(self) -> None:
        """The client sends no more."""


class FastCalls(Protocol):
    """Takes calls that leave nothing to decide."""

    def take(
        self,
        connection: "GrpcConnection",
        session: Http2Session,
        events: "list[Event]",
        start: int,
    ) -> int:
        """Takes requests from `start` on, which are answered now or later, and returns where the
        first event is that is left: nothing has happened for it."""


class CallTaker(Protocol):
    """What the calls of a connection are for."""

    def open_call(self, call: Call) -> MessageStream | None:
        """The stream of a new call; None if there is no such method."""

    def begin_fast_calls(self, connection: "GrpcConnection") -> FastCalls | None:
        """What comes first for the calls that came together; None if nothing does."""

    def end_calls(self) -> None:
        """All of them are taken: what was kept to be done at once for several is due."""


class GrpcConnectionOwner(Protocol):
    def opened(self, connection: "GrpcConnection") -> None: ...

    def closed(self, connection: "GrpcConnection") -> None: ...


@final
class _Incoming:
    """A call whose request is not complete, or never will be: a stream of messages."""

    __slots__ = ("buffer", "call", "stream")

    def __init__(self, call: Call, stream: MessageStream) -> None:
        self.call = call
        self.stream = stream
        self.buffer = bytearray()


@final
class GrpcConnection(asyncio.Protocol):
    def __init__(
        self,
        owner: GrpcConnectionOwner,
        taker: CallTaker,
        deadlines: DeadlineSweep,
        limits: GrpcLimits,
        budget: ConnectionBudget,
    ) -> None:
        self._owner = owner
        self._taker = taker
        self._deadlines = deadlines
        self.limits = limits
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._session = Http2Session(
            limits.stream_count_max, limits.header_size_max, limits.window_size
        )
        # Until their streams are closed.
        self._calls: dict[int, Call] = {}
        # Those whose requests are not over, and since when; the oldest first.
        self._incoming: dict[int, _Incoming] = {}
        self._incomplete: dict[int, float] = {}
        self._held_in_size = 0
        self._is_flush_due = False
        self._is_paused = False
        self._is_pinged = False
        # Since when answers wait for the peer to read.
        self._unread_since_s: float | None = None
        # Until now, and before this second.
        self._control_seen = 0
        self._control_counted = 0
        self._control_second_s = 0.0
        self._close_reason: str | None = None
        self.deadline_s = float("inf")
        self.held_size = 0
        self.peer = ""
        self.peer_ip = ""
        self.peer_host = b""
        self.peer_address = _NO_ADDRESS
        # The client, if a load balancer reports it.
        self.source: Address | None = None

    # Called by calls.

    def answer(
        self,
        stream_id: int,
        headers: tuple[tuple[bytes, bytes], ...],
        data: bytes,
        trailers: tuple[tuple[bytes, bytes], ...],
    ) -> None:
        if stream_id in self._calls:
            self._session.answer(stream_id, headers, data, trailers)
            self.flush_soon()

    def respond(self, stream_id: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        if stream_id in self._calls:
            self._session.respond(stream_id, headers)
            self.flush_soon()

    def send(self, stream_id: int, data: bytes) -> None:
        if stream_id in self._calls:
            self._session.send(stream_id, data)
            self.flush_soon()

    def finish(self, stream_id: int, trailers: tuple[tuple[bytes, bytes], ...]) -> None:
        if stream_id in self._calls:
            self._session.finish(stream_id, trailers)
            self.flush_soon()

    def flush_soon(self) -> None:
        """One write for all answers of a turn of the loop."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    # Called by deadlines, budget and server.

    def count_held(self) -> None:
        if self._close_reason is not None:
            return
        unread = self._session.pending_size + self._transport.get_write_buffer_size()
        size = self._held_in_size + unread
        if size != self.held_size:
            difference, self.held_size = size - self.held_size, size
            self._budget.hold(difference)

    def expire(self) -> None:
        limits, now_s = self.limits, self._deadlines.now_s
        oldest_s = next(iter(self._incomplete.values()), now_s)
        if self._close_reason is not None:
            self._transport.abort()
        elif self._unread_s(now_s) >= limits.unread_timeout_s:
            self.cut_off(f"read too little for {limits.unread_timeout_s:g} s")
        elif now_s - oldest_s >= limits.request_timeout_s:
            self.cut_off(f"did not complete a request within {limits.request_timeout_s:g} s")
        elif self._is_pinged:
            self.cut_off("did not answer a ping")
        else:
            self._session.ping()
            self._is_pinged = True
            self.deadline_s = now_s + limits.ping_timeout_s
            self._flush()

    def close(self, reason: str) -> None:
        """Announces the end to the peer, which connects again, and closes."""
        if self._close_reason is None:
            self._session.terminate(_NO_ERROR)
            self._flush()
            self._end(reason)

    def abort(self, reason: str) -> None:
        if self._close_reason is None:
            self._close_reason = reason
        self._transport.abort()

    def cut_off(self, reason: str) -> None:
        self._deadlines.warnings.warning("gRPC", f"disconnecting {self.peer}: it {reason}")
        self.abort(f"the peer {reason}")

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        high = self.limits.unread_size_high
        self._transport.set_write_buffer_limits(high=high, low=high // 4)
        # A peer that is gone already has no address any more.
        ip, port = (transport.get_extra_info("peername") or _NO_ADDRESS)[:2]
        self.peer_address = Address(ip, port)
        self.peer_ip = ip
        shown = self.source or self.peer_address
        self.peer_host = pack_host(shown.ip, shown.port)
        self.peer = str(shown)
        self.deadline_s = self._deadlines.refresh() + self.limits.request_timeout_s
        self._budget.add(self)
        self._owner.opened(self)
        self.flush_soon()

    def data_received(self, data: bytes) -> None:
        if self._close_reason is not None:
            return
        self._is_pinged = False
        self._is_flush_due = True  # It comes below.
        try:
            self._take_calls(self._session.receive(data))
        except Http2Broken as error:
            self._distrust(str(error))
            return
        self._check_control_rate()
        self._flush()
        self._move_deadline()
        if self._held_in_size or self.held_size:
            self.count_held()

    def pause_writing(self) -> None:
        self._is_paused = True
        # A peer that does not read is not answered.
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._unread_since_s = None
        if self._close_reason is None:
            self._transport.resume_reading()
            self._flush()
            self._move_deadline()

    def connection_lost(self, error: Exception | None) -> None:
        self._close_reason = self._close_reason or str(error or "closed by the peer")
        self._budget.discard(self)
        calls, self._calls = self._calls, {}
        self._incoming.clear()
        self._session.close()
        for call in calls.values():
            call.close(is_complete=False)
        self._owner.closed(self)

    # Private.

    def _take_calls(self, events: "list[Event]") -> None:
        fast_calls = self._taker.begin_fast_calls(self)
        at = 0
        try:
            while at < len(events):
                if fast_calls is not None:
                    at = fast_calls.take(self, self._session, events, at)
                self._take(events[at : at + 1])
                at += 1
        finally:
            self._taker.end_calls()

    def _take(self, events: "Sequence[Event]") -> None:
        for kind, stream_id, value in events:
            if kind == REQUEST:
                request = cast("Request", value)
                self._take_headers(stream_id, request.headers.texts())
                self._take_data(stream_id, request.data)
                self._take_end(stream_id)
            elif kind == DATA:
                self._take_data(stream_id, cast("bytes", value))
            elif kind == HEADERS:
                self._take_headers(stream_id, cast("HeaderBlock", value).texts())
            elif kind == END:
                self._take_end(stream_id)
            else:
                self._take_close(stream_id, is_complete=bool(value))

    def _take_headers(self, stream_id: int, metadata: Mapping[str, str]) -> None:
        is_grpc = metadata.get("content-type", "").startswith("application/grpc")
        if metadata[":method"] != "POST" or not is_grpc:
            self._session.respond(stream_id, _NOT_GRPC_HEADERS)
            self._session.send(stream_id, _NOT_GRPC)
            self._session.finish(stream_id, ())
            return
        call = Call(self, stream_id, metadata[":path"], metadata, self._loop.time())
        self._calls[stream_id] = call
        stream = self._taker.open_call(call)
        if stream is None:
            text = f"this endpoint has no method {call.method}"
            call.finish(GrpcStatus.UNIMPLEMENTED, text)
            return
        self._incoming[stream_id] = _Incoming(call, stream)
        self._incomplete[stream_id] = self._deadlines.now_s

    def _take_data(self, stream_id: int, data: bytes) -> None:
        incoming = self._incoming.get(stream_id)
        if incoming is None:
            return
        buffer = incoming.buffer
        if not buffer and is_whole(data) and len(data) <= self.limits.message_size_max:
            self._incomplete.pop(stream_id, None)
            incoming.stream.receive(data[MESSAGE_HEAD_SIZE:])
            return
        self._held_in_size -= len(buffer)
        buffer += data
        while len(buffer) >= MESSAGE_HEAD_SIZE:
            size = int.from_bytes(buffer[1:MESSAGE_HEAD_SIZE])
            if buffer[0] or size > self.limits.message_size_max:
                self._refuse(incoming, size, is_compressed=bool(buffer[0]))
                return
            end = MESSAGE_HEAD_SIZE + size
            if len(buffer) < end:
                break
            message = bytes(memoryview(buffer)[MESSAGE_HEAD_SIZE:end])
            del buffer[:end]
            # A stream of messages is not a request that takes too long.
            self._incomplete.pop(stream_id, None)
            incoming.stream.receive(message)
        self._held_in_size += len(buffer)
        if buffer:
            self._incomplete.setdefault(stream_id, self._deadlines.now_s)

    def _refuse(self, incoming: _Incoming, size: int, *, is_compressed: bool) -> None:
        self._forget_incoming(incoming.call.stream_id)
        if is_compressed:
            incoming.call.finish(GrpcStatus.UNIMPLEMENTED, "compressed messages are not supported")
            return
        limit = self.limits.message_size_max
        text = f"a message of {size} bytes is larger than {limit}"
        incoming.call.finish(GrpcStatus.RESOURCE_EXHAUSTED, text)

    def _take_end(self, stream_id: int) -> None:
        incoming = self._incoming.pop(stream_id, None)
        self._incomplete.pop(stream_id, None)
        if incoming is None:
            return
        self._held_in_size -= len(incoming.buffer)
        if incoming.buffer:
            incoming.call.finish(GrpcStatus.INVALID_ARGUMENT, "the last message is incomplete")
        else:
            incoming.stream.end()

    def _take_close(self, stream_id: int, *, is_complete: bool) -> None:
        self._forget_incoming(stream_id)
        call = self._calls.pop(stream_id, None)
        if call is not None:
            call.close(is_complete=is_complete)

    def _forget_incoming(self, stream_id: int) -> None:
        self._incomplete.pop(stream_id, None)
        incoming = self._incoming.pop(stream_id, None)
        if incoming is not None:
            self._held_in_size -= len(incoming.buffer)
            incoming.buffer.clear()

    def _check_control_rate(self) -> None:
        """One count per second of the sweep."""
        seen, self._control_seen = self._control_seen, self._session.control_count
        if self._control_second_s != self._deadlines.now_s:
            self._control_second_s = self._deadlines.now_s
            self._control_counted = seen
        count = self._control_seen - self._control_counted
        if count > self.limits.control_rate_max and self._close_reason is None:
            self._session.terminate(_ENHANCE_YOUR_CALM)
            self._distrust(f"{count} resets, settings and pings in a second")

    def _distrust(self, reason: str) -> None:
        self._deadlines.warnings.warning("gRPC", f"closing {self.peer}: {reason}")
        self._flush()
        self._end(reason)

    def _end(self, reason: str) -> None:
        self._close_reason = reason
        self.deadline_s = self._deadlines.now_s + CLOSING_TIMEOUT_S
        self._transport.close()

    def _end_after_peer(self) -> None:
        """It ended the session, and may still send: if nobody read that, it would be reset."""
        self._close_reason = "the peer ended the session"
        self.deadline_s = self._deadlines.now_s + CLOSING_TIMEOUT_S
        try:
            self._transport.write_eof()
        except (NotImplementedError, OSError):  # By TLS; or it is gone.
            self._transport.close()

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._close_reason is not None or self._is_paused:
            return
        try:
            data = self._session.to_send()
        except Http2Broken as error:
            self.cut_off(str(error))
            return
        if data:
            self._transport.write(data)
        self._take(self._session.events())
        pending = self._session.pending_size
        if not pending or data:
            self._unread_since_s = None
        if pending and self._unread_since_s is None:
            self._unread_since_s = self._deadlines.now_s
        if pending > self.limits.unread_size_max:
            self.cut_off(f"left {pending} bytes unread")
        elif self._session.is_over:
            self._end_after_peer()

    def _unread_s(self, now_s: float) -> float:
        return 0.0 if self._unread_since_s is None else now_s - self._unread_since_s

    def _move_deadline(self) -> None:
        if self._close_reason is not None:
            return
        limits, now_s = self.limits, self._deadlines.now_s
        deadline_s = now_s + limits.silence_s_max
        oldest_s = next(iter(self._incomplete.values()), None)
        if oldest_s is not None:
            deadline_s = min(deadline_s, oldest_s + limits.request_timeout_s)
        if self._unread_since_s is not None:
            deadline_s = min(deadline_s, self._unread_since_s + limits.unread_timeout_s)
        self.deadline_s = deadline_s
