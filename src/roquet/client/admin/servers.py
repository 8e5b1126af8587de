"""The servers of a cluster as a tool sees them: all name servers, and brokers by name.

A tool asks each time, because its operator wants the current state. Names of topics
and groups are those that brokers know, with their namespace.

A question goes to all brokers at the same time. Usually the first failure is raised; for an answer
in part (`AdminServers.in_part`) it is noted in `MissingBrokers`, and the others' answers count.
Changes are never made in part silently.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict, TypeVar, final

from roquet.client.admin.missing import MissingBroker, MissingBrokers, lost_brokers
from roquet.client.arguments import check_timeout
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.pulling import Puller
from roquet.client.cluster.routes import MASTER_ID, Route
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import (
    BadArgument,
    NoBroker,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.names import unwrapped, wrapped
from roquet.clock import SystemClock
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import ClusterInfo
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import Header, NoFields
from roquet.protocol.names import TOOLS_GROUP

ADMIN_TIMEOUT_S: Final = 5.0

B = TypeVar("B")
T = TypeVar("T")

# The change is made, but not confirmed as the settings require.
_UNCONFIRMED: Final = frozenset(
    (
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    )
)


class AdminOptions(TypedDict, total=False):
    """Options of an admin besides its name server; `AdminConfig` explains them."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """Settings of an `Admin`; its members are the options.

    For example:

        Admin("127.0.0.1:9876", timeout_s=30.0, credentials=Credentials("operator", "its secret"))
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # lists them; None takes NAMESRV_ADDR of the environment.
    name_server: str | None
    # Names of topics and groups are those inside it.
    namespace: str | None = None
    credentials: Credentials | None = None
    # True encrypts with the defaults of `TlsConfig`.
    tls: TlsConfig | bool = False
    # How long one server may take to answer.
    timeout_s: float = ADMIN_TIMEOUT_S

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        name_server_source(self.name_server)
        check_timeout("timeout_s", self.timeout_s)


class Master(NamedTuple):
    """The master of a broker name; for questions, the slave that answers while there is none."""

    broker_name: str
    address: str


@final
class AdminServers:
    """Requests raise Unreachable or NoNameServer without a response, else RequestRefused."""

    def __init__(self, instance: ClientInstance, config: AdminConfig) -> None:
        self.brokers = Brokers(
            instance.requests, instance.routes, config.timeout_s, asks_slaves=True
        )
        self.routes = instance.routes
        self.puller = Puller(instance.requests, instance.routes, TOOLS_GROUP, config.namespace)
        self.config = config
        self.clock = SystemClock()
        self.name_servers = instance.names
        # None unless answers in part are wanted.
        self.missing: MissingBrokers | None = None

    def in_part(self, missing: MissingBrokers) -> "AdminServers":
        """The same servers for answers in part: `missing` gets the brokers they are without."""
        view = copy(self)
        view.missing = missing
        return view

    def wire_name(self, name: str) -> str:
        return wrapped(self.config.namespace, name)

    def user_name(self, name: str) -> str:
        return unwrapped(self.config.namespace, name)

    def is_ours(self, name: str) -> bool:
        """Whether a topic or group, as brokers know it, is in this namespace."""
        return not self.config.namespace or self.user_name(name) != name

    async def call_name_server(self, code: RequestCode, header: Header) -> Command:
        """The reply of any name server: all of them have the same data."""
        reply = await self.name_servers.call(code, header, self.config.timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused("the name server", reply.code, reply.remark)
        return reply

    async def call_each_name_server(
        self, code: RequestCode, header: Header, body: bytes = b""
    ) -> list[Command]:
        """The replies of all name servers, which share no state."""
        try:
            return await asyncio.gather(
                *(
                    self.brokers.ask(address, code, header, body)
                    for address in self.name_servers.addresses
                )
            )
        except Unreachable as error:
            raise NoNameServer([error.reason]) from None

    async def name_server_body(self, body_type: type[B], code: RequestCode, header: Header) -> B:
        reply = await self.call_name_server(code, header)
        try:
            return read_body(body_type, reply.body)
        except ProtocolError as error:
            raise NoNameServer([f"invalid response: {error}"]) from None

    async def cluster_info(self) -> ClusterInfo:
        return await self.name_server_body(
            ClusterInfo, RequestCode.GET_BROKER_CLUSTER_INFO, NoFields()
        )

    async def masters(self, cluster: str | None = None, broker: str | None = None) -> list[Master]:
        """All masters, those of a cluster, or one. Raises NoBroker or BadArgument for none."""
        info = await self.cluster_info()
        found = [
            Master(name, data.broker_addrs[MASTER_ID])
            for name, data in sorted(info.broker_addr_table.items())
            if MASTER_ID in data.broker_addrs
            and broker in (None, name)
            and (cluster is None or name in info.cluster_addr_table.get(cluster, ()))
        ]
        if not found:
            wanted = [f"cluster {cluster!r}"] * (cluster is not None)
            wanted += [f"broker {broker!r}"] * (broker is not None)
            if not wanted:
                raise NoBroker
            where = " and ".join(wanted)
            raise BadArgument(
                f"name servers list no master of {where}; see `brokers()`",
                "cluster" if broker is None else "broker",
            )
        return found

    async def replicas(self) -> list[Master]:
        """Whom to ask about all brokers: masters, and slaves of those that have none now.

        Raises NoBroker when there are none.
        """
        await self.note_lost()
        table = (await self.cluster_info()).broker_addr_table
        found = self._replicas({name: data.broker_addrs for name, data in table.items()})
        if not found:
            raise NoBroker
        return found

    async def route(self, topic: str) -> Route:
        """The current route. Raises TopicNotFound."""
        await self.note_lost()
        route = await self.routes.newest(topic, self.config.timeout_s)
        if route is None:
            # Without brokers, the topics are unknown.
            await self.replicas()
            raise TopicNotFound(topic, "no broker has it")
        return route

    async def masters_of(self, topic: str) -> list[Master]:
        """Raises TopicNotFound."""
        return [Master(*each) for each in sorted((await self.route(topic)).masters.items())]

    async def replicas_of(self, topic: str) -> list[Master]:
        """Whom to ask about a topic. Raises TopicNotFound."""
        return self.replicas_in(await self.route(topic))

    def replicas_in(self, route: Route) -> list[Master]:
        return self._replicas(route.brokers)

    def _replicas(self, brokers: Mapping[str, Mapping[int, str]]) -> list[Master]:
        found = []
        for name, addresses in sorted(brokers.items()):
            broker_id = min(addresses)
            replica = Master(name, addresses[broker_id])
            found.append(replica)
            if broker_id != MASTER_ID and self.missing is not None:
                reason = "it has no master; a slave answers, which may lack the newest messages"
                self.missing.note(MissingBroker(*replica, Unreachable(name, reason)))
        return found

    async def note_lost(self) -> None:
        """In part: notes brokers that left without a word. They may have what is asked for."""
        missing = self.missing
        if missing is None:
            return
        async with missing.looking_for_lost:
            if not missing.has_lost:
                for each in await self._lost():
                    missing.note(each)
                missing.has_lost = True

    async def _lost(self) -> list[MissingBroker]:
        """Without those that have another replica: it answers, or is noted as a slave."""
        registered = (await self.cluster_info()).broker_addr_table
        return [
            MissingBroker(
                each.broker_name,
                each.address,
                Unreachable(
                    each.broker_name,
                    f"lost since {each.since.isoformat(' ', 'seconds')} ({each.reason})",
                ),
            )
            for each in await lost_brokers(self) or ()
            if each.broker_name not in registered
        ]

    async def ask_each(
        self, brokers: Iterable[Master], ask: Callable[[Master], Awaitable[T]]
    ) -> dict[str, T]:
        """The answers by broker name; all brokers are asked at the same time.

        In part: without those that do not answer, and those that refuse, unless all of them do.
        """
        missing = self.missing
        if missing is None:
            return await ask_all(brokers, ask)
        outcomes = await ask_all(brokers, lambda broker: _outcome(missing, broker, ask))
        answers, refused = {}, []
        for name, outcome in outcomes.items():
            if not isinstance(outcome, MissingBroker):
                answers[name] = outcome
            elif isinstance(outcome.error, RequestRefused):
                refused.append(outcome)
        if refused and not answers:
            raise refused[0].error
        for each in refused:
            missing.note(each)
        return answers


async def _outcome(
    missing: MissingBrokers, broker: Master, ask: Callable[[Master], Awaitable[T]]
) -> T | MissingBroker:
    known = missing.unreachable(broker.address)
    if known is not None:
        return known
    try:
        return await ask(broker)
    except Unreachable as error:
        failed = MissingBroker(*broker, error)
        missing.note_unreachable(failed)
        return failed
    except RequestRefused as error:
        return MissingBroker(*broker, error)


async def ask_all(brokers: Iterable[Master], ask: Callable[[Master], Awaitable[T]]) -> dict[str, T]:
    """The answers by broker name; all brokers are asked at the same time."""
    brokers = list(brokers)
    answers = await asyncio.gather(*map(ask, brokers))
    return {broker.broker_name: answer for broker, answer in zip(brokers, answers, strict=True)}


async def _nothing() -> None:
    pass


async def change_each(
    masters: Iterable[Master],
    change: Callable[[Master], Awaitable[object]],
    then: Callable[[], Awaitable[object]] = _nothing,
) -> None:
    """Makes a change at each master, and then calls `then`.

    A master that made the change without a replica to confirm it does not stop the others or
    `then`: its RequestRefused is raised at the end.
    """
    unconfirmed = []

    async def changed(master: Master) -> None:
        try:
            await change(master)
        except RequestRefused as refused:
            if refused.code not in _UNCONFIRMED:
                raise
            unconfirmed.append(refused)

    await ask_all(masters, changed)
    await then()
    if unconfirmed:
        raise unconfirmed[0]
