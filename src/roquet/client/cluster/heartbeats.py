"""Heartbeats register a client at brokers and keep it registered; closing unregisters it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple, final

from roquet.client.cluster.requests import Requests
from roquet.net.connection import Connection
from roquet.net.errors import NetError
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import Heartbeat
from roquet.protocol.codes import VERSION_5_0_0, RequestCode, ResponseCode
from roquet.protocol.command import OUR_LANGUAGE
from roquet.protocol.fields import AddressedHeader
from roquet.protocol.headers.groups import UnregisterClientHeader

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 3.0


class _Kind(NamedTuple):
    """The implementation of a broker, as its reply names it."""

    version: int
    language: str | None


@final
class Heartbeats:
    """Sends `heartbeat` to `addresses`; setting `is_wanted` sends it soon."""

    def __init__(
        self,
        requests: Requests,
        addresses: Callable[[], Collection[str]],
        heartbeat: Callable[[], Heartbeat],
        is_wanted: asyncio.Event,
    ) -> None:
        self._requests = requests
        self._addresses = addresses
        self._heartbeat = heartbeat
        self._is_wanted = is_wanted
        self._kinds: dict[str, _Kind] = {}
        # A broker forgets a client with its connection.
        self._registered: dict[str, Connection | None] = {}

    async def keep_beating(self, period_s: float) -> None:
        """Runs for ever: sends heartbeats when wanted and after each period."""
        while True:
            try:
                async with asyncio.timeout(period_s):
                    await self._is_wanted.wait()
            except TimeoutError:
                pass
            self._is_wanted.clear()
            await self.beat()

    async def beat(self) -> None:
        """Sends a heartbeat to all brokers. One that it does not reach gets the next one."""
        heartbeat = self._heartbeat()
        # A client without groups is not registered.
        if heartbeat.producer_data_set or heartbeat.consumer_data_set:
            await self._send_all("heartbeat", self._addresses(), self._beat)

    async def has_timers(self, address: str, timeout_s: float) -> bool:
        """Whether the broker delays messages to any moment; 4.9 would deliver them at once.

        Raises NetError when the broker is not known yet and does not answer.
        """
        if address not in self._kinds:
            await self._beat(address, timeout_s)
        version, language = self._kinds[address]
        # A Roquet broker reports itself as 4.9, so that no peer expects 5.x of it, but has timers.
        return version >= VERSION_5_0_0 or language == OUR_LANGUAGE

    async def ensure_registered(self, address: str, timeout_s: float) -> None:
        """Returns when the broker knows the client of this connection. Raises NetError."""
        connection = self._requests.peers.open_connection(address)
        if connection is None or connection is not self._registered.get(address):
            await self._beat(address, timeout_s)

    def forget_registered(self) -> None:
        """A client joined that no broker knows yet."""
        self._registered.clear()

    async def leave(self, heartbeat: Heartbeat, addresses: Collection[str]) -> None:
        """Unregisters its groups at these brokers, within a limited time."""
        await self._send_all(
            "unregister request", addresses, lambda each: self._leave(each, heartbeat)
        )

    async def _send_all(
        self, what: str, addresses: Collection[str], send: Callable[[str], Awaitable[None]]
    ) -> None:
        addresses = sorted(addresses)
        results = await asyncio.gather(*map(send, addresses), return_exceptions=True)
        for address, result in zip(addresses, results, strict=True):
            if isinstance(result, NetError):
                log.info("%s to %s failed: %s", what, address, result)
            elif result is not None:
                raise result

    async def _beat(self, address: str, timeout_s: float = _TIMEOUT_S) -> None:
        body = write_body(self._heartbeat())
        reply = await self._requests.call(
            address, RequestCode.HEART_BEAT, AddressedHeader(), timeout_s, body
        )
        if reply.code != ResponseCode.SUCCESS:
            log.warning("%s refused a heartbeat: %d %s", address, reply.code, reply.remark)
        self._kinds[address] = _Kind(reply.version, reply.language)
        self._registered[address] = self._requests.peers.open_connection(address)

    async def _leave(self, address: str, heartbeat: Heartbeat) -> None:
        client_id = heartbeat.client_id
        headers = [
            UnregisterClientHeader(client_id=client_id, producer_group=each.group_name)
            for each in heartbeat.producer_data_set
        ]
        headers += [
            UnregisterClientHeader(client_id=client_id, consumer_group=each.group_name)
            for each in heartbeat.consumer_data_set
        ]
        for header in headers:
            await self._requests.call(address, RequestCode.UNREGISTER_CLIENT, header, _TIMEOUT_S)
