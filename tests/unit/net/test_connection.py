"""One connection on a transport that the test holds: deadlines, stalls and the end.

What needs a real socket is tested in `test_serving.py` and `test_peers.py`.
"""

import asyncio

import pytest

from roquet.net import connection
from roquet.net.connection import Connection, FastPath
from roquet.net.deadlines import DeadlineSweep
from roquet.net.errors import CallTimedOut, ConnectionLost
from roquet.net.limits import ConnectionLimits
from roquet.net.router import Router
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.frame_decoder import WholeFrames
from tests.support.echo_server import ECHO, ROUTES, EchoServer, echo_request
from tests.support.fake_clock import FakeClock
from tests.support.raising import raises
from tests.support.slow_transport import AnyOwner, SlowTransport

LIMITS = ConnectionLimits(unread_size_high=1_000, unread_timeout_s=30, frame_timeout_s=10)


class Held:
    """A connection with everything around it at hand."""

    def __init__(
        self,
        dialed: str | None = None,
        limits: ConnectionLimits = LIMITS,
        fast_path: FastPath | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.deadlines = DeadlineSweep(self.clock)
        self.transport = SlowTransport()
        answer = Router(EchoServer(), ROUTES).answer
        self.connection = Connection(
            AnyOwner(), answer, self.deadlines, limits, dialed=dialed, fast_path=fast_path
        )
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    def is_due_after(self, seconds: float) -> bool:
        self.clock.advance(seconds)
        return self.deadlines.refresh() >= self.connection.deadline_s

    async def stall(self) -> None:
        self.connection.send(encode_command(Command(0, body=bytes(2_000))))
        await asyncio.sleep(0)
        assert self.connection.is_stalled


async def test_the_names_of_the_peer() -> None:
    accepted = Held().connection
    assert (accepted.peer, accepted.peer_address) == ("127.0.0.1:1", ("127.0.0.1", 1))
    assert accepted.peer_host == bytes([127, 0, 0, 1, 0, 0, 0, 1])
    assert Held(dialed="broker-a:10911").connection.peer == "broker-a:10911"


async def test_a_server_stops_reading_while_the_peer_does_not_read() -> None:
    held = Held()
    await held.stall()
    was_paused = held.transport.is_reading_paused
    held.transport.let_the_peer_read(2_000)
    assert (was_paused, held.transport.is_reading_paused) == (True, False)
    assert not held.connection.is_stalled


async def test_a_client_continues_reading_while_it_cannot_write() -> None:
    held = Held(dialed="a:1")
    await held.stall()
    assert not held.transport.is_reading_paused
    held.connection.data_received(encode_command(echo_request(body_size=5_000)))
    assert held.transport.responses[-1].body == bytes(5_000)


async def test_answers_of_one_turn_are_counted_before_there_are_more() -> None:
    held = Held(limits=ConnectionLimits(unread_size_high=1_000, unread_size_max=10_000))
    for _ in range(100):
        held.connection.send(bytes(600))
    assert held.transport.is_aborted
    assert held.transport.get_write_buffer_size() <= 12_000


@pytest.mark.parametrize(
    ("pauses", "large"), [(True, [[10_000, 100, 20_000]]), (False, [[10_000, 100], [20_000]])]
)
async def test_large_replies_are_handed_over_as_they_are_and_small_ones_in_one_piece(
    pauses: bool, large: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_WRITELINES_PAUSES", pauses)
    held = Held(limits=ConnectionLimits())
    pieces: list[list[int]] = []
    held.transport.writelines = lambda list_of_data: pieces.append(list(map(len, list_of_data)))  # type: ignore[method-assign]
    held.transport.write = lambda data: pieces.append([len(data)])  # type: ignore[method-assign]
    for size in (10_000, 100, 20_000):
        held.connection.send(bytes(size))
    await asyncio.sleep(0)
    for size in (100, 200, 300):
        held.connection.send(bytes(size))
    await asyncio.sleep(0)
    # Not joined; the last one apart where `writelines` does not pause.
    assert pieces == [*large, [600]]


async def test_the_first_of_many_requests_of_one_turn_are_written_before_the_last() -> None:
    held = Held(dialed="a:1", limits=ConnectionLimits())
    request = Command(0, body=bytes(1_000))
    calls = [asyncio.ensure_future(held.connection.call(request, 5)) for _ in range(30)]
    written: list[int] = []
    # Behind the calls, but before the end of their turn.
    asyncio.get_running_loop().call_soon(
        lambda: written.append(held.transport.get_write_buffer_size())
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 16_000 < written[0] < 30_000
    assert held.transport.get_write_buffer_size() > 30_000
    held.connection.connection_lost(None)
    await asyncio.gather(*calls, return_exceptions=True)


async def test_talking_does_not_excuse_from_reading() -> None:
    held = Held(dialed="a:1")
    await held.stall()
    held.clock.advance(29)
    held.deadlines.refresh()
    held.connection.data_received(encode_command(Command(0, flag=1)))
    held.connection.send(b"more")
    assert held.is_due_after(1)
    held.connection.expire()
    assert held.transport.is_closed
    assert not held.connection.is_open


async def test_a_peer_that_has_read_gets_all_the_time_again() -> None:
    held = Held()
    await held.stall()
    held.clock.advance(29)
    held.deadlines.refresh()
    held.transport.let_the_peer_read(10_000)
    assert not held.is_due_after(119)
    assert held.is_due_after(1)


async def test_the_time_for_a_begun_frame_continues_when_the_peer_has_read() -> None:
    held = Held()
    held.connection.data_received(encode_command(echo_request(body_size=2_000)) + b"\0\0")
    assert held.connection.is_stalled
    held.transport.let_the_peer_read(10_000)
    assert not held.is_due_after(9)
    assert held.is_due_after(1)


async def test_sending_keeps_an_idle_connection_alive_but_not_a_begun_frame() -> None:
    held = Held()
    held.clock.advance(100)
    held.deadlines.refresh()
    held.connection.send(b"x")
    assert not held.is_due_after(100)
    held.connection.data_received(b"\0\0")
    held.connection.send(b"x")
    assert held.is_due_after(10)


async def test_a_closed_connection_that_cannot_send_its_rest_is_cut() -> None:
    held = Held()
    held.connection.send(b"rest")
    held.connection.close("test")
    assert held.transport.is_closed
    assert not held.transport.is_aborted
    assert held.is_due_after(3)
    held.connection.expire()
    assert held.transport.is_aborted


async def test_nothing_is_sent_after_the_end() -> None:
    held = Held()
    held.connection.close("test")
    held.connection.send(b"late")
    held.connection.close("again")
    await asyncio.sleep(0)
    assert held.transport.get_write_buffer_size() == 0
    with raises(ConnectionLost, reason="test"):
        held.connection.send_oneway(echo_request())
    with raises(ConnectionLost, reason="test"):
        await held.connection.call(echo_request(), 1)


async def test_what_was_queued_before_the_end_is_sent() -> None:
    held = Held()
    held.connection.send_oneway(echo_request("last"))
    held.connection.close("test")
    assert held.transport.responses[0].is_oneway


async def test_every_caller_gets_an_error_of_its_own() -> None:
    held = Held(dialed="a:1")
    calls = [asyncio.create_task(held.connection.call(echo_request(), 10)) for _ in range(2)]
    await asyncio.sleep(0)
    held.connection.connection_lost(OSError("cable"))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(result) for result in results] == ["connection to a:1 is closed: cable"] * 2
    assert results[0] is not results[1]


async def test_waiting_for_room_ends_with_the_callers_time_or_the_connection() -> None:
    held = Held(dialed="a:1")
    await held.stall()
    with pytest.raises(CallTimedOut):
        await held.connection.until_writable(10, 0.01)
    waiting = asyncio.create_task(held.connection.until_writable(10, 10))
    await asyncio.sleep(0)
    held.connection.connection_lost(None)
    await waiting
    assert not held.connection.is_open


def stalling_requests(*, last: bytes) -> bytes:
    """Two requests of which the second has to wait until the answer to the first is read."""
    return encode_command(echo_request(body_size=2_000)) + last


async def test_a_request_that_waited_may_turn_out_to_be_unreadable() -> None:
    held = Held()
    held.connection.data_received(stalling_requests(last=b"\0\0\0\6\0\0\0\2{]"))
    assert held.connection.is_open
    held.transport.let_the_peer_read(10_000)
    assert not held.connection.is_open


async def test_requests_that_wait_when_the_connection_is_closed_are_not_answered() -> None:
    held = Held()
    held.connection.data_received(stalling_requests(last=encode_command(echo_request())))
    held.connection.close("test")
    assert len(held.transport.responses) == 1


# --- the fast path ---


class FastPathOfMarked:
    """Answers requests with the body "fast", by as many bytes as a test wants."""

    def __init__(self, reply_size: int = 0) -> None:
        self._reply_size = reply_size

    def take(
        self, _connection: Connection, frames: WholeFrames, replies: list[bytes], size_max: int
    ) -> int:
        size = 0
        while size < size_max:
            position = frames.position
            frame = next(frames, None)
            if frame is None or frame.body != b"fast":
                frames.position = position
                break
            reply = reply_to(decode_command(frame), body=b"L" * self._reply_size)
            replies.append(encode_command(reply))
            size += len(replies[-1])
        return size


def marked(*bodies: bytes) -> bytes:
    """Requests with these bodies, numbered."""
    return b"".join(
        encode_command(Command(ECHO, opaque, body=body)) for opaque, body in enumerate(bodies)
    )


async def test_what_the_fast_leaves_is_answered_in_its_turn() -> None:
    held = Held(fast_path=FastPathOfMarked())
    held.connection.data_received(marked(b"a", b"fast", b"fast", b"b", b"fast", b"c"))
    responses = held.transport.responses
    assert [each.opaque for each in responses] == [0, 1, 2, 3, 4, 5]
    assert [each.body for each in responses] == [b"a", b"", b"", b"b", b"", b"c"]


async def test_the_fast_is_offered_whole_frames_however_they_arrive() -> None:
    held = Held(fast_path=FastPathOfMarked())
    stream = marked(b"fast", b"a", b"fast")
    for at in range(len(stream)):
        held.connection.data_received(stream[at : at + 1])
    assert [each.opaque for each in held.transport.responses] == [0, 1, 2]


async def test_the_fast_waits_for_a_peer_that_does_not_read() -> None:
    held = Held(fast_path=FastPathOfMarked(reply_size=600))
    held.connection.data_received(marked(*[b"fast"] * 9))
    assert held.connection.is_stalled
    assert held.transport.get_write_buffer_size() < 2_000
    assert [each.opaque for each in held.transport.responses] == list(range(9))


async def test_a_bad_frame_behind_those_of_the_fast_ends_the_connection() -> None:
    held = Held(fast_path=FastPathOfMarked())
    held.connection.data_received(marked(b"fast") + b"\xff" * 8)
    assert [each.opaque for each in held.transport.responses] == [0]
    assert held.transport.is_closed
