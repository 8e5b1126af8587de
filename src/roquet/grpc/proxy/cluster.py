"""What a proxy asks of its cluster: routes, settings of topics and groups, requests to brokers.

Settings are asked for again after some seconds; while no broker answers, the last ones stay in use.
What a cluster refuses, or does not answer, is a RefusedCall.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container
from typing import Final, Generic, NamedTuple, TypeVar, final

from roquet.client.cluster.brokers import reply_body
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.popping import Popper
from roquet.client.cluster.routes import MASTER_ID, Route, ask_cluster_info, masters_in
from roquet.client.denials import denial_in
from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.grpc.codes import Code, MessageType, RefusedCall, code_of
from roquet.grpc.names import missing_topic
from roquet.grpc.route_form import BrokerQueues, accepted_types
from roquet.net.errors import CallTimedOut, NetError, TooManyInFlight
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header
from roquet.protocol.headers.groups import GetGroupConfigHeader
from roquet.protocol.headers.topics import GetTopicConfigHeader

# Settings that are older are asked for again.
FRESH_S: Final = 10.0
CACHED_COUNT_MAX: Final = 20_000

# A broker of 4.x knows no types of topics, and no delivery times.
_TYPES_OF_4: Final = (MessageType.NORMAL, MessageType.FIFO, MessageType.TRANSACTION)
_NO_POP: Final = (
    "cannot do this: Apache 4.x has no POP, so SDKs of 5.x can send to it, but not receive; a"
    " broker of 5.x or of Roquet can"
)

T = TypeVar("T")


class _Cached(NamedTuple, Generic[T]):
    value: T
    asked_s: float


@final
class _Cache(Generic[T]):
    """By name; `ask` raises ClientError or NetError."""

    def __init__(self, ask: Callable[[str], Awaitable[T]]) -> None:
        self._ask = ask
        self._found: dict[str, _Cached[T]] = {}

    async def get(self, name: str) -> T:
        now_s = asyncio.get_running_loop().time()
        found = self._found.get(name)
        if found is not None and now_s - found.asked_s < FRESH_S:
            return found.value
        try:
            value = await self._ask(name)
        except (ClientError, NetError):
            if found is None:
                raise
            return found.value
        if len(self._found) >= CACHED_COUNT_MAX:
            self._found.pop(next(iter(self._found)), None)
        self._found[name] = _Cached(value, now_s)
        return value

    def forget(self, name: str) -> None:
        self._found.pop(name, None)


@final
class Cluster:
    """Methods raise RefusedCall, ClientError and NetError; `refusal_of` is for the latter two.

    `timeout_s` is how long a server may take to answer.
    """

    def __init__(self, instance: ClientInstance, timeout_s: float) -> None:
        self._instance = instance
        self._routes = instance.routes
        self._timeout_s = timeout_s
        self._types = _Cache(self._ask_types)
        self._groups = _Cache(self._ask_group)

    async def route(self, topic: str) -> Route:
        """The cached one, if there is one."""
        return self._routes.known(topic) or await self._found(topic)

    async def newest_route(self, topic: str) -> Route:
        """For clients that want to know now; without a name server the cached one."""
        try:
            return await self._found(topic, is_new=True)
        except NoNameServer:
            if (known := self._routes.known(topic)) is not None:
                return known
            raise

    async def _found(self, topic: str, *, is_new: bool = False) -> Route:
        find = self._routes.newest if is_new else self._routes.existing
        found = await find(topic)
        if found is not None:
            return found
        self._routes.forget(topic)
        self._types.forget(topic)
        if (doubt := await self._routes.doubt()) is not None:
            raise TopicNotFound(topic, doubt, is_missing=False)
        raise missing_topic(topic)

    def doubt_route(self, topic: str) -> None:
        """A broker of the cached route does not answer, or does not have the topic."""
        self._routes.renew_soon(topic)

    async def types(self, topic: str) -> tuple[MessageType, ...]:
        """What may be sent to a topic."""
        return await self._types.get(topic)

    async def group(self, name: str) -> GroupConfig | None:
        """None for one that no broker knows yet."""
        return await self._groups.get(name)

    async def has_timers(self, address: str) -> bool:
        """Whether a broker delivers at any time. Raises NetError."""
        return await self._instance.heartbeats.has_timers(address, self._timeout_s)

    def master(self, broker_name: str) -> str:
        """Its address, if a route names it. Raises Unreachable."""
        address = self._routes.broker(broker_name).get(MASTER_ID)
        if address is None:
            raise Unreachable(broker_name, "name servers list no master for it")
        return address

    def name_of(self, topic: str, address: str) -> str | None:
        """Of the master at this address."""
        route = self._routes.known(topic)
        masters = {} if route is None else route.masters
        return next((name for name, each in masters.items() if each == address), None)

    async def ask(
        self,
        broker_name: str,
        code: RequestCode,
        header: Header,
        body: bytes = b"",
        accepts: Container[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        return await self.ask_at(self.master(broker_name), code, header, body, accepts)

    async def ask_at(
        self,
        address: str,
        code: RequestCode,
        header: Header,
        body: bytes = b"",
        accepts: Container[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        requests = self._instance.requests
        reply = await requests.call(address, code, header, self._timeout_s, body)
        if reply.code not in accepts:
            raise RequestRefused(address, reply.code, reply.remark)
        return reply

    def popper(self, group: str) -> Popper:
        return Popper(self._instance.requests, self._routes, group, None, self._timeout_s)

    async def _ask_types(self, topic: str) -> tuple[MessageType, ...]:
        route = await self.route(topic)
        error: ClientError | NetError = Unreachable(topic, "no master of the topic is registered")
        for address in route.masters.values():
            try:
                if not await self.has_timers(address):
                    return _TYPES_OF_4
                header = GetTopicConfigHeader(topic=topic)
                reply = await self.ask_at(address, RequestCode.GET_TOPIC_CONFIG, header)
            except (NetError, RequestRefused) as failure:
                error = failure
                continue
            return accepted_types(reply_body(TopicConfig, reply, address).attributes)
        raise error

    async def _ask_group(self, name: str) -> GroupConfig | None:
        error: ClientError | NetError | None = None
        addresses: Collection[str] = self._routes.masters()
        if not addresses:
            addresses = masters_in(await ask_cluster_info(self._instance.names))
        for address in sorted(addresses):
            code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
            try:
                reply = await self.ask_at(address, code, GetGroupConfigHeader(group=name))
            except NetError as failure:
                error = failure
            except RequestRefused as refused:
                if denial_in(refused.remark) is not None:
                    raise
            else:
                return reply_body(GroupConfig, reply, address)
        if error is not None:
            raise error
        return None


def queues_of(route: Route) -> list[BrokerQueues]:
    """Of each broker. What can only be read may have no master."""
    return [
        BrokerQueues(
            name,
            sum(queue.broker_name == name for queue in route.readable),
            sum(queue.broker_name == name for queue in route.queues),
        )
        for name in sorted(route.masters)
    ]


def refusal_of(error: ClientError | NetError) -> RefusedCall:
    """The status that a client of the proxy gets."""
    match error:
        case RequestRefused():
            return _refused(error)
        case TopicNotFound(is_missing=True):
            return RefusedCall(Code.TOPIC_NOT_FOUND, str(error))
        case CallTimedOut() | Unreachable(__cause__=CallTimedOut()):
            return RefusedCall(Code.PROXY_TIMEOUT, str(error))
        case TooManyInFlight() | Unreachable(__cause__=TooManyInFlight()):
            return RefusedCall(Code.TOO_MANY_REQUESTS, str(error))
        case _:
            return RefusedCall(Code.INTERNAL_SERVER_ERROR, str(error))


def _refused(error: RequestRefused) -> RefusedCall:
    if denial_in(error.remark) is not None:
        text = f"the cluster denies it to the account of this proxy: {error}"
        return RefusedCall(Code.UNAUTHORIZED, text)
    if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return RefusedCall(Code.NOT_IMPLEMENTED, f"{error.address} {_NO_POP}")
    return RefusedCall(code_of(error.code), str(error))
