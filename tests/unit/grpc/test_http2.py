"""Bytes of a peer as events: a call that comes at once is one of them."""

import h2.config
import h2.connection
import pytest

from roquet.grpc.calls import Outcome
from roquet.grpc.header_block import HeaderBlock
from roquet.grpc.http2 import CLOSED, DATA, END, HEADERS, REQUEST, Ending, Http2Session, Request

GIVEN = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "test")]
STATUS = ((b":status", b"200"),)


@pytest.fixture
def client() -> h2.connection.H2Connection:
    config = h2.config.H2Configuration(client_side=True)
    client = h2.connection.H2Connection(config)
    client.initiate_connection()
    return client


@pytest.fixture
def session() -> Http2Session:
    return Http2Session(16, 16_384, 65_536)


def test_a_call_that_comes_at_once_is_a_request(
    client: h2.connection.H2Connection, session: Http2Session
) -> None:
    client.send_headers(1, [*GIVEN, ("city", "Rome"), ("city", "Oslo")])
    client.send_data(1, b"hello", end_stream=True)
    ((kind, stream_id, request),) = session.receive(client.data_to_send())
    assert (kind, stream_id) == (REQUEST, 1)
    assert isinstance(request, Request)
    assert request.data == b"hello"
    assert request.headers.texts() == {**dict(GIVEN), "city": "Rome,Oslo"}


@pytest.mark.parametrize("cut_at_end", [False, True])
def test_a_call_that_comes_in_pieces_is_its_events(
    client: h2.connection.H2Connection, session: Http2Session, *, cut_at_end: bool
) -> None:
    client.send_headers(1, GIVEN)
    client.send_data(1, b"hel")
    first = client.data_to_send() if cut_at_end else b""
    client.send_data(1, b"lo", end_stream=True)
    events = session.receive(first) + session.receive(client.data_to_send())
    assert [kind for kind, _, _ in events] == [HEADERS, DATA, DATA, END]
    headers = events[0][2]
    assert isinstance(headers, HeaderBlock)
    assert headers.texts() == dict(GIVEN)
    assert [value for _, _, value in events[1:]] == [b"hel", b"lo", None]


def test_a_call_that_is_reset_at_once_is_closed_after_its_headers(
    client: h2.connection.H2Connection, session: Http2Session
) -> None:
    client.send_headers(1, GIVEN)
    client.reset_stream(1)
    events = session.receive(client.data_to_send())
    assert [(kind, stream_id) for kind, stream_id, _ in events] == [(HEADERS, 1), (CLOSED, 1)]


ANSWERED: tuple[str, Outcome] = ("call", b"ok")
GIVEN_UP: tuple[str, Outcome] = ("call", None)


@pytest.mark.parametrize("what", ["sent", "reset before", "reset after", "lost"])
def test_a_counted_answer_is_counted_once_and_is_no_event(
    client: h2.connection.H2Connection, session: Http2Session, what: str
) -> None:
    ended = {ANSWERED: 0, GIVEN_UP: 0}
    client.send_headers(1, GIVEN)
    client.send_data(1, b"hello", end_stream=True)
    session.receive(client.data_to_send())
    client.reset_stream(1)
    reset = client.data_to_send()
    if what == "reset before":
        session.receive(reset)
    session.answer(1, STATUS, b"answer", (), Ending(ended, ANSWERED, GIVEN_UP))
    if what == "sent":
        session.to_send()
    if what == "reset after":
        assert session.receive(reset) == []
    session.close()
    assert session.events() == []
    assert ended == {ANSWERED: int(what == "sent"), GIVEN_UP: int(what != "sent")}
