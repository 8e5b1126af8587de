"""Pages over HTTP, for machines: GET, an answer, and the connection is closed.

    GET /metrics HTTP/1.1\r\n        request line and headers: 8 KiB at most, of which only the
    Host: 127.0.0.1:9877\r\n         request line means anything here
    \r\n

Not a web server. Nobody is asked who they are, nothing can be changed, and whoever connects holds
one of a few places for a few seconds at most, whatever they send or do not send or do not read.
"""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Final, Self, cast, final

import msgspec

from roquet.net.errors import AddressTaken
from roquet.net.listening import Listener, may_keep
from roquet.net.ports import at_free_port

log = logging.getLogger(__name__)

HEAD_SIZE_MAX: Final = 8192
CONNECTION_COUNT_MAX: Final = 32
# From the first byte of the connection to the last byte of the answer.
EXCHANGE_S_MAX: Final = 10.0

_END_OF_HEAD: Final = b"\r\n\r\n"
_PLAIN_TEXT: Final = "text/plain; charset=utf-8"
_METHODS: Final = (b"GET", b"HEAD")
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0")


class Page(msgspec.Struct, frozen=True):
    """What is answered."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _PLAIN_TEXT
    allow: str = ""


Pages = Callable[[str], Awaitable[Page | None]]
"""The page of a path, without its query; None if there is none."""


@final
class HttpPort:
    """Made by `open`. Answers until `close`."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._listener: Listener | None = None
        self._exchanges: set[_Exchange] = set()
        self.refused_count = 0

    @classmethod
    async def open(cls, host: str, port: int, pages: Pages) -> tuple[Self, int]:
        """And the port that it has: 0 takes any. Raises OSError, such as AddressTaken."""
        self = cls(pages)
        return self, await self._listen(host, port)

    async def _listen(self, host: str, port: int) -> int:
        if port == 0:
            return await at_free_port(host, partial(self._listen, host))
        try:
            self._listener = await Listener.open(
                host, port, lambda: _Exchange(self._exchanges, self._pages, self._refuse), _pause
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressTaken(host, port) from None
            raise
        return port

    async def close(self) -> None:
        """Whoever is not answered by now will not be."""
        if self._listener is not None:
            await self._listener.close()
        for exchange in tuple(self._exchanges):
            exchange.abort()

    def _refuse(self) -> None:
        self.refused_count += 1


def _pause(error: OSError) -> None:
    log.warning("nobody can ask for pages for a second: %s (ulimit -n)", error.strerror)


@final
class _Exchange(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(
        self, exchanges: "set[_Exchange]", pages: Pages, on_refused: Callable[[], None]
    ) -> None:
        self._exchanges = exchanges
        self._pages = pages
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        descriptor = transport.get_extra_info("socket").fileno()
        if len(self._exchanges) >= CONNECTION_COUNT_MAX or not may_keep(descriptor, is_local=True):
            self._on_refused()
            self._transport.abort()
            return
        self._exchanges.add(self)
        self._deadline = self._loop.call_later(EXCHANGE_S_MAX, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._is_answered:
            return  # What comes behind the head is of no interest.
        self._head += data[: HEAD_SIZE_MAX + 1 - len(self._head)]
        if _END_OF_HEAD in self._head:
            self._answer(bytes(self._head).split(b"\r\n", 1)[0])
        elif len(self._head) > HEAD_SIZE_MAX:
            self._send(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def eof_received(self) -> bool:
        # Some close their side as soon as they have asked, and still want to know.
        return self._answering is not None

    def connection_lost(self, _error: Exception | None) -> None:
        self._exchanges.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, request_line: bytes) -> None:
        parts = request_line.split(b" ")
        if len(parts) != 3 or parts[2] not in _VERSIONS or not parts[1].startswith(b"/"):
            self._send(_refusal(HTTPStatus.BAD_REQUEST))
        elif parts[0] not in _METHODS:
            self._send(_refusal(HTTPStatus.METHOD_NOT_ALLOWED, allow="GET, HEAD"))
        else:
            path = parts[1].partition(b"?")[0].decode("latin-1")
            self._answering = self._loop.create_task(self._find(path, parts[0] == b"GET"))

    async def _find(self, path: str, has_body: bool) -> None:
        page = await self._pages(path)
        self._answering = None
        self._send(page or _refusal(HTTPStatus.NOT_FOUND), has_body=has_body)

    def _send(self, page: Page, *, has_body: bool = True) -> None:
        self._is_answered = True
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(_head(page) + (page.body if has_body else b""))
        # What is written leaves first; the deadline ends that, too.
        self._transport.close()


def _refusal(status: HTTPStatus, *, allow: str = "") -> Page:
    return Page(f"{status.phrase}\n".encode(), status, allow=allow)


def _head(page: Page) -> bytes:
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        *([f"Allow: {page.allow}"] if page.allow else []),
        "Cache-Control: no-store",
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1")
