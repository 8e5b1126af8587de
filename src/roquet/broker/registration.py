"""Registration of the broker and its topics with every name server.

All name servers are called in parallel, at the start, after every change of a topic and at least
every 30 seconds. One that cannot be reached is tried again next time. That costs a warning, and so
does a broker that no name server knows: at once, then every ten minutes; recovery is logged, too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, final
from zlib import crc32

import msgspec

from roquet.access.accounts import OwnAccount, request_of
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.errors import RoquetError
from roquet.net.errors import NetError
from roquet.net.peers import Peers
from roquet.net.router import Reply, Request, on
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.name_server import BrokerRegistration, KvTable, endpoint_entry
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields, header_reader
from roquet.protocol.headers.name_server import (
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    UnregisterBrokerHeader,
)
from roquet.protocol.host import Address
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_UNREGISTER_TIMEOUT_S: Final = 3.0
_CRC_MASK: Final = 0x7FFF_FFFF
_REMINDER_S: Final = 600.0
_EVERYWHERE: Final = "everywhere"
_DUPLICATE: Final = "duplicate"

_read_answer = header_reader(RegisterBrokerReplyHeader)


def _brokers_changed(refresh: Callable[[], None], _request: Request[NoFields]) -> Reply:
    """A name server has, or has no more, another broker of this name and id."""
    refresh()
    return Reply()


# What name servers send, on the connections that the broker opens to them.
NOTICE_ROUTES: Final = (on(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, NoFields, _brokers_changed),)


class OwnIdentity(msgspec.Struct, frozen=True):
    """The identity of a broker in its cluster."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str  # where clients find it
    ha_address: str  # where replicas find it


def identity_of(config: BrokerConfig) -> OwnIdentity:
    host = config.advertised_host or config.bind_host
    ha_host = config.ha_advertised_host or host
    return OwnIdentity(
        config.cluster_name,
        config.broker_name,
        config.broker_id,
        str(Address(host, config.listen_port)),
        str(Address(ha_host, config.ha_port)),
    )


class Registered(msgspec.Struct, frozen=True):
    """What a name server answered."""

    order_topics: frozenset[str]  # topics an operator has declared ordered
    # For a slave whose master is registered: where clients and slaves find that master.
    master_address: str | None = None
    master_ha_address: str | None = None
    # Another broker that is registered under the same name and id.
    duplicate: str | None = None


class NotRegistered(RoquetError):
    def __init__(self, name_server: str, code: int, remark: str | None) -> None:
        super().__init__(f"{name_server} refused the registration: code {code}, {remark}")
        self.name_server = name_server
        self.code = code
        self.remark = remark


@final
class Registrar:
    """`topic_table` gives the topics as they are to be registered at the time of the call."""

    def __init__(
        self,
        peers: Peers,
        clock: Clock,
        name_servers: Sequence[str],
        identity: OwnIdentity,
        topic_table: Callable[[], TopicConfigTable],
        *,
        timeout_s: Callable[[], float],
        account: OwnAccount | None = None,
    ) -> None:
        self._peers = peers
        self._account = account
        self._name_servers = tuple(name_servers)
        self._identity = identity
        self._topic_table = topic_table
        self._timeout_s = timeout_s
        self._outages = ThrottledLog(log, clock.monotonic_s, _REMINDER_S)
        self._endpoint: Address | None = None
        self._is_stale = asyncio.Event()
        self._change_count = 0
        self._registered_count = 0
        self._round = asyncio.Lock()
        # Whether a name server took the last registration.
        self.is_known = False
        # Another broker registered under this one's name, as name servers answered last.
        self.duplicate: str | None = None

    @property
    def name_servers(self) -> Sequence[str]:
        return self._name_servers

    def use(self, name_servers: Sequence[str]) -> None:
        """From now on these; registers with new ones soon, and expires at the others."""
        if set(name_servers) != set(self._name_servers):
            self._name_servers = tuple(name_servers)
            log.info("name servers are %s now", ", ".join(self._name_servers))
            self.refresh_soon()

    def identify(self, identity: OwnIdentity) -> None:
        """From now on under this id, which is registered soon."""
        self._identity = identity
        self.refresh_soon()

    def register_endpoint(self, endpoint: Address) -> None:
        """Where clients of gRPC find this broker; registered soon."""
        self._endpoint = endpoint
        self.refresh_soon()

    @property
    def endpoint(self) -> Address | None:
        """Where clients of gRPC find this broker, as registered."""
        return self._endpoint

    def refresh_soon(self) -> None:
        """Topics have changed. Changes within a short time share one registration."""
        self._change_count += 1
        self._is_stale.set()

    @property
    def has_news(self) -> bool:
        """Whether topics have changed that are not registered with all name servers yet."""
        return self._registered_count < self._change_count

    async def until_registered(self) -> None:
        """Returns when all name servers that can be reached know of the changes so far.

        Calls during a round share the next one.
        """
        change_count = self._change_count
        async with self._round:
            if self._registered_count < change_count:
                await self.register()

    async def register(self) -> list[Registered]:
        """Registers with all name servers now; the answers of those that accepted it."""
        self._is_stale.clear()
        change_count = self._change_count
        endpoints = [] if self._endpoint is None else [endpoint_entry(str(self._endpoint))]
        registration = BrokerRegistration(filter_server_list=endpoints, topics=self._topic_table())
        body = write_body(registration)
        answers = await asyncio.gather(
            *(self._register_at(server, body) for server in self._name_servers)
        )
        self._registered_count = max(self._registered_count, change_count)
        taken = [answer for answer in answers if answer is not None]
        self._note_whether_known(is_known=bool(taken))
        self._note_duplicate(next((each.duplicate for each in taken if each.duplicate), None))
        return taken

    @property
    def conflict(self) -> str | None:
        """For people: that another broker is registered as this one."""
        if self.duplicate is None:
            return None
        identity = self._identity
        return (
            f"{self.duplicate} and {identity.address} are both registered as broker"
            f" {identity.broker_name} with id {identity.broker_id}: give one of them another"
            " brokerName or brokerId"
        )

    def _note_duplicate(self, address: str | None) -> None:
        self.duplicate = address
        if self.conflict is None:
            self._outages.clear(_DUPLICATE)
        else:
            self._outages.add(_DUPLICATE, self.conflict, level=logging.ERROR, count=0)

    async def keep_registered(
        self, period_s: Callable[[], float], on_registered: Callable[[list[Registered]], None]
    ) -> None:
        """Registers after every change, and at least every `period_s`; never returns."""
        while True:
            is_due = False
            try:
                async with asyncio.timeout(period_s()):
                    await self._is_stale.wait()
            except TimeoutError:
                is_due = True
            async with self._round:
                # Another caller may have registered meanwhile.
                if is_due or self._is_stale.is_set():
                    on_registered(await self.register())

    async def unregister(self) -> None:
        """The cluster forgets this broker at once instead of after two minutes."""
        identity = self._identity
        header = UnregisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            broker_id=identity.broker_id,
        )
        command = request_of(self._account, RequestCode.UNREGISTER_BROKER, header)
        await asyncio.gather(
            *(
                self._peers.call(server, command, _UNREGISTER_TIMEOUT_S)
                for server in self._name_servers
            ),
            # One that cannot be reached finds out by itself when our connection ends.
            return_exceptions=True,
        )

    async def _register_at(self, name_server: str, body: bytes) -> Registered | None:
        try:
            answer = await self._call(name_server, body)
        except RoquetError as error:
            # A condition that lasts: not logged every 30 seconds.
            text = f"not registered at {name_server}: {error}"
            self._outages.add(name_server, text, count=0)
            if not isinstance(error, NetError):
                self._peers.disconnect(name_server, "registration failed")
            return None
        if self._outages.clear(name_server):
            log.info("registered at %s again", name_server)
        return answer

    def _note_whether_known(self, *, is_known: bool) -> None:
        self.is_known = is_known
        addresses = ", ".join(self._name_servers) or "none is named in namesrvAddr"
        if is_known:
            if self._outages.clear(_EVERYWHERE):
                log.info("clients find this broker again")
        else:
            text = f"no name server knows this broker, so no client finds it: {addresses}"
            self._outages.add(_EVERYWHERE, text, count=0)

    async def _call(self, name_server: str, body: bytes) -> Registered:
        identity = self._identity
        header = RegisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            body_crc32=crc32(body) & _CRC_MASK,
        )
        command = request_of(self._account, RequestCode.REGISTER_BROKER, header, body)
        reply = await self._peers.call(name_server, command, self._timeout_s())
        if reply.code != ResponseCode.SUCCESS:
            raise NotRegistered(name_server, reply.code, reply.remark)
        orders = read_body(KvTable, reply.body).table if reply.body else {}
        answer = _read_answer(reply.fields)
        # 4.9 writes an empty text for what it does not know.
        return Registered(
            frozenset(orders),
            answer.master_addr or None,
            answer.ha_server_addr or None,
            answer.duplicate_addr or None,
        )
