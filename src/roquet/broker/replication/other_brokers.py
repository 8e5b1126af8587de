"""Other brokers, mostly of the same name, as name servers and those brokers report them.

Everything here is best effort: a server that does not answer, or answers something else, is left
out. The decisions are in `succession`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar, final

import msgspec

from roquet.access.accounts import OwnAccount, request_of
from roquet.broker.registration import OwnIdentity
from roquet.broker.replication.replica_progress import do_nothing
from roquet.broker.settings.config import BrokerRole
from roquet.errors import RoquetError
from roquet.net.peers import Peers
from roquet.protocol.bodies.body import Body, DataVersion, read_body, write_body
from roquet.protocol.bodies.name_server import ClusterInfo, KvTable, TopicRoute
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, NoFields, header_reader
from roquet.protocol.headers.name_server import (
    GetRouteHeader,
    QueryDataVersionHeader,
    QueryDataVersionReplyHeader,
)
from roquet.protocol.headers.topics import GetTopicConfigHeader

_TIMEOUT_S: Final = 1.0
_MASTER_ID: Final = 0
_DIGITS_MAX: Final = 18

_read_latest = header_reader(QueryDataVersionReplyHeader)

B = TypeVar("B", bound=Body)


class OtherBroker(msgspec.Struct, frozen=True):
    """Another broker of this name. What it does not report is 0."""

    address: str
    epoch: int  # in which its log was written last
    log_end: int = 0
    # Whether it has answered itself, as a master; otherwise a name server has reported this, or
    # it is a slave by now.
    is_master: bool = True


@final
class OtherBrokers:
    """Belongs to the event loop. `identity` is that of this broker, which is left out."""

    def __init__(
        self,
        peers: Peers,
        account: OwnAccount | None,
        identity: OwnIdentity,
        name_servers: Callable[[], Sequence[str]],
    ) -> None:
        self.peers = peers
        self._account = account
        self.identity = identity
        self._name_servers = name_servers
        # Called when a name server does not know this broker, nor another master of its name: it
        # was restarted, and should be able to answer the next request for it.
        self.on_unknown: Callable[[], None] = do_nothing

    async def masters(self) -> list[OtherBroker]:
        """Those that name servers have as the master of this name, instead of this broker."""
        found = await asyncio.gather(*map(self._master_at, self._name_servers()))
        return [each for each in found if each is not None]

    async def all(self) -> list[OtherBroker]:
        """All that are registered under this name and answer."""
        found = await asyncio.gather(*map(self._asked, await self.addresses()))
        return [each for each in found if each is not None]

    async def addresses(self) -> dict[str, int]:
        """Of all that are registered under this name: address -> broker id."""
        code = RequestCode.GET_BROKER_CLUSTER_INFO
        answers = await asyncio.gather(
            *(self._body(each, code, NoFields(), ClusterInfo) for each in self._name_servers())
        )
        groups = (
            answer.broker_addr_table.get(self.identity.broker_name)
            for answer in answers
            if answer is not None
        )
        addresses = [each.broker_addrs for each in groups if each is not None]
        return self._without_own(addresses)

    async def route_of(self, topic: str) -> TopicRoute | None:
        """What the first name server that knows the topic has of it."""
        code, header = RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic)
        for name_server in self._name_servers():
            route = await self._body(name_server, code, header, TopicRoute)
            if route is not None:
                return route
        return None

    async def topic_at(self, address: str, topic: str) -> TopicConfig | None:
        """What another broker has of a topic."""
        header = GetTopicConfigHeader(topic=topic)
        return await self._body(address, RequestCode.GET_TOPIC_CONFIG, header, TopicConfig)

    async def _master_at(self, name_server: str) -> OtherBroker | None:
        """The latest that a name server of ours knows; of another one, the one in its routes."""
        latest = await self._latest_at(name_server) or await self._routed_at(name_server)
        if latest is None or latest.address == self.identity.address:
            return None
        return await self._asked(latest.address) or latest

    async def _latest_at(self, name_server: str) -> OtherBroker | None:
        header = QueryDataVersionHeader(
            broker_name=self.identity.broker_name,
            broker_addr=self.identity.address,
            cluster_name=self.identity.cluster,
            broker_id=_MASTER_ID,
        )
        # Another version than this broker can have: the request does not count as a heartbeat.
        body = write_body(DataVersion(timestamp=-1))
        reply = await self._reply(name_server, RequestCode.QUERY_DATA_VERSION, header, body)
        if reply is None:
            return None
        answer = _read_latest(reply.fields)
        if answer.latest_master_addr is None or answer.latest_master_epoch is None:
            if not reply.body:
                self.on_unknown()
            return None
        return OtherBroker(answer.latest_master_addr, answer.latest_master_epoch, is_master=False)

    async def _routed_at(self, name_server: str) -> OtherBroker | None:
        # Every broker has a topic of its own name, and its route is short.
        header = GetRouteHeader(topic=self.identity.broker_name)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        route = await self._body(name_server, code, header, TopicRoute)
        groups = route.broker_datas if route is not None else ()
        own = [each.broker_addrs for each in groups if self._is_own_name(each.broker_name)]
        found = self._without_own(own)
        address = next((each for each, number in found.items() if number == _MASTER_ID), None)
        return None if address is None else OtherBroker(address, 0, is_master=False)

    def _is_own_name(self, name: str | None) -> bool:
        return name == self.identity.broker_name

    def _without_own(self, tables: Iterable[dict[int, str]]) -> dict[str, int]:
        return {
            address: number
            for table in tables
            for number, address in table.items()
            if address != self.identity.address
        }

    async def _asked(self, address: str) -> OtherBroker | None:
        code = RequestCode.GET_BROKER_RUNTIME_INFO
        info = await self._body(address, code, NoFields(), KvTable)
        if info is None:
            return None
        return OtherBroker(
            address,
            _number(info.table.get("replicationEpoch")),
            _number(info.table.get("commitLogMaxOffset")),
            is_master=info.table.get("brokerRole") != BrokerRole.SLAVE.value,
        )

    async def _body(
        self, address: str, code: RequestCode, header: Header, kind: type[B]
    ) -> B | None:
        """None without a proper answer."""
        reply = await self._reply(address, code, header)
        try:
            return read_body(kind, reply.body) if reply is not None and reply.body else None
        except RoquetError:
            return None

    async def _reply(
        self, address: str, code: RequestCode, header: Header, body: bytes = b""
    ) -> Command | None:
        request = request_of(self._account, code, header, body)
        try:
            reply = await self.peers.call(address, request, _TIMEOUT_S)
        except RoquetError:
            return None
        return reply if reply.code == ResponseCode.SUCCESS else None


def _number(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if text is not None and is_number else 0
