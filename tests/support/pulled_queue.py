"""A broker with one queue on real sockets that returns as little as a stock one, or as set."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from roquet.clock import SystemClock
from roquet.net.router import Answer, Deferred, Reply, Request, Router, on
from roquet.net.serving import Server
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.name_server import BrokerData, QueueData, TopicRoute
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import (
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    SearchOffsetHeader,
)
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    PullMessageReplyHeader,
)
from roquet.protocol.headers.name_server import GetRouteHeader
from tests.support.drafts import draft

TOPIC = "orders"
BROKER_NAME = "stock"


def record(
    offset: int,
    body: bytes | None = None,
    properties: Mapping[str, str] | None = None,
    store_timestamp: int = 1_700_000_000_123,
) -> bytes:
    """A message of the queue; without a body it has its offset as a text."""
    body = b"%d" % offset if body is None else body
    made = draft(body, topic=TOPIC, properties=dict(properties or {}))
    buffer = bytearray(made.size)
    made.write(buffer, 0, offset, offset * 1000, store_timestamp)
    return bytes(buffer)


def records(count: int, body: bytes | None = None) -> dict[int, bytes]:
    return {offset: record(offset, body=body) for offset in range(count)}


@dataclass
class Replica:
    """`records` are by offset. Whom `is_wanted` does not want, its filter drops."""

    records: dict[int, bytes] = field(default_factory=dict)
    min_offset: int = 0
    max_offset: int | None = None
    count_max: int = 32
    size_max: int = 256 * 1024
    scan_count: int = 800
    is_wanted: Callable[[int], bool] | None = None
    broker_id: int = 0
    suggested_id: int = 0
    guess: int = 0  # what it answers to a search by time
    # Pulls wait until they are let go.
    is_holding: bool = False
    pulls: list[PullMessageHeader] = field(default_factory=list)
    held: list[tuple[Deferred, Request[PullMessageHeader]]] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def end(self) -> int:
        return len(self.records) if self.max_offset is None else self.max_offset

    def let_go(self) -> None:
        held, self.held = self.held, []
        for parked, request in held:
            parked.answer(self.reply(request.header))

    def reply(self, pull: PullMessageHeader) -> Reply:
        offset = pull.queue_offset
        if offset == self.end:
            return self._reply(ResponseCode.PULL_NOT_FOUND, offset)
        if not self.min_offset <= offset < self.end:
            code = ResponseCode.PULL_OFFSET_MOVED
            # A slave may be behind, so it redirects no pull.
            if self.broker_id:
                return self._reply(ResponseCode.PULL_RETRY_IMMEDIATELY, offset)
            return self._reply(code, self.min_offset if offset < self.min_offset else self.end)
        taken: list[bytes] = []
        size = 0
        for scanned in range(offset, min(self.end, offset + self.scan_count)):
            found = self.records.get(scanned, b"")
            if taken and (
                len(taken) >= min(pull.max_msg_nums, self.count_max)
                or size + len(found) > self.size_max
            ):
                break
            offset = scanned + 1
            if found and (self.is_wanted is None or self.is_wanted(scanned)):
                taken.append(found)
                size += len(found)
        if not taken:
            return self._reply(ResponseCode.PULL_RETRY_IMMEDIATELY, offset)
        return self._reply(ResponseCode.SUCCESS, offset, b"".join(taken))

    def _reply(self, code: ResponseCode, next_offset: int, body: bytes = b"") -> Reply:
        header = PullMessageReplyHeader(
            suggest_which_broker_id=self.suggested_id,
            next_begin_offset=next_offset,
            min_offset=self.min_offset,
            max_offset=self.end,
        )
        return Reply(code, header, body)


@dataclass
class PulledQueue:
    """The replicas of one broker, and who knows where they are."""

    replicas: Sequence[Replica]
    name_port: int = 0
    listed: list[Replica] = field(default_factory=list)
    _servers: dict[int, Server] = field(default_factory=dict)

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self.name_port}"

    async def start(self, replica: Replica) -> None:
        """Works again after `stop`, at the same address."""
        server = Server(Router(replica, _BROKER_ROUTES), SystemClock())
        replica.port = await server.start("127.0.0.1", replica.port)
        self._servers[replica.broker_id] = server

    async def stop(self, replica: Replica) -> None:
        server = self._servers.pop(replica.broker_id, None)
        if server is not None:
            await server.stop()


@asynccontextmanager
async def pulled_queue(*replicas: Replica) -> AsyncIterator[PulledQueue]:
    """The first one is the master."""
    queue = PulledQueue(replicas, listed=list(replicas))
    async with AsyncExitStack() as stack:
        names = Server(Router(queue, _NAME_ROUTES), SystemClock())
        queue.name_port = await names.start("127.0.0.1", 0)
        stack.push_async_callback(names.stop)
        for replica in replicas:
            await queue.start(replica)
            stack.push_async_callback(queue.stop, replica)
        yield queue


def _find_route(queue: PulledQueue, request: Request[GetRouteHeader]) -> Reply:
    addresses = {each.broker_id: each.address for each in queue.listed}
    route = TopicRoute(
        broker_datas=[BrokerData(broker_name=BROKER_NAME, broker_addrs=addresses)],
        queue_datas=[QueueData(broker_name=BROKER_NAME, read_queue_nums=1, write_queue_nums=1)],
    )
    return Reply(body=write_body(route))


def _pull(replica: Replica, request: Request[PullMessageHeader]) -> Answer:
    replica.pulls.append(request.header)
    if not replica.is_holding:
        return replica.reply(request.header)
    parked = Deferred(request)
    replica.held.append((parked, request))
    return parked


def _min_offset(replica: Replica, _request: Request[GetMinOffsetHeader]) -> Reply:
    return Reply(header=OffsetReplyHeader(offset=replica.min_offset))


def _max_offset(replica: Replica, _request: Request[GetMaxOffsetHeader]) -> Reply:
    return Reply(header=OffsetReplyHeader(offset=replica.end))


def _search(replica: Replica, _request: Request[SearchOffsetHeader]) -> Reply:
    return Reply(header=OffsetReplyHeader(offset=replica.guess))


_NAME_ROUTES = (on(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader, _find_route),)
_BROKER_ROUTES = (
    on(RequestCode.PULL_MESSAGE, PullMessageHeader, _pull),
    on(RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader, _min_offset),
    on(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader, _max_offset),
    on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader, _search),
)
