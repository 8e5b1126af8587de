"""Transports of servers, on a pair of sockets: what protocols are promised."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest

from tests.support.eventually import eventually

# Asyncio and uvloop make no such transports.
pytestmark = pytest.mark.asyncio(loop_factories=["epoll"])

# More than the kernel takes at once.
MUCH = 4 * 1024 * 1024


class Notes(asyncio.Protocol):
    """Notes what it is told; `on_data` may do something then."""

    def __init__(self) -> None:
        self.received = b""
        self.events: list[str] = []
        self.lost: Exception | None = None
        self.on_data: Callable[[bytes], None] = lambda _data: None
        self.keeps_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.on_data(data)

    def eof_received(self) -> bool:
        self.events.append("end")
        return self.keeps_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = error
        self.events.append("lost")


class Pair:
    """A served socket and its peer, which blocks for no call."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self._ours = ours
        self.notes = Notes()

    async def open(self) -> "Pair":
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.notes, self._ours)
        return self

    @property
    def transport(self) -> asyncio.Transport:
        return self.notes.transport

    def read(self) -> bytes:
        """All that is there."""
        pieces = []
        with suppress(BlockingIOError):
            while piece := self.peer.recv(MUCH):
                pieces.append(piece)
        return b"".join(pieces)

    @property
    def has_ended(self) -> bool:
        """Whether the next thing to read is the end."""
        try:
            return self.peer.recv(1) == b""
        except BlockingIOError:
            return False

    async def read_exactly(self, size: int) -> bytes:
        data = b""

        def has_all() -> bool:
            nonlocal data
            data += self.read()
            return len(data) >= size

        await eventually(has_all)
        return data

    async def close(self) -> None:
        self.transport.abort()
        await eventually(lambda: "lost" in self.notes.events)
        self.peer.close()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = await Pair().open()
    yield pair
    await pair.close()


@pytest.fixture
async def failures() -> AsyncIterator[list[dict[str, Any]]]:
    """What the loop is told of failing protocols."""
    found: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: found.append(context))
    yield found
    loop.set_exception_handler(None)


async def test_bytes_arrive_once_the_protocol_knows_its_transport(pair: Pair) -> None:
    pair.peer.send(b"hello")
    await eventually(lambda: pair.notes.received == b"hello")
    assert pair.notes.events == ["made"]


async def test_what_is_written_is_read_in_order(pair: Pair) -> None:
    for number in range(100):
        pair.transport.write(b"%d," % number)
    pair.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c"), b""])
    assert await pair.read_exactly(293) == b"".join(b"%d," % n for n in range(100)) + b"abc"


async def test_more_than_the_kernel_takes_is_sent_as_the_peer_reads(pair: Pair) -> None:
    pieces = [bytes([number]) * 70_001 for number in range(100)]
    pair.transport.writelines(pieces[:50])
    for piece in pieces[50:]:
        pair.transport.write(piece)
    assert pair.transport.get_write_buffer_size() > 0
    assert pair.notes.events[-1] == "pause"
    assert await pair.read_exactly(100 * 70_001) == b"".join(pieces)
    await eventually(lambda: pair.notes.events == ["made", "pause", "resume"])
    assert pair.transport.get_write_buffer_size() == 0


async def test_a_peer_that_reads_a_little_at_a_time_gets_every_byte(pair: Pair) -> None:
    """The pieces that are sent are let go, also when something is left all the time."""
    pieces = [b"%07d" % number * 1_000 for number in range(1_000)]
    data = b""
    for piece in pieces:
        pair.transport.write(piece)
        with suppress(BlockingIOError):
            data += pair.peer.recv(6_000)
        await asyncio.sleep(0)
    assert pair.transport.get_write_buffer_size() > 0
    data += await pair.read_exactly(7_000_000 - len(data))
    assert data == b"".join(pieces)


async def test_writes_of_a_round_leave_together(pair: Pair) -> None:
    def answer(_data: bytes) -> None:
        for _ in range(3):
            pair.transport.write(b"x")
        # Nothing was sent yet; otherwise the peer would have it.
        pair.notes.events.append(f"{pair.transport.get_write_buffer_size()} kept")
        assert pair.read() == b""

    pair.notes.on_data = answer
    pair.peer.send(b"?")
    assert await pair.read_exactly(3) == b"xxx"
    assert pair.notes.events == ["made", "3 kept"]


async def test_much_that_is_written_in_a_round_is_sent_at_once(pair: Pair) -> None:
    def answer(_data: bytes) -> None:
        pair.transport.write(b"x" * 70_000)
        assert pair.read()

    pair.notes.on_data = answer
    pair.peer.send(b"?")
    await eventually(lambda: pair.notes.received == b"?")
    assert "lost" not in pair.notes.events  # The assertion above held.


async def test_what_is_written_in_a_round_is_sent_before_a_close(pair: Pair) -> None:
    def answer(_data: bytes) -> None:
        pair.transport.write(b"bye")
        pair.transport.close()

    pair.notes.on_data = answer
    pair.peer.send(b"?")
    assert await pair.read_exactly(3) == b"bye"
    await eventually(lambda: pair.notes.events == ["made", "lost"])
    assert pair.notes.lost is None


async def test_a_close_waits_until_the_peer_has_everything(pair: Pair) -> None:
    pair.transport.write(bytes(MUCH))
    pair.transport.close()
    assert pair.transport.is_closing()
    assert "lost" not in pair.notes.events
    assert len(await pair.read_exactly(MUCH)) == MUCH
    await eventually(lambda: "lost" in pair.notes.events)


async def test_an_abort_drops_what_is_left(pair: Pair) -> None:
    pair.transport.write(bytes(MUCH))
    pair.transport.abort()
    await eventually(lambda: "lost" in pair.notes.events)
    assert pair.notes.lost is None
    assert len(pair.read()) < MUCH


async def test_a_closed_transport_takes_no_notice_of_writes(pair: Pair) -> None:
    pair.transport.close()
    pair.transport.write(b"late")
    pair.transport.writelines([b"later"])
    pair.transport.close()
    await eventually(lambda: "lost" in pair.notes.events)
    pair.transport.pause_reading()
    pair.transport.resume_reading()
    assert pair.read() == b""
    assert pair.notes.events == ["made", "lost"]


async def test_nothing_is_received_while_reading_is_paused(pair: Pair) -> None:
    pair.transport.pause_reading()
    assert not pair.transport.is_reading()
    pair.peer.send(b"held")
    for _ in range(10):
        await asyncio.sleep(0)
    assert pair.notes.received == b""
    pair.transport.resume_reading()
    await eventually(lambda: pair.notes.received == b"held")


async def test_the_end_of_the_peer_closes(pair: Pair) -> None:
    pair.peer.send(b"last")
    pair.peer.shutdown(socket.SHUT_WR)
    await eventually(lambda: pair.notes.events == ["made", "end", "lost"])
    assert pair.notes.received == b"last"
    assert pair.notes.lost is None


async def test_a_protocol_may_write_after_the_end_of_its_peer(pair: Pair) -> None:
    pair.notes.keeps_open = True
    pair.peer.shutdown(socket.SHUT_WR)
    await eventually(lambda: pair.notes.events == ["made", "end"])
    pair.transport.write(b"still here")
    assert await pair.read_exactly(10) == b"still here"
    assert pair.notes.events == ["made", "end"]


@pytest.mark.parametrize("size", [0, 5, MUCH])
async def test_the_stream_ends_after_what_was_written(pair: Pair, size: int) -> None:
    assert pair.transport.can_write_eof()
    pair.transport.write(bytes(size))
    pair.transport.write_eof()
    assert len(await pair.read_exactly(size)) == size
    await eventually(lambda: pair.has_ended)
    # The other direction goes on.
    pair.peer.send(b"answer")
    await eventually(lambda: pair.notes.received == b"answer")


async def test_a_peer_that_is_gone_ends_writes() -> None:
    pair = await Pair().open()
    pair.transport.pause_reading()
    pair.peer.close()
    pair.transport.write(b"nobody reads it")
    await eventually(lambda: "lost" in pair.notes.events)
    assert isinstance(pair.notes.lost, OSError)
    assert pair.notes.lost.errno == errno.EPIPE


async def test_a_reset_reaches_the_protocol() -> None:
    loop = asyncio.get_running_loop()
    notes = Notes()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    accepted.setblocking(False)
    transport, _ = await loop.connect_accepted_socket(lambda: notes, accepted)
    assert transport.get_extra_info("peername") == peer.getsockname()
    assert transport.get_extra_info("sockname") == peer.getpeername()
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    # Closed without waiting: the kernel sends a reset.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    await eventually(lambda: "lost" in notes.events)
    assert isinstance(notes.lost, ConnectionResetError)
    # Addresses that were asked for are known afterwards, others are not.
    assert transport.get_extra_info("peername")
    assert transport.get_extra_info("cipher", "none") == "none"


@pytest.mark.parametrize("way", ["data_received", "eof_received"])
async def test_a_protocol_that_fails_is_reported_and_closed(
    pair: Pair, failures: list[dict[str, Any]], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError(way)

    monkeypatch.setattr(pair.notes, way, fail)
    pair.transport.set_protocol(pair.notes)
    pair.peer.send(b"!")
    if way == "eof_received":
        pair.peer.shutdown(socket.SHUT_WR)
    await eventually(lambda: "lost" in pair.notes.events)
    assert [str(each["exception"]) for each in failures] == [way]
    assert isinstance(pair.notes.lost, ValueError)


async def test_a_failing_pause_is_reported_and_costs_no_bytes(
    pair: Pair, failures: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError

    monkeypatch.setattr(pair.notes, "pause_writing", fail)
    pair.transport.write(bytes(MUCH))
    assert len(await pair.read_exactly(MUCH)) == MUCH
    assert [type(each["exception"]) for each in failures] == [ValueError]


async def test_another_protocol_can_take_over(pair: Pair) -> None:
    other = Notes()
    pair.notes.on_data = lambda _data: pair.transport.set_protocol(other)
    pair.peer.send(b"first")
    await eventually(lambda: pair.notes.received == b"first")
    assert pair.transport.get_protocol() is other
    pair.peer.send(b"second")
    await eventually(lambda: other.received == b"second")
    assert pair.notes.received == b"first"
    pair.transport.set_protocol(pair.notes)


async def test_marks_of_unsent_bytes(pair: Pair) -> None:
    assert pair.transport.get_write_buffer_limits() == (16_384, 65_536)
    pair.transport.set_write_buffer_limits(low=100)
    assert pair.transport.get_write_buffer_limits() == (100, 400)
    pair.transport.set_write_buffer_limits(high=0)
    assert pair.transport.get_write_buffer_limits() == (0, 0)
    with pytest.raises(ValueError, match="does not fit"):
        pair.transport.set_write_buffer_limits(high=1, low=2)


async def test_requests_of_many_connections_are_answered_in_one_round() -> None:
    """Each event of a round finds its own transport."""
    pairs = [await Pair().open() for _ in range(300)]

    def answer(pair: Pair, data: bytes) -> None:
        pair.transport.write(data[::-1])

    for number, pair in enumerate(pairs):
        pair.notes.on_data = partial(answer, pair)
        pair.peer.send(b"%d" % number)
    for number, pair in enumerate(pairs):
        assert await pair.read_exactly(len(str(number))) == str(number)[::-1].encode()
    for pair in pairs:
        await pair.close()
