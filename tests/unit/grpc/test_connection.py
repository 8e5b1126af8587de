"""What peers of HTTP/2 may do, how often, and how much of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from h2.connection import H2Connection
from msgspec.structs import replace

from roquet.clock import SystemClock
from roquet.grpc.calls import Call, GrpcStatus, read_timeout
from roquet.grpc.connection import GrpcConnection, GrpcLimits
from roquet.net.limits import ConnectionBudget
from roquet.net.serving import Server
from tests.support.grpc_client import GrpcStream, GrpcTestClient, grpc_client

LIMITS = GrpcLimits(
    stream_count_max=4,
    header_size_max=2048,
    message_size_max=1000,
    control_rate_max=50,
    request_timeout_s=0.5,
    unread_size_max=1 << 20,
)


_EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8)
SLOW_READERS = [
    replace(LIMITS, unread_timeout_s=0.5),
    replace(LIMITS, unread_size_max=50_000),
]


class Echo:
    """Answers each message with the same, and the end with the end."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.seen: list[bytes] = []

    def receive(self, message: bytes) -> None:
        self.seen.append(message)
        self._call.send(message)

    def end(self) -> None:
        self._call.finish()


class Echoes:
    """What is called is added to `calls`."""

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls

    def open_call(self, call: Call) -> Echo | None:
        self._calls.append(call)
        return Echo(call) if call.method.endswith("Echo") else None

    def begin_fast_calls(self, _connection: GrpcConnection) -> None:
        """Every call is a stream."""

    def end_calls(self) -> None:
        """Nothing is kept for several calls."""


@asynccontextmanager
async def served(limits: GrpcLimits = LIMITS) -> AsyncIterator[tuple[int, list[Call]]]:
    clock = SystemClock()
    budget = ConnectionBudget(clock)
    calls: list[Call] = []

    server = Server(
        None,
        clock,
        new_connection=lambda owner, deadlines: GrpcConnection(
            owner, Echoes(calls), deadlines, limits, budget
        ),
        budget=budget,
    )
    port = await server.start("127.0.0.1", 0)
    try:
        yield port, calls
    finally:
        await server.stop()
        assert budget.count == 0
        assert budget.held_size == 0


async def test_messages_of_a_stream_are_answered_one_by_one() -> None:
    async with served() as (port, _), grpc_client(port) as client:
        stream = client.start("Echo")
        for index, text in enumerate((b"one", b"", b"three")):
            client.send(stream, text)
            assert await client.message(stream, index) == text
        client.h2.end_stream(stream)
        client.flush()
        assert (await client.finished(stream)).status == GrpcStatus.OK


async def test_an_unknown_method_is_named() -> None:
    async with served() as (port, _), grpc_client(port) as client:
        stream = await client.finished(client.start("Nothing", b""))
        assert stream.status == GrpcStatus.UNIMPLEMENTED
        assert "Nothing" in stream.headers["grpc-message"]


async def test_a_message_that_is_too_large_is_refused() -> None:
    async with served() as (port, _), grpc_client(port) as client:
        stream = await client.finished(client.start("Echo", bytes(1001)))
        assert stream.status == GrpcStatus.RESOURCE_EXHAUSTED


async def test_too_many_headers_reset_the_stream() -> None:
    async with served() as (port, _), grpc_client(port) as client:
        stream = await client.finished(client.start("Echo", b"", large="x" * 4000))
        assert stream.reset_code is not None


async def test_headers_that_grow_when_they_are_unpacked_reset_the_stream() -> None:
    """One byte on the wire is a header of the table: the bytes of what it stands for count."""
    async with served() as (port, _), grpc_client(port) as client:
        # Taken into the table with the first call, and only named from then on.
        await client.finished(client.start("Echo", b"", large="x" * 400))
        stream_id = client.h2.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/Echo"),
            (":authority", "a"),
        ]
        client.h2.send_headers(stream_id, [*headers, *[("large", "x" * 400)] * 20])
        client.streams[stream_id] = GrpcStream()
        client.flush()
        assert (await client.finished(stream_id)).reset_code is not None


@pytest.mark.parametrize("limits", SLOW_READERS, ids=["time", "size"])
async def test_a_peer_that_does_not_read_costs_its_connection(
    limits: GrpcLimits, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(limits) as (port, _), grpc_client(port) as client:
        stream = client.start("Echo")
        await client.until(lambda: client.h2.remote_settings.max_concurrent_streams == 4)
        # More than the window of 64 KB, which it does not open any further.
        for _ in range(150):
            client.send(stream, bytes(900))
        async with asyncio.timeout(30.0):
            await client.read_without_window()
    assert "read too little" in caplog.text or "bytes unread" in caplog.text


@pytest.mark.parametrize("kind", ["reset", "ping", "settings"])
async def test_a_flood_ends_the_connection(kind: str) -> None:
    async with served() as (port, _), grpc_client(port) as client:
        for _ in range(200):
            if kind == "ping":
                client.h2.ping(b"12345678")
            elif kind == "settings":
                client.writer.write(_EMPTY_SETTINGS)
            else:
                client.reset(client.start("Echo"))
        client.flush()
        await client.until_closed()
        assert client.goaway_code in (11, None)


async def test_a_ping_after_each_answer_is_no_flood() -> None:
    """grpc-go measures with them how much it may let through, and more often the faster we are."""
    async with served() as (port, _), grpc_client(port) as client:
        stream = client.start("Echo")
        for index in range(4 * LIMITS.control_rate_max):
            client.send(stream, b"hello")
            await client.message(stream, index)
            client.h2.ping(b"12345678")
        client.h2.end_stream(stream)
        client.flush()
        assert (await client.finished(stream)).status == GrpcStatus.OK


async def test_a_peer_that_ended_its_session_may_still_send() -> None:
    """h2spec pings after its GOAWAY; a reset could reach it before what it had been sent."""
    async with served() as (port, _):
        await asyncio.to_thread(_end_session_and_send, port)


def _end_session_and_send(port: int) -> None:
    peer = H2Connection()
    peer.initiate_connection()
    peer.close_connection(error_code=0xFF)
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(peer.data_to_send())
        while connection.recv(65536):
            pass
        # The kernel would answer the first one with a reset, and refuse the second.
        for _ in range(2):
            connection.sendall(_PING)


async def test_a_request_that_does_not_end_costs_the_connection() -> None:
    async with served() as (port, _), grpc_client(port) as client:
        client.start("Echo")
        await client.until_closed()


async def test_a_cancelled_call_is_closed_and_so_are_those_of_a_lost_connection() -> None:
    async with served() as (port, calls), grpc_client(port) as client:
        closed: asyncio.Queue[bool] = asyncio.Queue()
        first, second = client.start("Echo"), client.start("Echo")
        for stream in (first, second):
            client.send(stream, b"hello")
            await client.message(stream)
        for call in calls:
            call.on_closed = closed.put_nowait
        client.reset(first)
        assert await closed.get() is False
        client.close()
        assert await closed.get() is False


async def test_a_peer_that_does_not_speak_http2_is_closed() -> None:
    async with served() as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x00\x00\x00\x10 no preface of HTTP/2 at all")
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()
        await writer.wait_closed()


async def test_a_browser_learns_what_the_port_is_for() -> None:
    async with served() as (port, _), grpc_client(port) as client:
        stream = _get(client)
        found = await client.finished(stream)
        assert found.headers[":status"] == "415"
        assert b"gRPC" in found.data


def _get(client: GrpcTestClient) -> int:
    stream_id = int(client.h2.get_next_available_stream_id())
    headers = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "test")]
    client.h2.send_headers(stream_id, headers, end_stream=True)
    client.streams[stream_id] = GrpcStream()
    client.flush()
    return stream_id


@pytest.mark.parametrize(
    ("text", "timeout_s"), [("5S", 5.0), ("100m", 0.1), ("2H", 7200.0), ("x", None), (None, None)]
)
def test_timeouts_are_read_as_grpc_writes_them(text: str | None, timeout_s: float | None) -> None:
    assert read_timeout(text) == timeout_s
