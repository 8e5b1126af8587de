"""A connection under any cut of the stream, any stalling reader, and any bytes at all."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given, strategies as st

from roquet.net.connection import Connection
from roquet.net.deadlines import DeadlineSweep
from roquet.net.limits import ConnectionLimits
from roquet.net.router import Router
from roquet.protocol.command import encode_command
from tests.support.echo_server import ROUTES, EchoServer, echo_request, echoed_text
from tests.support.fake_clock import FakeClock
from tests.support.slow_transport import AnyOwner, SlowTransport

FAST = ConnectionLimits(frame_size_max=64 * 1024)
SLOW = ConnectionLimits(frame_size_max=64 * 1024, unread_size_high=1_000)


def on_a_connection(
    limits: ConnectionLimits, scenario: Callable[[Connection, SlowTransport], None]
) -> None:
    async def main() -> None:
        transport = SlowTransport()
        router = Router(EchoServer(), ROUTES)
        connection = Connection(AnyOwner(), router.answer, DeadlineSweep(FakeClock()), limits)
        transport.protocol = connection
        connection.connection_made(transport)
        scenario(connection, transport)

    asyncio.run(main())


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[begin:end] for begin, end in pairwise(places)]


texts = st.lists(st.text(max_size=40), max_size=12)
cuts = st.lists(st.integers(0, 10_000), max_size=60)


@given(texts=texts, cuts=cuts)
def test_answers_do_not_depend_on_how_the_network_cut_the_stream(
    texts: list[str], cuts: list[int]
) -> None:
    stream = b"".join(encode_command(echo_request(text)) for text in texts)

    def scenario(connection: Connection, transport: SlowTransport) -> None:
        for piece in pieces_of(stream, cuts):
            connection.data_received(piece)
        assert [echoed_text(response) for response in transport.responses] == texts

    on_a_connection(FAST, scenario)


@given(
    sizes=st.lists(st.integers(0, 3_000), max_size=20),
    cuts=cuts,
    reads=st.lists(st.integers(0, 5_000), max_size=80),
)
def test_a_reader_of_any_speed_gets_every_answer_in_order_and_bounds_what_is_kept(
    sizes: list[int], cuts: list[int], reads: list[int]
) -> None:
    requests = [echo_request(body_size=size, opaque=number) for number, size in enumerate(sizes)]
    pieces = pieces_of(b"".join(map(encode_command, requests)), cuts)

    def scenario(connection: Connection, transport: SlowTransport) -> None:
        turns = [*reads, *(10_000 for _ in range(len(pieces) + len(sizes) + 1))]
        for read_size in turns:
            if pieces and not transport.is_reading_paused:
                connection.data_received(pieces.pop(0))
            # At most the mark and the one answer that went over it, twice: once when the
            # mark was reached, once when half of it had been read.
            assert transport.get_write_buffer_size() <= 2 * (SLOW.unread_size_high + 3_500)
            transport.let_the_peer_read(read_size)
        assert not pieces
        assert [response.opaque for response in transport.responses] == list(range(len(sizes)))

    on_a_connection(SLOW, scenario)


@given(
    before=st.lists(st.text(max_size=10), max_size=3),
    garbage=st.binary(max_size=200),
    cuts=cuts,
)
def test_no_bytes_break_more_than_their_own_connection(
    before: list[str], garbage: bytes, cuts: list[int]
) -> None:
    stream = b"".join(encode_command(echo_request(text)) for text in before) + garbage

    def scenario(connection: Connection, transport: SlowTransport) -> None:
        for piece in pieces_of(stream, cuts):
            if not transport.is_closed:
                connection.data_received(piece)
        assert connection.is_open != transport.is_closed
        assert [echoed_text(each) for each in transport.responses[: len(before)]] in (
            before,
            # Unreadable bytes that came together with requests took them along.
            *(before[:count] for count in range(len(before))),
        )

    on_a_connection(FAST, scenario)
