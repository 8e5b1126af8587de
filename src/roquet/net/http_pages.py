"""A minimal HTTP server for monitoring: GET, a response, and the connection is closed.

    GET /metrics HTTP/1.1\r\n        request line and headers: 8 KiB at most, of which only the
    Host: 127.0.0.1:9877\r\n         request line means anything here
    \r\n

No authentication, nothing can be changed, and a connection holds one of a few places for a few
seconds at most, whatever it sends, or does not send or read. When all places are taken, a
connection without a request yet is closed for a new one: probes of a supervisor are answered
however many idle connections there are.
"""

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, Self, cast, final

import msgspec

from roquet.net.errors import AddressTaken
from roquet.net.listening import Listener, at_free_port, may_keep
from roquet.throttled_log import PERIOD_S, ThrottledLog

log = logging.getLogger(__name__)

HEAD_SIZE_MAX: Final = 8192
CONNECTION_COUNT_MAX: Final = 256
# Of those, requests in progress and responses that are not read yet.
ANSWER_COUNT_MAX: Final = 32
# This many connections may have one of the last descriptors of the process.
RESERVED_COUNT: Final = 16
# From the accepted connection to the end of the request.
REQUEST_S_MAX: Final = 5.0
# From there to the last byte of the response.
EXCHANGE_S_MAX: Final = 10.0

_END_OF_HEAD: Final = b"\r\n\r\n"
_PLAIN_TEXT: Final = "text/plain; charset=utf-8"
_METHODS: Final = (b"GET", b"HEAD")
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0")


class Page(msgspec.Struct, frozen=True):
    """A response."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _PLAIN_TEXT
    allow: str = ""


Pages = Callable[[str], Awaitable[Page | None]]
"""The page of a path, without its query; None if there is none."""


class Place(NamedTuple):
    """One of the places that connections hold."""

    ip: str
    # Whether the peer has to act: to send a request, or to read.
    is_waited_for: bool


def to_give_way(places: Collection[Place]) -> int | None:
    """The index of the place, oldest first, that is freed for another one; None if none is.

    Of those whose peer has to act, the oldest one of the address that holds the most.
    """
    held = Counter(place.ip for place in places)
    waiting = [
        (-held[place.ip], index) for index, place in enumerate(places) if place.is_waited_for
    ]
    return min(waiting)[1] if waiting else None


@final
class HttpPort:
    """Made by `open`. Responds until `close`."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._listener: Listener | None = None
        # In the order of their connections.
        self.exchanges: dict[_Exchange, None] = {}
        self._log = ThrottledLog(log, asyncio.get_running_loop().time, PERIOD_S)
        self._log_flush: asyncio.TimerHandle | None = None
        self.refused_count = 0
        self.cut_off_count = 0

    @classmethod
    async def open(cls, host: str, port: int, pages: Pages) -> tuple[Self, int]:
        """With its port: 0 takes any. Raises OSError, such as AddressTaken."""
        self = cls(pages)
        return self, await self._listen(host, port)

    async def _listen(self, host: str, port: int) -> int:
        if port == 0:
            return await at_free_port(host, partial(self._listen, host))
        try:
            self._listener = await Listener.open(
                host, port, lambda: _Exchange(self, self._pages), self._pause
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressTaken(host, port) from None
            raise
        return port

    async def close(self) -> None:
        """Aborts requests that are not answered yet."""
        if self._listener is not None:
            await self._listener.close()
        if self._log_flush is not None:
            self._log_flush.cancel()
        for exchange in tuple(self.exchanges):
            exchange.abort()

    def take(self, exchange: "_Exchange", descriptor: int) -> bool:
        """Gives a new connection a place, if necessary that of another one."""
        # A few of them may have one of the last descriptors.
        is_one_of_few = len(self.exchanges) < RESERVED_COUNT
        if not may_keep(descriptor, is_local=is_one_of_few):
            return self._refuse(exchange, "descriptors are reserved for files (ulimit -n)")
        if len(self.exchanges) >= CONNECTION_COUNT_MAX and not self._has_freed(self.exchanges):
            return self._refuse(exchange, f"{CONNECTION_COUNT_MAX} connections are open")
        self.exchanges[exchange] = None
        return True

    def may_answer(self, exchange: "_Exchange") -> bool:
        """Whether there is a place among the responses, which may be large."""
        answers = [each for each in self.exchanges if each.has_asked]
        if len(answers) < ANSWER_COUNT_MAX or self._has_freed(answers):
            return True
        return self._refuse(exchange, f"{ANSWER_COUNT_MAX} requests are being answered")

    def leave(self, exchange: "_Exchange") -> None:
        self.exchanges.pop(exchange, None)

    def _has_freed(self, places: "Collection[_Exchange]") -> bool:
        exchanges = tuple(places)
        index = to_give_way([each.place for each in exchanges])
        if index is None:
            return False
        oldest = exchanges[index]
        self.cut_off_count += 1
        self._warn(
            "disconnecting",
            f"{len(self.exchanges)} HTTP connections are open (--http): disconnecting"
            f" {oldest.place.ip}, which has not sent a request or does not read",
        )
        del self.exchanges[oldest]
        oldest.abort()
        return True

    def _refuse(self, exchange: "_Exchange", reason: str) -> bool:
        self.refused_count += 1
        self._warn("refusing", f"refusing the HTTP connection of {exchange.place.ip}: {reason}")
        return False

    def _pause(self, error: OSError) -> None:
        self._warn(
            "pausing",
            f"no HTTP connections are accepted for a second: {error.strerror} (ulimit -n)",
        )

    def _warn(self, key: str, text: str) -> None:
        self._log.warning(key, text)
        if self._log_flush is None:
            self._log_flush = asyncio.get_running_loop().call_later(PERIOD_S, self._flush_log)

    def _flush_log(self) -> None:
        self._log_flush = None
        self._log.flush()


@final
class _Exchange(asyncio.Protocol):
    """One connection: one request, one response."""

    def __init__(self, port: HttpPort, pages: Pages) -> None:
        self._port = port
        self._pages = pages
        self._ip = ""
        self._loop = asyncio.get_running_loop()
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # A peer that is gone already has no address any more.
        peer = transport.get_extra_info("peername")
        self._ip = peer[0] if peer else "a peer"
        if self._port.take(self, transport.get_extra_info("socket").fileno()):
            self._deadline = self._loop.call_later(REQUEST_S_MAX, self.abort)
        else:
            self._transport.abort()

    @property
    def place(self) -> Place:
        return Place(self._ip, is_waited_for=self._answering is None)

    @property
    def has_asked(self) -> bool:
        return self._answering is not None or self._is_answered

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._is_answered:
            return  # Bytes after the head are ignored.
        self._head += data[: HEAD_SIZE_MAX + 1 - len(self._head)]
        if _END_OF_HEAD in self._head:
            self._answer(bytes(self._head).split(b"\r\n", 1)[0])
        elif len(self._head) > HEAD_SIZE_MAX:
            self._send(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def eof_received(self) -> bool:
        # Some clients close their side after the request, and still read the response.
        return self._answering is not None

    def connection_lost(self, _error: Exception | None) -> None:
        self._port.leave(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, request_line: bytes) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(EXCHANGE_S_MAX, self.abort)
        parts = request_line.split(b" ")
        if len(parts) != 3 or parts[2] not in _VERSIONS or not parts[1].startswith(b"/"):
            self._send(_refusal(HTTPStatus.BAD_REQUEST))
        elif parts[0] not in _METHODS:
            self._send(_refusal(HTTPStatus.METHOD_NOT_ALLOWED, allow="GET, HEAD"))
        elif not self._port.may_answer(self):
            self._send(_refusal(HTTPStatus.SERVICE_UNAVAILABLE))
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
        # Sends what is written first; the deadline limits that, too.
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
