"""The server against hand-held sockets: the stream, the limits, the end."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack

import pytest

from roquet.clock import SystemClock
from roquet.net import listening, serving
from roquet.net.connection import Connection
from roquet.net.errors import AddressTaken
from roquet.net.limits import ConnectionLimits, ServerLimits
from roquet.net.router import Reply, Router
from roquet.net.serving import Server
from roquet.net.tls import detection
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command
from tests.support.echo_server import (
    DEFER,
    ECHO_ENCODED,
    echo_request,
    echoed_text,
    running_echo_server,
)
from tests.support.eventually import eventually
from tests.support.few_descriptors import few_descriptors_left
from tests.support.raising import raises
from tests.support.raw_peer import RawPeer


async def send_and_await(peer: RawPeer, data: bytes, connection: Connection) -> None:
    count_before = connection.receive_count
    peer.send(data)
    await eventually(lambda: connection.receive_count > count_before)


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(*(echo_request(str(number), opaque=number) for number in range(500)))
        responses = [await peer.receive() for _ in range(500)]
    assert [response.opaque for response in responses] == list(range(500))
    assert [echoed_text(response) for response in responses] == [str(n) for n in range(500)]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_it_listens_at_an_address_or_a_name(host: str) -> None:
    server = Server(Router(None, ()), SystemClock())
    port = await server.start(host, 0)
    _, writer = await asyncio.open_connection(host, port)
    await eventually(lambda: server.connection_count == 1)
    writer.close()
    await server.stop()


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with running_echo_server() as server:
        with raises(AddressTaken, host="127.0.0.1", port=server.port) as caught:
            await Server(Router(None, ()), SystemClock()).start("127.0.0.1", server.port)
    assert isinstance(caught.value, OSError)


async def test_a_request_that_comes_byte_by_byte_is_answered() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        for byte in encode_command(echo_request("slow")):
            peer.send(bytes([byte]))
            await asyncio.sleep(0)
        assert echoed_text(await peer.receive()) == "slow"


async def test_bytes_that_a_handler_encoded_itself_are_sent_as_they_are() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        request = echo_request("template", opaque=7)
        request.code = ECHO_ENCODED
        response = await peer.ask(request)
    assert (response.opaque, echoed_text(response)) == (7, "template")


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(b"\x7f\xff\xff\xff\x00\x00\x00\x10", id="huge length"),
        pytest.param(b"\x00\x00\x00\x02\x00\x00\x00\x00", id="length too small"),
        pytest.param(b"\xff\xff\xff\xff\x00\x00\x00\x00", id="negative length"),
        pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x02{]", id="header is no JSON"),
        pytest.param(b"\x00\x00\x00\x06\x01\x00\x00\x02{]", id="header is no binary header"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", id="TLS"),
    ],
)
async def test_garbage_costs_its_own_connection_only(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running_echo_server() as server,
        await RawPeer.connect(server.port) as honest,
        await RawPeer.connect(server.port) as hostile,
    ):
        hostile.send(garbage)
        assert await hostile.until_closed() == b""
        assert echoed_text(await honest.ask(echo_request("still here"))) == "still here"
    assert hostile.address in caplog.text


async def test_peers_that_all_do_the_same_wrong_are_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_echo_server() as server:
        for _ in range(20):
            async with await RawPeer.connect(server.port) as hostile:
                hostile.send(b"GET / HTTP/1.1\r\n\r\n")
                await hostile.until_closed()
    assert sum("closing" in record.getMessage() for record in caplog.records) == 1


async def test_requests_before_an_unreadable_one_are_answered() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(encode_command(echo_request("good")) + b"\x00\x00\x00\x06\x00\x00\x00\x02{]")
        assert echoed_text(await peer.receive()) == "good"
        assert await peer.until_closed() == b""


async def test_garbage_behind_a_request_is_found_at_once() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(encode_command(echo_request("good")) + b"\xff" * 8)
        assert echoed_text(await peer.receive()) == "good"
        # Sooner than a frame that does not end is given up.
        assert await peer.until_closed() == b""


async def test_a_frame_must_be_complete_in_time_however_steadily_it_drips() -> None:
    limits = ConnectionLimits(frame_timeout_s=10)
    async with running_echo_server(limits) as server, await RawPeer.connect(server.port) as peer:
        await peer.ask(echo_request())
        (connection,) = server.connections
        for byte in encode_command(echo_request("never complete"))[:10]:
            await send_and_await(peer, bytes([byte]), connection)
            server.listener.sweep()
            server.clock.advance(1)
        assert connection.is_open
        server.listener.sweep()
        assert await peer.until_closed() == b""


async def test_every_frame_has_its_own_time() -> None:
    limits = ConnectionLimits(frame_timeout_s=10)
    async with running_echo_server(limits) as server, await RawPeer.connect(server.port) as peer:
        frame = encode_command(echo_request("x"))
        peer.send(frame[:5])
        await eventually(lambda: server.listener.connection_count)
        for _ in range(4):
            server.clock.advance(6)
            server.listener.sweep()
            peer.send(frame[5:] + frame[:5])
            assert echoed_text(await peer.receive()) == "x"


async def test_an_idle_connection_is_closed() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        await peer.ask(echo_request())
        server.clock.advance(119)
        server.listener.sweep()
        assert echoed_text(await peer.ask(echo_request("awake"))) == "awake"
        server.clock.advance(119)
        server.listener.sweep()
        assert server.listener.connection_count == 1
        server.clock.advance(1)
        server.listener.sweep()
        assert await peer.until_closed() == b""


async def test_a_connection_that_never_says_anything_is_closed() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        await eventually(lambda: server.listener.connection_count)
        server.clock.advance(120)
        server.listener.sweep()
        assert await peer.until_closed() == b""


async def test_a_peer_that_connects_after_a_quiet_day_is_not_taken_for_idle() -> None:
    async with running_echo_server() as server:
        server.clock.advance(86_400)
        async with await RawPeer.connect(server.port) as peer:
            await peer.ask(echo_request())
            server.listener.sweep()
            assert echoed_text(await peer.ask(echo_request("awake"))) == "awake"


async def test_a_peer_that_never_reads_is_not_served_beyond_the_mark_and_cut_off_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = ConnectionLimits(unread_size_high=64 * 1024, unread_timeout_s=30)
    request_count = 1_000
    reply_size = 64 * 1024
    async with (
        running_echo_server(limits) as server,
        await RawPeer.connect(server.port) as deaf,
        await RawPeer.connect(server.port) as honest,
    ):
        deaf.stop_reading()
        deaf.send(*(echo_request(body_size=reply_size) for _ in range(request_count)))
        await eventually(lambda: server.connections and server.connections[0].is_stalled)
        served_count = len(server.served)
        # The kernel takes some megabytes itself; the rest of the requests waits unanswered.
        assert served_count < request_count
        assert echoed_text(await honest.ask(echo_request("fine"))) == "fine"
        server.clock.advance(30)
        server.listener.sweep()
        await eventually(lambda: server.listener.connection_count == 1)
        assert len(server.served) == served_count + 1
    assert deaf.address in caplog.text


async def test_a_peer_that_reads_late_gets_every_answer() -> None:
    limits = ConnectionLimits(unread_size_high=64 * 1024)
    async with running_echo_server(limits) as server, await RawPeer.connect(server.port) as peer:
        peer.stop_reading()
        peer.send(
            *(echo_request(str(n), body_size=32 * 1024, opaque=n) for n in range(1_000)),
        )
        await eventually(lambda: server.connections and server.connections[0].is_stalled)
        peer.go_on_reading()
        responses = [await peer.receive() for _ in range(1_000)]
    assert [response.opaque for response in responses] == list(range(1_000))
    assert {len(response.body) for response in responses} == {32 * 1024}


async def test_unread_bytes_have_a_hard_limit() -> None:
    limits = ConnectionLimits(unread_size_high=1024, unread_size_max=16 * 1024 * 1024)
    async with running_echo_server(limits) as server, await RawPeer.connect(server.port) as peer:
        peer.stop_reading()
        peer.send(Command(DEFER))
        await eventually(lambda: server.deferred)
        connection = server.connections[0]
        for _ in range(32):
            connection.send(bytes(1024 * 1024))
            await asyncio.sleep(0)
        assert not connection.is_open


async def test_connections_over_the_limit_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        running_echo_server(
            server_limits=ServerLimits(connection_count_max=1, local_count_max=0)
        ) as server,
        await RawPeer.connect(server.port) as first,
    ):
        await first.ask(echo_request())
        async with await RawPeer.connect(server.port) as second:
            assert await second.until_closed() == b""
            assert second.address in caplog.text
        assert echoed_text(await first.ask(echo_request("first"))) == "first"
        first.close()
        await eventually(lambda: server.closed)
        async with await RawPeer.connect(server.port) as third:
            assert echoed_text(await third.ask(echo_request("third"))) == "third"
    assert len(server.closed) == 2  # the one that was refused is not reported


async def test_frames_that_never_end_are_bounded_over_all_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = (1 << 20).to_bytes(4) + (100).to_bytes(4) + b"{" + bytes(49_991)
    async with (
        running_echo_server(server_limits=ServerLimits(held_size_max=120_000)) as server,
        await RawPeer.connect(server.port) as worker,
        AsyncExitStack() as stack,
    ):
        await worker.ask(echo_request())
        for _ in range(3):
            peer = await stack.enter_async_context(await RawPeer.connect(server.port))
            peer.send(begun)
        await eventually(lambda: len(server.closed) == 2)
        assert server.budget.cut_off_count == 2
        assert server.budget.held_size <= 120_000
        assert "the most of all" in caplog.text
        assert echoed_text(await worker.ask(echo_request("still"))) == "still"
        await stack.aclose()
        await eventually(lambda: server.budget.count == 1)
        assert server.budget.held_size == 0


async def test_unread_answers_are_bounded_over_all_connections() -> None:
    async with (
        running_echo_server(server_limits=ServerLimits(held_size_max=20 << 20)) as server,
        AsyncExitStack() as stack,
    ):
        for _ in range(40):
            peer = await stack.enter_async_context(await RawPeer.connect(server.port))
            peer.stop_reading()
            for _ in range(8):
                peer.send(echo_request(body_size=1 << 20))
        await eventually(lambda: server.budget.cut_off_count)
        assert server.budget.held_size <= 20 << 20
        async with await RawPeer.connect(server.port) as worker:
            assert echoed_text(await worker.ask(echo_request("still"))) == "still"


@pytest.mark.own_process
async def test_connections_of_others_leave_descriptors_for_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(detection, "is_of_this_machine", lambda _: False)
    async with running_echo_server() as server, await RawPeer.connect(server.port) as first:
        await first.ask(echo_request())
        with few_descriptors_left(4):
            async with await RawPeer.connect(server.port) as second:
                assert await second.until_closed() == b""
            assert "ulimit -n" in caplog.text
            assert echoed_text(await first.ask(echo_request("first"))) == "first"
        async with await RawPeer.connect(server.port) as third:
            assert echoed_text(await third.ask(echo_request("third"))) == "third"


async def test_an_operator_of_the_machine_itself_gets_one_of_the_last_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Which ones those are is declared in `process_limits`.
    monkeypatch.setattr(serving, "may_keep", lambda _descriptor, *, is_local: is_local)
    async with running_echo_server() as server, await RawPeer.connect(server.port) as operator:
        assert echoed_text(await operator.ask(echo_request("in"))) == "in"
        monkeypatch.setattr(detection, "is_of_this_machine", lambda _: False)
        async with await RawPeer.connect(server.port) as other:
            assert await other.until_closed() == b""


async def test_a_lack_of_descriptors_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "_PAUSE_S", 0.005)
    async with running_echo_server() as server:
        with socket.socket() as peer, few_descriptors_left(0):
            peer.connect(("127.0.0.1", server.port))
            for _ in range(20):
                await asyncio.sleep(0.005)
        assert caplog.text.count("no connections are accepted") == 1
        async with await RawPeer.connect(server.port) as late:
            assert echoed_text(await late.ask(echo_request("late"))) == "late"


async def test_deferred_requests_over_the_limit_are_refused() -> None:
    limits = ConnectionLimits(deferred_count_max=2)
    async with running_echo_server(limits) as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1), Command(DEFER, 2), Command(DEFER, 3))
        response = await peer.receive()
        assert (response.opaque, response.code) == (3, ResponseCode.SYSTEM_BUSY)
        assert server.connections[0].deferred_count == 2


async def test_requests_of_all_that_wait_have_a_bound() -> None:
    async with running_echo_server(server_limits=ServerLimits(deferred_count_max=3)) as server:
        async with (
            await RawPeer.connect(server.port) as first,
            await RawPeer.connect(server.port) as second,
        ):
            first.send(Command(DEFER, 1), Command(DEFER, 2))
            await eventually(lambda: server.budget.deferred_count == 2)
            second.send(Command(DEFER, 3), Command(DEFER, 4))
            response = await second.receive()
            assert (response.opaque, response.code) == (4, ResponseCode.SYSTEM_BUSY)
            assert "maxWaitingRequests" in (response.remark or "")
            server.deferred[0].answer(Reply())
            assert server.budget.deferred_count == 2
        await eventually(lambda: server.budget.deferred_count == 0)


async def test_the_owner_hears_of_a_lost_connection() -> None:
    async with running_echo_server() as server:
        async with await RawPeer.connect(server.port) as peer:
            await peer.ask(echo_request())
            address = peer.address
        await eventually(lambda: server.closed)
        assert server.closed == server.connections
        assert server.closed[0].peer == address


async def test_stopping_sends_what_is_answered_and_closes_all() -> None:
    async with running_echo_server() as server:
        peers = [await RawPeer.connect(server.port) for _ in range(3)]
        for peer in peers:
            await peer.ask(echo_request())
        server.connections[0].send(b"last words")
        await server.listener.stop()
        assert await peers[0].until_closed() == b"last words"
        assert await peers[1].until_closed() == b""
        with pytest.raises(ConnectionRefusedError):
            await RawPeer.connect(server.port)
        for peer in peers:
            peer.close()


async def test_stopping_does_not_wait_for_a_peer_that_never_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roquet.net.deadlines.CLOSING_TIMEOUT_S", 0.01)
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.stop_reading()
        peer.send(echo_request(body_size=32 * 1024 * 1024 - 1024))
        await eventually(lambda: server.connections and server.connections[0].is_stalled)
        await server.listener.stop()
        assert server.listener.connection_count == 0


@pytest.mark.slow
async def test_two_thousand_idle_connections_are_served_beside_a_busy_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with running_echo_server() as server, await RawPeer.connect(server.port) as busy:
        idle = await asyncio.gather(*(RawPeer.connect(server.port) for _ in range(2_000)))
        await eventually(lambda: server.listener.connection_count == 2_001)
        server.listener.sweep()
        assert echoed_text(await busy.ask(echo_request("busy"))) == "busy"
        assert echoed_text(await idle[-1].ask(echo_request("woken"))) == "woken"
        for peer in idle:
            peer.close()
        await eventually(lambda: server.listener.connection_count == 1)
    assert [each for each in caplog.records if each.name.startswith("roquet.net")] == []
