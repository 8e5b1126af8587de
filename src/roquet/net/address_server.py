"""Name server addresses: a list, or the URL of an address server that has one.

    10.0.0.1:9876;10.0.0.2:9876              these addresses
    http://10.0.0.1:9876                     the same, as hosted clusters write it
    http://addresses:8080/rocketmq/nsaddr    those in the first line of that page

The page is fetched again every two minutes. While that fails, the known addresses stay in use.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final
from urllib.parse import SplitResult, urlsplit

import msgspec

from roquet.errors import RoquetError
from roquet.net.addresses import split_address
from roquet.net.errors import BadAddress
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

ASK_PERIOD_S: Final = 120.0
# As long as no name server is known.
_AGAIN_S: Final = 1.0
_TIMEOUT_S: Final = 3.0
_PAGE_SIZE_MAX: Final = 64 * 1024
_SEPARATOR: Final = ";"
_SCHEMES: Final = ("http", "https")
_OK: Final = 200


class NameServerSource(msgspec.Struct, frozen=True):
    """`addresses` are fixed; `url` is the page of an address server, if configured."""

    addresses: tuple[str, ...] = ()
    url: str | None = None


class NoAddresses(RoquetError):
    """The address server returned no name server."""


def read_source(text: str, unit: str | None = None) -> NameServerSource:
    """Raises BadAddress. Clients of a unit have their own page."""
    parts = [part for part in map(str.strip, text.split(_SEPARATOR)) if part]
    if len(parts) == 1 and (url := _page_url(parts[0])) is not None:
        return NameServerSource((), url if unit is None else f"{url}-{unit}?nofix=1")
    addresses = [part.removeprefix("http://").removesuffix("/") for part in parts]
    for address in addresses:
        split_address(address)
    return NameServerSource(tuple(addresses))


def _page_url(text: str) -> str | None:
    """None for a text that is not the URL of a page. Raises BadAddress."""
    scheme, mark, rest = text.partition("://")
    host, _, path = rest.partition("/")
    if not mark or scheme not in _SCHEMES or not path:
        return None
    split_address(host if ":" in host else f"{host}:80")
    return text


@final
class AddressServer:
    """Passes the name servers of the page to `use`, whenever it is fetched."""

    def __init__(self, url: str, use: Callable[[tuple[str, ...]], None]) -> None:
        self._url = url
        self._use = use
        self._has_some = False
        self._log = ThrottledLog(log, asyncio.get_running_loop().time)

    async def ask(self) -> None:
        """Once; a failure is logged, throttled."""
        try:
            addresses = await asyncio.to_thread(_fetched, self._url)
        except (OSError, NoAddresses, BadAddress) as error:
            self._log.warning(None, f"no name servers from {self._url}, retrying: {error}")
            return
        self._has_some = True
        self._log.clear(None)
        self._use(addresses)

    async def keep_asking(self) -> None:
        """Periodically, more often while no address is known; forever."""
        while True:
            await asyncio.sleep(ASK_PERIOD_S if self._has_some else _AGAIN_S)
            await self.ask()


def _fetched(url: str) -> tuple[str, ...]:
    """Raises OSError, NoAddresses or BadAddress."""
    page = _page(urlsplit(url))
    first_line = page.decode(errors="replace").strip().partition("\n")[0]
    addresses = tuple(filter(None, map(str.strip, first_line.split(_SEPARATOR))))
    if not addresses:
        raise NoAddresses("the page is empty")
    for address in addresses:
        split_address(address)
    return addresses


def _page(url: SplitResult) -> bytes:
    """Blocks, for a limited time."""
    # Rarely needed, and programs start faster without it.
    from http.client import (  # noqa: PLC0415
        HTTPConnection,
        HTTPException,
        HTTPSConnection,
    )

    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", url.path + (f"?{url.query}" if url.query else ""))
        response = connection.getresponse()
        if response.status != _OK:
            raise NoAddresses(f"HTTP status {response.status} {response.reason}")
        return response.read(_PAGE_SIZE_MAX)
    except HTTPException as error:
        raise NoAddresses(f"invalid response: {error!r}") from None
    finally:
        connection.close()
