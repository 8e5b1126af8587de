"""Where name servers are: named, or listed by a page."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roquet.net.address_server import AddressServer, NameServerSource, read_source
from roquet.net.errors import BadAddress

PAGE = "http://addresses:8080/rocketmq/nsaddr"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a:1", NameServerSource(("a:1",))),
        (" a:1 ; b:2; ", NameServerSource(("a:1", "b:2"))),
        ("http://a:1", NameServerSource(("a:1",))),
        ("http://a:1;http://b:2/", NameServerSource(("a:1", "b:2"))),
        (PAGE, NameServerSource((), PAGE)),
        ("http://addresses/nsaddr", NameServerSource((), "http://addresses/nsaddr")),
        ("https://addresses/nsaddr", NameServerSource((), "https://addresses/nsaddr")),
        ("", NameServerSource()),
    ],
)
def test_addresses_and_pages_are_distinguished(text: str, source: NameServerSource) -> None:
    assert read_source(text) == source


def test_a_unit_has_a_page_of_its_own() -> None:
    assert read_source(PAGE, "north").url == f"{PAGE}-north?nofix=1"


@pytest.mark.parametrize("text", ["a", "a:b", "ftp://a:1/b", "a:1;http://b:2/c", "http://:x/b"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        read_source(text)


class Page:
    """Of an HTTP server; `text` is what it says next."""

    def __init__(self) -> None:
        self.text = "127.0.0.1:1"
        self.status = "200 OK"
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(request.split(b" ")[1].decode())
        body = self.text.encode()
        writer.write(f"HTTP/1.1 {self.status}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        writer.close()


@asynccontextmanager
async def page() -> AsyncIterator[Page]:
    page = Page()
    async with await asyncio.start_server(page.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        page.url = f"http://127.0.0.1:{port}/rocketmq/nsaddr"
        yield page


async def test_the_first_line_of_the_page_names_the_servers() -> None:
    used: list[tuple[str, ...]] = []
    async with page() as served:
        served.text = " a:1; b:2;\nc:3\n"
        server = AddressServer(served.url + "-north?nofix=1", used.append)
        await server.ask()
    assert used == [("a:1", "b:2")]
    assert served.asked == ["/rocketmq/nsaddr-north?nofix=1"]


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("", "200 OK", "empty"),
        ("a:1", "404 Not Found", "404"),
        ("nonsense", "200 OK", "nonsense"),
        ("a:1", "what", "invalid response"),
    ],
)
async def test_a_page_that_names_none_changes_nothing(
    text: str, status: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    used: list[tuple[str, ...]] = []
    async with page() as served:
        served.text, served.status = text, status
        server = AddressServer(served.url, used.append)
        with caplog.at_level(logging.WARNING):
            await server.ask()
            await server.ask()
    assert not used
    (record,) = caplog.records
    assert expected in record.message


async def test_a_server_that_is_not_there_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    used: list[tuple[str, ...]] = []
    await AddressServer("http://127.0.0.1:1/x", used.append).ask()
    assert not used
    assert "no name servers" in caplog.text


async def test_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roquet.net.address_server.ASK_PERIOD_S", 0.01)
    used: list[tuple[str, ...]] = []
    has_three = asyncio.Event()

    def use(addresses: tuple[str, ...]) -> None:
        used.append(addresses)
        if len(used) == 3:
            has_three.set()

    async with page() as served:
        server = AddressServer(served.url, use)
        await server.ask()
        asking = asyncio.create_task(server.keep_asking())
        async with asyncio.timeout(10):
            await has_three.wait()
        asking.cancel()
    assert set(used) == {("127.0.0.1:1",)}
