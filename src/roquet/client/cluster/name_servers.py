"""Calls to name servers: all of them have the same data, so any one will do."""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

from roquet.client.arguments import check_text
from roquet.client.errors import BadAddress, BadArgument, NoNameServer
from roquet.net.address_server import NameServerSource, read_source
from roquet.net.errors import BadAddress as NetBadAddress, NetError
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header

log = logging.getLogger(__name__)

# From address, code, header and timeout of a request to its reply; raises NetError.
Ask = Callable[[str, RequestCode, Header, float], Awaitable[Command]]


ENVIRONMENT_NAME: Final = "NAMESRV_ADDR"
# A server that does not support these is no name server.
_ALWAYS_SUPPORTED: Final = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)
_NONE_NAMED: Final = "the address server has not named any yet"
_NOT_SUPPORTED: Final = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def name_server_source(text: str | None, unit: str | None = None) -> NameServerSource:
    """Parses `name_server`; None takes NAMESRV_ADDR of the environment, as Java does.

    Raises BadArgument or BadAddress.
    """
    if text is None:
        text = os.environ.get(ENVIRONMENT_NAME)
        if not text:
            raise BadArgument(
                f"`name_server` is None, and {ENVIRONMENT_NAME} is not set", "name_server"
            )
    check_text("name_server", text)
    if "," in text:
        raise BadAddress(text, ": several of them are joined by semicolons")
    if "://" in text and not text.strip().startswith(("http://", "https://")):
        raise BadAddress(text, ", without a scheme: only an address server has one, http://")
    try:
        source = read_source(text, unit)
    except NetBadAddress as error:
        raise BadAddress(error.text) from None
    if source == NameServerSource():
        raise BadArgument("`name_server` is empty; it must be host:port", "name_server")
    return source


@final
class NameServers:
    """Stays with one name server until it fails, so that replies do not alternate."""

    def __init__(self, ask: Ask, addresses: Sequence[str]) -> None:
        self._ask = ask
        # Many clients with one configuration must not all start with the same server.
        self._addresses = random.sample(addresses, len(addresses))

    @property
    def addresses(self) -> tuple[str, ...]:
        """In the order in which they are asked."""
        return tuple(self._addresses)

    def use(self, addresses: Sequence[str]) -> None:
        """Replaces the addresses; the current server stays current if it is among them."""
        if set(addresses) == set(self._addresses):
            return
        now = self._addresses[:1]
        self._addresses = random.sample(addresses, len(addresses))
        if now and now[0] in self._addresses:
            self._addresses.remove(now[0])
            self._addresses.insert(0, now[0])
        log.info("name servers changed to %s", ", ".join(self._addresses))

    async def call(self, code: RequestCode, header: Header, timeout_s: float) -> Command:
        """The reply, whatever its code. Raises NoNameServer when none answers in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        reasons: list[str] = [] if self._addresses else [_NONE_NAMED]
        for tried_count, address in enumerate(tuple(self._addresses)):
            # A server that does not answer must leave time for the others.
            share_s = (deadline_s - loop.time()) / (len(self._addresses) - tried_count)
            try:
                reply = await self._ask(address, code, header, share_s)
            except NetError as error:
                reasons.append(str(error))
            else:
                if code not in _ALWAYS_SUPPORTED or reply.code != _NOT_SUPPORTED:
                    return reply
                reasons.append(
                    f"{address} is no name server but probably a broker: name servers listen at "
                    "port 9876 by default"
                )
            self._switch_from(address)
        raise NoNameServer(reasons)

    def _switch_from(self, address: str) -> None:
        # Of many calls that fail at the same time only the first one switches.
        if len(self._addresses) > 1 and self._addresses[0] == address:
            self._addresses.append(self._addresses.pop(0))
            log.warning("name server %s failed, switching to %s", address, self._addresses[0])
