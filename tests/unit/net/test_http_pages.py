"""Pages for machines; whoever asks in any other way costs little, and not for long."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from roquet.net import http_pages
from roquet.net.errors import AddressTaken
from roquet.net.http_pages import (
    ANSWER_COUNT_MAX,
    CONNECTION_COUNT_MAX,
    HEAD_SIZE_MAX,
    HttpPort,
    Page,
    Place,
    to_give_way,
)
from tests.support.eventually import eventually
from tests.support.http_asking import asked, page
from tests.support.raising import raises

GET = b"GET /page HTTP/1.1\r\n"


async def find(path: str) -> Page | None:
    sizes = {"/page": 2, "/large": 1_000_000, "/huge": 32 << 20}
    return Page(b"x" * sizes[path]) if path in sizes else None


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[HttpPort, int]]:
    http, port = await HttpPort.open("127.0.0.1", 0, find)
    try:
        yield http, port
    finally:
        await http.close()


async def test_a_page_is_answered_and_the_connection_closed() -> None:
    async with serving() as (_, port):
        answer = await page(port, "/page?x=1")
    assert (answer.status, answer.body) == (HTTPStatus.OK, b"xx")
    assert answer.headers["Content-Length"] == "2"
    assert answer.headers["Connection"] == "close"


async def test_a_head_has_no_body() -> None:
    async with serving() as (_, port):
        answer = await page(port, "/page", "HEAD")
    assert (answer.headers["Content-Length"], answer.body) == ("2", b"")


async def test_a_large_page_comes_whole() -> None:
    async with serving() as (_, port):
        assert len((await page(port, "/large")).body) == 1_000_000


async def test_a_request_may_come_in_pieces() -> None:
    async with serving() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for byte in GET + b"\r\n":
            writer.write(bytes((byte,)))
            await writer.drain()
        assert (await reader.read()).endswith(b"\r\n\r\nxx")
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /none HTTP/1.1\r\n\r\n", 404),
        (b"POST /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /page HTTP/2\r\n\r\n", 400),
        (b"GET page HTTP/1.1\r\n\r\n", 400),
        (b"GET /page\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET / /page HTTP/1.1\r\n\r\n", 400),
        (GET + b"A: " + b"a" * HEAD_SIZE_MAX, 431),
        (b"a" * 100_000, 431),
    ],
)
async def test_what_makes_no_sense_is_refused(request_bytes: bytes, status: int) -> None:
    async with serving() as (_, port):
        answer = await asked(port, request_bytes)
        # Who goes on sending may have hung up on the answer.
        assert not answer or answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert (await page(port, "/page")).status is HTTPStatus.OK


async def test_a_peer_that_sends_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pages, "REQUEST_S_MAX", 0.2)
    async with serving() as (_, port):
        assert await asked(port, GET) == b""
        assert await asked(port, b"") == b""


async def test_a_peer_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pages, "EXCHANGE_S_MAX", 0.2)
    async with serving() as (http, port):
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.sendall(b"GET /huge HTTP/1.1\r\n\r\n")
            await eventually(lambda: http.exchanges)
            await eventually(lambda: not http.exchanges)


async def test_probes_are_answered_however_many_say_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine some would be too slow before there are too many.
    monkeypatch.setattr(http_pages, "REQUEST_S_MAX", 600)
    async with serving() as (http, port):
        peers = []
        for _ in range(2 * CONNECTION_COUNT_MAX):
            peers.append(socket.create_connection(("127.0.0.1", port)))
            assert (await page(port, "/page")).body == b"xx"
        assert len(http.exchanges) <= CONNECTION_COUNT_MAX
        assert http.cut_off_count >= CONNECTION_COUNT_MAX
        assert http.refused_count == 0
        assert len(caplog.messages) == 1
        assert "disconnecting 127.0.0.1, which has not sent a request" in caplog.messages[0]
        # The oldest went first, and the youngest are there.
        assert peers[0].recv(1) == b""
        for peer in peers:
            peer.close()


async def test_a_peer_that_does_not_read_gives_way_to_one_that_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_pages, "ANSWER_COUNT_MAX", 2)
    async with serving() as (http, port):
        peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for peer in peers:
            peer.sendall(b"GET /huge HTTP/1.1\r\n\r\n")
        await eventually(lambda: sum(each.has_asked for each in http.exchanges) == 2)
        assert (await page(port, "/page")).body == b"xx"
        assert http.cut_off_count == 1
        for peer in peers:
            peer.close()


async def test_when_all_are_being_answered_there_is_no_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_over = asyncio.Event()

    async def slow(_path: str) -> Page:
        await is_over.wait()
        return Page(b"xx")

    http, port = await HttpPort.open("127.0.0.1", 0, slow)
    asking = [asyncio.create_task(page(port, "/page")) for _ in range(ANSWER_COUNT_MAX)]
    await eventually(lambda: sum(each.has_asked for each in http.exchanges) == ANSWER_COUNT_MAX)
    assert (await page(port, "/page")).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert http.refused_count == 1
    assert "refusing" in caplog.text
    is_over.set()
    assert {answer.body for answer in await asyncio.gather(*asking)} == {b"xx"}
    await http.close()


def test_suppressed_lines_are_logged_when_their_minute_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def crowd() -> None:
        monkeypatch.setattr(http_pages, "PERIOD_S", 0.2)
        async with serving() as (http, port):
            peers = [
                socket.create_connection(("127.0.0.1", port))
                for _ in range(CONNECTION_COUNT_MAX + 3)
            ]
            await eventually(lambda: any("(2 times)" in each for each in caplog.messages))
            assert http.cut_off_count == 3
            for peer in peers:
                peer.close()

    asyncio.run(crowd())


@pytest.mark.parametrize(
    ("places", "index"),
    [
        ([], None),
        ([Place("a", False)], None),
        ([Place("a", True), Place("a", True)], 0),
        ([Place("a", False), Place("b", True)], 1),
        # Whoever holds the most gives way.
        ([Place("a", True), Place("b", True), Place("b", False)], 1),
    ],
)
def test_the_oldest_of_those_with_the_most_gives_way(
    places: list[Place], index: int | None
) -> None:
    assert to_give_way(places) == index


async def test_a_page_without_a_waiter_is_given_up() -> None:
    is_cancelled = asyncio.Event()
    is_begun = asyncio.Event()

    async def slow(_path: str) -> Page:
        is_begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled.set()
            raise
        return Page(b"")

    http, port = await HttpPort.open("127.0.0.1", 0, slow)
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall(GET + b"\r\n")
        async with asyncio.timeout(30):
            await is_begun.wait()
        # A reset, not a farewell.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    async with asyncio.timeout(30):
        await is_cancelled.wait()
    await http.close()


async def test_a_port_that_is_taken_is_named() -> None:
    async with serving() as (_, port):
        with raises(AddressTaken, port=port):
            await HttpPort.open("127.0.0.1", port, find)
