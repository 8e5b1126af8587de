"""Calling others: sharing, pipelining, deadlines, losses, and calls in the other direction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roquet.net.addresses import split_address
from roquet.net.errors import (
    BadAddress,
    CallTimedOut,
    ConnectFailed,
    ConnectionLost,
    TooManyInFlight,
)
from roquet.net.limits import DEFAULT_LIMITS, ConnectionLimits
from roquet.net.peers import Peers
from roquet.net.router import Reply, Router
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.frame_decoder import FrameDecoder
from tests.support.echo_server import (
    DEFER,
    ROUTES,
    EchoServer,
    echo_request,
    echoed_text,
    running_echo_server,
)
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.raising import raises


@asynccontextmanager
async def calling(
    limits: ConnectionLimits = DEFAULT_LIMITS,
    connect_timeout_s: float = 3.0,
) -> AsyncIterator[Peers]:
    peers = Peers(
        Router(EchoServer(), ROUTES),
        FakeClock(),
        limits=limits,
        connect_timeout_s=connect_timeout_s,
    )
    try:
        yield peers
    finally:
        await peers.close()


@asynccontextmanager
async def running_echo_address(
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> AsyncIterator[tuple[EchoServer, str]]:
    async with running_echo_server(limits) as server:
        yield server, f"127.0.0.1:{server.port}"


@asynccontextmanager
async def deaf_address() -> AsyncIterator[str]:
    """Accepts connections and never reads from them."""

    async def ignore(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(ignore, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def test_many_calls_share_one_connection_and_find_their_own_answers() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        texts = [str(number) for number in range(300)]
        responses = await asyncio.gather(
            *(peers.call(address, echo_request(text), 10) for text in texts)
        )
        assert [echoed_text(response) for response in responses] == texts
        assert server.listener.connection_count == 1


async def test_answers_in_another_order_find_their_calls() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        first = asyncio.create_task(peers.call(address, Command(DEFER), 10))
        second = asyncio.create_task(peers.call(address, Command(DEFER), 10))
        await eventually(lambda: len(server.deferred) == 2)
        server.deferred[1].answer(Reply(remark="second"))
        server.deferred[0].answer(Reply(remark="first"))
        assert (await first).remark == "first"
        assert (await second).remark == "second"


async def test_a_call_leaves_the_command_of_its_caller_alone() -> None:
    async with running_echo_address() as (_, address), calling() as peers:
        request = echo_request("kept", opaque=123)
        before = encode_command(request)
        await peers.call(address, request, 10)
        await peers.call_oneway(address, request, 10)
        assert encode_command(request) == before


async def test_a_oneway_request_arrives_and_leaves_nothing_behind() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        await peers.call_oneway(address, echo_request("oneway"), 10)
        response = await peers.call(address, echo_request("after"), 10)
        assert server.served == ["oneway", "after"]
        assert echoed_text(response) == "after"


async def test_a_closed_port_is_a_failed_connect() -> None:
    async with running_echo_address() as (server, address):
        await server.listener.stop()
        async with calling() as peers:
            with raises(ConnectFailed, address=address) as failure:
                await peers.call(address, echo_request(), 10)
            assert failure.value.address == address
            with pytest.raises(ConnectFailed):
                await peers.call_oneway(address, echo_request(), 10)


async def test_a_host_that_no_name_service_takes_is_a_failed_connect() -> None:
    async with calling() as peers:
        with pytest.raises(ConnectFailed):
            await peers.call(f"{'x' * 300}:1", echo_request(), 10)


async def test_time_that_runs_out_while_connecting_is_a_failed_connect() -> None:
    async with running_echo_address() as (_, address), calling() as peers:
        with pytest.raises(ConnectFailed, match="not connected after 0 s"):
            await peers.call(address, echo_request(), 0)


async def test_the_dial_has_a_limit_of_its_own() -> None:
    async with running_echo_address() as (_, address), calling(connect_timeout_s=0) as peers:
        with pytest.raises(ConnectFailed, match="no connection after 0 s"):
            await peers.connect(address)


async def test_a_cancelled_call_does_not_spoil_the_dial_for_others() -> None:
    async with running_echo_address() as (_, address), calling() as peers:
        impatient = asyncio.create_task(peers.connect(address))
        patient = asyncio.create_task(peers.connect(address))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).is_open
        assert impatient.cancelled()


async def test_an_unanswered_call_times_out_and_the_connection_continues() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        await peers.connect(address)
        with raises(CallTimedOut, code=DEFER, timeout_s=0.01) as failure:
            await peers.call(address, Command(DEFER), 0.01)
        assert failure.value.address == address
        assert echoed_text(await peers.call(address, echo_request("on"), 10)) == "on"
        server.deferred[0].answer(Reply(remark="too late"))
        assert echoed_text(await peers.call(address, echo_request("same"), 10)) == "same"
        assert server.listener.connection_count == 1


async def test_calls_time_out_in_the_order_of_their_deadlines() -> None:
    async with running_echo_address() as (_, address), calling() as peers:
        await peers.connect(address)
        now_s = asyncio.get_running_loop().time
        deadlines_s: list[float] = []

        async def call(timeout_s: float) -> None:
            # On a busy machine the last one may begin when the first is over.
            deadline_s = now_s() + timeout_s
            with pytest.raises(CallTimedOut):
                await peers.call(address, Command(DEFER), timeout_s)
            deadlines_s.append(deadline_s)

        await asyncio.gather(call(0.09), call(0.03), call(0.06))
        assert deadlines_s == sorted(deadlines_s)


async def test_a_peer_that_is_silent_for_a_whole_call_is_dialed_again() -> None:
    limits = ConnectionLimits(silence_timeout_s=0.01)
    async with deaf_address() as address, calling(limits) as peers:
        connection = await peers.connect(address)
        with pytest.raises(CallTimedOut):
            await peers.call(address, echo_request(), 0.02)
        assert not connection.is_open
        assert await peers.connect(address) is not connection


@pytest.mark.slow
async def test_a_peer_that_talks_is_not_cut_off_for_one_lost_answer() -> None:
    limits = ConnectionLimits(silence_timeout_s=0.01)
    async with running_echo_address() as (_, address), calling(limits) as peers:
        lost = asyncio.create_task(peers.call(address, Command(DEFER), 1))
        await peers.call(address, echo_request(), 10)
        with pytest.raises(CallTimedOut):
            await lost
        assert (await peers.connect(address)).is_open


async def test_a_lost_connection_fails_its_calls_and_the_next_call_reconnects() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        waiting = asyncio.create_task(peers.call(address, Command(DEFER), 10))
        await eventually(lambda: server.deferred)
        server.connections[0].abort("test")
        with raises(ConnectionLost, address=address):
            await waiting
        assert echoed_text(await peers.call(address, echo_request("again"), 10)) == "again"


async def test_a_disconnected_peer_is_dialed_again() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        await peers.call(address, echo_request(), 10)
        peers.disconnect(address, "not trusted")
        await peers.call(address, echo_request(), 10)
        assert len({id(connection) for connection in server.connections}) == 2
        peers.disconnect("127.0.0.1:1", "never known")


async def test_calls_in_flight_have_a_limit() -> None:
    async with (
        running_echo_address() as (server, address),
        calling(ConnectionLimits(call_count_max=2)) as peers,
    ):
        waiting = [asyncio.create_task(peers.call(address, Command(DEFER), 10)) for _ in range(2)]
        await eventually(lambda: len(server.deferred) == 2)
        with pytest.raises(TooManyInFlight):
            await peers.call(address, echo_request(), 10)
        for deferred in server.deferred:
            deferred.answer(Reply())
        await asyncio.gather(*waiting)
        assert (await peers.call(address, echo_request(), 10)).code == ResponseCode.SUCCESS


async def test_a_cancelled_call_leaves_room_for_others() -> None:
    async with (
        running_echo_address() as (server, address),
        calling(ConnectionLimits(call_count_max=1)) as peers,
    ):
        cancelled = asyncio.create_task(peers.call(address, Command(DEFER), 10))
        await eventually(lambda: server.deferred)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert (await peers.call(address, echo_request(), 10)).code == ResponseCode.SUCCESS


async def test_callers_wait_while_the_peer_reads_too_slowly() -> None:
    limits = ConnectionLimits(unread_size_high=1024)
    large = Command(RequestCode.SEND_MESSAGE, body=bytes(8 * 1024 * 1024))
    async with deaf_address() as address, calling(limits) as peers:
        await peers.call_oneway(address, large, 10)
        connection = await peers.connect(address)
        await eventually(lambda: connection.is_stalled)
        for call in (peers.call, peers.call_oneway):
            with pytest.raises(CallTimedOut):
                await call(address, echo_request(), 0.01)
        waiting = asyncio.create_task(peers.call(address, echo_request(), 10))
        await asyncio.sleep(0)
        connection.abort("test")
        with pytest.raises(ConnectionLost):
            await waiting


async def test_callers_continue_when_the_peer_has_read() -> None:
    limits = ConnectionLimits(unread_size_high=1024)
    async with running_echo_address() as (server, address), calling(limits) as peers:
        bodies = [bytes([number]) * (4 * 1024 * 1024) for number in range(4)]
        requests = [Command(RequestCode.SEND_MESSAGE, body=body) for body in bodies]
        responses = await asyncio.gather(
            *(peers.call(address, request, 30) for request in requests)
        )
        assert [response.body for response in responses] == bodies
        assert server.listener.connection_count == 1


async def test_the_peer_may_ask_back_on_the_same_connection() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        waiting = asyncio.create_task(peers.call(address, Command(DEFER), 10))
        await eventually(lambda: server.deferred)
        back = server.connections[0]
        assert echoed_text(await back.call(echo_request("who are you?"), 10)) == "who are you?"
        back.send_oneway(echo_request("by the way"))
        server.deferred[0].answer(Reply(remark="done"))
        assert (await waiting).remark == "done"


async def test_idle_connections_are_closed_by_the_caller_too() -> None:
    async with running_echo_address() as (server, address):
        clock = FakeClock()
        peers = Peers(Router(EchoServer(), ROUTES), clock)
        await peers.call(address, echo_request(), 10)
        clock.advance(100)
        peers.sweep()
        await peers.call_oneway(address, echo_request(), 10)  # sending counts as life
        clock.advance(100)
        peers.sweep()
        assert server.listener.connection_count == 1
        clock.advance(20)
        peers.sweep()
        await eventually(lambda: server.listener.connection_count == 0)
        await peers.close()


async def test_closing_sends_what_is_queued_ends_calls_and_refuses_new_ones() -> None:
    async with running_echo_address() as (server, address), calling() as peers:
        waiting = asyncio.create_task(peers.call(address, Command(DEFER), 10))
        await eventually(lambda: server.deferred)
        await peers.call_oneway(address, echo_request("last"), 10)
        await peers.close()
        with raises(ConnectionLost, address=address, reason="closed by us"):
            await waiting
        with raises(ConnectionLost, address=address, reason="closed by us"):
            await peers.call(address, echo_request(), 10)
        await eventually(lambda: server.served == ["last"])


async def test_closing_ends_dials_that_are_under_way() -> None:
    async with running_echo_address() as (_, address), calling() as peers:
        dialing = asyncio.create_task(peers.connect(address))
        await asyncio.sleep(0)
        await peers.close()
        with raises(ConnectionLost, address=address, reason="closed by us"):
            await dialing


async def test_a_response_without_a_waiter_is_dropped() -> None:
    stray = encode_command(Command(0, 12345, 1))

    async def answer_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (frame,) = FrameDecoder().cut(await reader.read(1 << 16))
        del frame
        writer.write(stray + encode_command(Command(0, 0, 1)))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer_twice, "127.0.0.1", 0)
    async with server, calling() as peers:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        response = await peers.call(address, echo_request(), 10)
        assert response.opaque == 0


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1:9876", ("10.0.0.1", 9876)),
        (" broker-a:10911 ", ("broker-a", 10911)),
        ("[::1]:9876", ("::1", 9876)),
        ("::1:9876", ("::1", 9876)),
    ],
)
def test_addresses_are_split(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "host", ":1", "host:", "host:x", "host:-1", "host:65536"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    async with calling() as peers:
        with pytest.raises(BadAddress):
            await peers.call(address, echo_request(), 1)
