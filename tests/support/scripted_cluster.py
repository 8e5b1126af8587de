"""A name server and brokers on real sockets that answer sends as a test scripts them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from roquet.clock import SystemClock
from roquet.net.errors import Refused
from roquet.net.router import Answer, Deferred, Reply, Request, Router, on
from roquet.net.serving import Server
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.clients import Heartbeat
from roquet.protocol.bodies.name_server import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRoute,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import AddressedHeader, NoFields, field_texts
from roquet.protocol.headers.groups import UnregisterClientHeader, UpdateConsumerOffsetHeader
from roquet.protocol.headers.messages import (
    SendBackHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
    ViewMessageHeader,
)
from roquet.protocol.headers.name_server import GetRouteHeader

Script = Callable[["ScriptedBroker", Request[SendMessageHeaderV2]], Answer]


def accept(broker: "ScriptedBroker", request: Request[SendMessageHeaderV2]) -> Reply:
    return stored(broker, request, ResponseCode.SUCCESS)


def refuse(code: ResponseCode, remark: str = "not today") -> Script:
    def script(_broker: "ScriptedBroker", _request: Request[SendMessageHeaderV2]) -> Answer:
        raise Refused(code, remark)

    return script


def answer_late(code: ResponseCode) -> Script:
    """Stored, but with a code for: not as safely as promised."""
    return lambda broker, request: stored(broker, request, code)


def stay_silent(broker: "ScriptedBroker", request: Request[SendMessageHeaderV2]) -> Answer:
    parked = Deferred(request)
    broker.parked.append((parked, request))
    return parked


def hang_up(_broker: "ScriptedBroker", request: Request[SendMessageHeaderV2]) -> Answer:
    request.connection.abort("as scripted")
    return Reply()


def in_turn(*scripts: Script) -> Script:
    """One answer after the other, and no more than these."""
    left = iter(scripts)

    def script(broker: "ScriptedBroker", request: Request[SendMessageHeaderV2]) -> Answer:
        return next(left)(broker, request)

    return script


def stored(
    broker: "ScriptedBroker", request: Request[SendMessageHeaderV2], code: ResponseCode
) -> Reply:
    header = SendMessageReplyHeader(
        msg_id="7F00000100002A9F0000000000000000",
        queue_id=request.header.queue_id,
        queue_offset=next(broker.offsets),
    )
    return Reply(code, header)


@dataclass
class ScriptedBroker:
    """`script` answers sends; the lists are what came. `readable` is the record it shows."""

    name: str
    script: Script = accept
    port: int = 0
    readable: bytes | None = None
    sends: list[Command] = field(default_factory=list)
    headers: list[SendMessageHeaderV2] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)
    beat_fields: list[dict[str, str]] = field(default_factory=list)
    leavers: list[UnregisterClientHeader] = field(default_factory=list)
    parked: list[tuple[Deferred, Request[SendMessageHeaderV2]]] = field(default_factory=list)
    offsets: "count[int]" = field(default_factory=count)
    # Commits wait for the test to answer them.
    commits: list[tuple[Deferred, UpdateConsumerOffsetHeader]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer_parked(self) -> None:
        """Those it was silent to, at last."""
        for parked, request in self.parked:
            parked.answer(accept(self, request))
        self.parked.clear()


@dataclass
class ScriptedNames:
    """Knows one route, for whichever topic, unless `unknown` has it."""

    route: TopicRoute
    port: int = 0
    asked: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass
class ScriptedCluster:
    names: ScriptedNames
    brokers: list[ScriptedBroker]
    _servers: list[Server] = field(default_factory=list)

    @property
    def name_server(self) -> str:
        return self.names.address

    async def stop_names(self) -> None:
        await self._servers[0].stop()

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()


@asynccontextmanager
async def scripted_cluster(*names: str, queue_count: int = 2) -> AsyncIterator[ScriptedCluster]:
    """A cluster with brokers of these names, each with that many queues."""
    brokers = [ScriptedBroker(name) for name in names]
    cluster = ScriptedCluster(ScriptedNames(TopicRoute()), brokers)
    servers = cluster._servers
    servers.append(Server(Router(cluster.names, _NAME_ROUTES), SystemClock()))
    cluster.names.port = await servers[0].start("127.0.0.1", 0)
    for broker in brokers:
        servers.append(Server(Router(broker, _BROKER_ROUTES), SystemClock()))
        broker.port = await servers[-1].start("127.0.0.1", 0)
    cluster.names.route = TopicRoute(
        broker_datas=[
            BrokerData(broker_name=each.name, broker_addrs={0: each.address}) for each in brokers
        ],
        queue_datas=[
            QueueData(
                broker_name=each.name, read_queue_nums=queue_count, write_queue_nums=queue_count
            )
            for each in brokers
        ],
    )
    try:
        yield cluster
    finally:
        await cluster.stop()


def _find_route(names: ScriptedNames, request: Request[GetRouteHeader]) -> Reply:
    topic = request.header.topic
    names.asked.append(topic)
    if topic in names.unknown:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"no {topic}")
    return Reply(body=write_body(names.route))


def _tell_brokers(names: ScriptedNames, _request: Request[NoFields]) -> Reply:
    brokers = {each.broker_name: each for each in names.route.broker_datas}
    return Reply(body=write_body(ClusterInfo(broker_addr_table=brokers)))


def _send(broker: ScriptedBroker, request: Request[SendMessageHeaderV2]) -> Answer:
    broker.sends.append(request.command)
    broker.headers.append(request.header)
    return broker.script(broker, request)


def _beat(broker: ScriptedBroker, request: Request[AddressedHeader]) -> Reply:
    broker.beats.append(read_body(Heartbeat, request.body))
    broker.beat_fields.append(field_texts(request.command.fields))
    return Reply()


def _leave(broker: ScriptedBroker, request: Request[UnregisterClientHeader]) -> Reply:
    broker.leavers.append(request.header)
    return Reply()


def _commit(broker: ScriptedBroker, request: Request[UpdateConsumerOffsetHeader]) -> Answer:
    deferred = Deferred(request)
    broker.commits.append((deferred, request.header))
    return deferred


def _send_back(_broker: ScriptedBroker, _request: Request[SendBackHeader]) -> Reply:
    raise Refused(ResponseCode.SYSTEM_ERROR, "not confirmed by a slave in time, but stored")


def _view(broker: ScriptedBroker, _request: Request[ViewMessageHeader]) -> Reply:
    if broker.readable is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, "not readable yet")
    return Reply(body=broker.readable)


_NAME_ROUTES = (
    on(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader, _find_route),
    on(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields, _tell_brokers),
)
_BROKER_ROUTES = (
    on(RequestCode.SEND_MESSAGE_V2, SendMessageHeaderV2, _send),
    on(RequestCode.SEND_BATCH_MESSAGE, SendMessageHeaderV2, _send),
    on(RequestCode.CONSUMER_SEND_MSG_BACK, SendBackHeader, _send_back),
    on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader, _view),
    on(RequestCode.HEART_BEAT, AddressedHeader, _beat),
    on(RequestCode.UNREGISTER_CLIENT, UnregisterClientHeader, _leave),
    on(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetHeader, _commit),
)
