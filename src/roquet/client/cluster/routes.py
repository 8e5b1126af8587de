"""Finds brokers: the route of each topic, and all masters of a cluster.

Routes are asked for once, cached, and renewed from time to time; while no name server answers, the
cached ones stay in use. Which queue a message goes to is decided in `producer/queue_choice.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from roquet.client.cluster.name_servers import NameServers
from roquet.client.errors import ClientError, NoNameServer, RequestRefused, TopicNotFound
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import ClusterInfo, QueueData, TopicRoute
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.headers.name_server import ClusterInfoHeader, GetRouteHeader
from roquet.protocol.names import TEMPLATE_TOPIC
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

MASTER_ID: Final = 0
# Brokers allow no more for a topic; a larger number in a route is cut.
QUEUE_COUNT_MAX: Final = 65_536

_ASK_TIMEOUT_S: Final = 3.0
_PAUSE_S: Final = 0.5
_WRITE: Final = int(Permission.WRITE)
_READ: Final = int(Permission.READ)
# While no name server has named the masters.
_AGAIN_S: Final = 1.0
_MASTERS: Final = "masters"
_CLOSED: Final = "closed by us"
_MASTER_GONE: Final = (
    "start it, or promote a slave (roquet broker promote); with replication.etcd one is elected"
)


@dataclass(frozen=True, slots=True)
class Route:
    """`queues` can be written, `readable` can be read; addresses are by broker name and id."""

    queues: tuple[QueueRef, ...]
    masters: Mapping[str, str]
    readable: tuple[QueueRef, ...] = ()
    brokers: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


class NewTopic(NamedTuple):
    """A topic that its first message creates: on the brokers of `template`, with its settings."""

    template: str = TEMPLATE_TOPIC
    queue_count: int = 4


DEFAULT_NEW_TOPIC: Final = NewTopic()


def route_of(topic: str, answer: TopicRoute, queue_count_max: int = QUEUE_COUNT_MAX) -> Route:
    """The route in a reply of a name server."""
    masters = {
        broker.broker_name: broker.broker_addrs[MASTER_ID]
        for broker in answer.broker_datas
        if MASTER_ID in broker.broker_addrs
    }
    if answer.order_topic_conf:
        counts = _ordered_counts(answer.order_topic_conf)
    else:
        counts = _writable_counts(answer.queue_datas, masters)
    return Route(
        _queues(topic, counts, queue_count_max),
        masters,
        # These need no master: a slave can be read.
        _queues(topic, _readable_counts(answer.queue_datas), QUEUE_COUNT_MAX),
        {broker.broker_name: broker.broker_addrs for broker in answer.broker_datas},
    )


@final
class RouteBook:
    """`has_news` is set when a topic has a new route."""

    def __init__(self, name_servers: NameServers, has_news: asyncio.Event) -> None:
        self._name_servers = name_servers
        self._has_news = has_news
        self._routes: dict[str, Route] = {}
        self._stale: set[str] = set()
        self._is_stale = asyncio.Event()
        # Callers that want the same topic wait for one look-up, which has a limit of its own.
        self._lookups: dict[str, asyncio.Task[Route]] = {}

    def known(self, topic: str) -> Route | None:
        """The cached route of a topic that can be written."""
        route = self._routes.get(topic)
        return route if route is not None and route.queues else None

    async def find(self, topic: str, new_topic: NewTopic = DEFAULT_NEW_TOPIC) -> Route:
        """For a sender, which may also create the topic. Raises TopicNotFound or NoNameServer."""
        route = self.known(topic)
        if route is None:
            route = await self._looked_up(topic, new_topic)
        if not route.queues:
            raise TopicNotFound(topic, _why_not_writable(route), is_missing=False)
        return route

    async def _looked_up(self, topic: str, new_topic: NewTopic) -> Route:
        lookup = self._lookups.get(topic)
        if lookup is None:
            lookup = self._lookups[topic] = asyncio.create_task(
                self._discover(topic, new_topic), name=f"look up {topic}"
            )
            lookup.add_done_callback(lambda lookup: self._ended(topic, lookup))
        # One that gives up must not cancel it for others.
        await asyncio.wait([lookup])
        if lookup.cancelled():
            raise NoNameServer([_CLOSED])
        return lookup.result()

    def _ended(self, topic: str, lookup: asyncio.Task[Route]) -> None:
        del self._lookups[topic]
        if not lookup.cancelled():
            lookup.exception()  # Retrieved, even when all callers have given up.

    async def close(self) -> None:
        """Ends look-ups."""
        lookups = list(self._lookups.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    async def existing(self, topic: str, timeout_s: float = _ASK_TIMEOUT_S) -> Route | None:
        """For a reader: None if the topic does not exist. Raises TopicNotFound or NoNameServer."""
        return self._routes.get(topic) or await self.newest(topic, timeout_s)

    async def newest(self, topic: str, timeout_s: float = _ASK_TIMEOUT_S) -> Route | None:
        """The same, past the cache."""
        answer = await self._ask(topic, timeout_s)
        return None if answer is None else self._keep(topic, route_of(topic, answer))

    async def doubt(self) -> str | None:
        """Why a topic may exist that no broker has now; None if there is no reason.

        No master is there, or brokers are lost, which may have it.
        """
        try:
            info = await ask_cluster_info(self._name_servers)
        except ClientError:
            return None  # A name server that answers for routes only.
        lost = ", ".join(
            f"{each.broker_name} at {each.broker_addr}" for each in info.lost_brokers or ()
        )
        if not masters_in(info):
            return f"no master is registered; {_MASTER_GONE}" + (f"; lost: {lost}" if lost else "")
        if lost:
            return (
                f"no registered broker has it, and these are lost and may have it: {lost}; start"
                " them, or create the topic if it is new"
            )
        return None

    def masters(self) -> set[str]:
        """The addresses of all masters that any route names."""
        return {address for route in self._routes.values() for address in route.masters.values()}

    def addresses(self) -> set[str]:
        """The addresses of all masters and slaves that any route names."""
        return {
            address
            for route in self._routes.values()
            for addresses in route.brokers.values()
            for address in addresses.values()
        }

    def broker(self, name: str) -> Mapping[int, str]:
        """The addresses of one broker by id, of the newest route that names it."""
        for route in reversed(self._routes.values()):
            if name in route.brokers:
                return route.brokers[name]
        return {}

    def forget(self, topic: str) -> None:
        """Brokers do not have the topic of the cached route."""
        self._routes.pop(topic, None)

    def renew_soon(self, topic: str) -> None:
        """The cached route turned out to be wrong."""
        self._stale.add(topic)
        self._is_stale.set()

    async def keep_renewed(self, period_s: float) -> None:
        """Runs for ever: renews stale routes soon and all of them after each period."""
        loop = asyncio.get_running_loop()
        all_due_s = loop.time() + period_s
        while True:
            try:
                async with asyncio.timeout_at(all_due_s):
                    await self._is_stale.wait()
            except TimeoutError:
                self._stale.update(self._routes)
                all_due_s = loop.time() + period_s
            self._is_stale.clear()
            stale, self._stale = self._stale, set()
            await self._renew(stale)
            # Many senders may report the same route, again and again.
            await asyncio.sleep(_PAUSE_S)

    async def _renew(self, topics: Iterable[str]) -> None:
        for topic in topics:
            try:
                answer = await self._ask(topic, _ASK_TIMEOUT_S)
                # A missing topic keeps its route: its brokers may come back.
                if answer is not None:
                    self._keep(topic, route_of(topic, answer))
            except TopicNotFound as error:
                log.debug("keeping the old route: %s", error)
            except NoNameServer as error:
                log.warning("keeping the old routes: %s", error)
                return

    async def _discover(self, topic: str, new_topic: NewTopic) -> Route:
        answer = await self._ask(topic, _ASK_TIMEOUT_S)
        if answer is not None:
            return self._keep(topic, route_of(topic, answer))
        # The first message creates the topic with the settings of the template.
        template = await self._ask(new_topic.template, _ASK_TIMEOUT_S)
        if template is None:
            if (doubt := await self.doubt()) is not None:
                raise TopicNotFound(topic, doubt, is_missing=False)
            raise TopicNotFound(
                topic, "no broker has it or creates topics automatically; create it"
            )
        return self._keep(topic, route_of(topic, template, new_topic.queue_count))

    def _keep(self, topic: str, route: Route) -> Route:
        if route != self._routes.get(topic):
            self._routes.pop(topic, None)  # The newest is the last.
            self._routes[topic] = route
            self._has_news.set()
        return route

    async def _ask(self, topic: str, timeout_s: float) -> TopicRoute | None:
        reply = await self._name_servers.call(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic), timeout_s
        )
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            reason = f"the name server answered {reply.code}: {reply.remark}"
            raise TopicNotFound(topic, reason, is_missing=False)
        try:
            return read_body(TopicRoute, reply.body)
        except BadBody as error:
            reason = f"invalid response of the name server: {error}"
            raise TopicNotFound(topic, reason, is_missing=False) from None


def _why_not_writable(route: Route) -> str:
    if route.masters:
        return "no master accepts messages for it now: writes are forbidden"
    names = ", ".join(sorted(route.brokers))
    return f"no master of {names} is registered; {_MASTER_GONE}"


async def ask_cluster_info(name_servers: NameServers) -> ClusterInfo:
    """With lost brokers, if a name server knows them. Raises NoNameServer or RequestRefused."""
    header = ClusterInfoHeader(with_lost_brokers=True)
    reply = await name_servers.call(RequestCode.GET_BROKER_CLUSTER_INFO, header, _ASK_TIMEOUT_S)
    if reply.code != ResponseCode.SUCCESS:
        raise RequestRefused("the name server", reply.code, reply.remark)
    try:
        return read_body(ClusterInfo, reply.body)
    except BadBody as error:
        raise NoNameServer([f"invalid response: {error}"]) from None


def masters_in(info: ClusterInfo) -> frozenset[str]:
    """The addresses of all masters."""
    return frozenset(
        data.broker_addrs[MASTER_ID]
        for data in info.broker_addr_table.values()
        if MASTER_ID in data.broker_addrs
    )


def _queues(
    topic: str, counts: Iterable[tuple[str, int]], queue_count_max: int
) -> tuple[QueueRef, ...]:
    return tuple(
        QueueRef(topic, broker, queue_id)
        for broker, count in counts
        for queue_id in range(min(count, queue_count_max))
    )


def _readable_counts(queue_datas: Iterable[QueueData]) -> Iterator[tuple[str, int]]:
    for data in sorted(queue_datas, key=lambda data: data.broker_name):
        if data.perm & _READ:
            yield data.broker_name, data.read_queue_nums


def _writable_counts(
    queue_datas: Iterable[QueueData], masters: Mapping[str, str]
) -> Iterator[tuple[str, int]]:
    for data in sorted(queue_datas, key=lambda data: data.broker_name):
        if data.perm & _WRITE and data.broker_name in masters:
            yield data.broker_name, data.write_queue_nums


def _ordered_counts(text: str) -> Iterator[tuple[str, int]]:
    """An operator's order of brokers, such as "broker-a:4;broker-b:4"."""
    for part in text.split(";"):
        broker, _, count = part.rpartition(":")
        if broker and count.isascii() and count.isdigit():
            yield broker, int(count)


@final
class AllMasters:
    """Every master of a cluster, for clients that have to register at each of them.

    Other clients register at the brokers of their topics. A producer whose transactions may be
    checked has to be known before it sends anything: the one that started them may be gone.
    `has_news` is set when the addresses change.
    """

    def __init__(
        self, name_servers: NameServers, has_news: asyncio.Event, now_s: Callable[[], float]
    ) -> None:
        self._name_servers = name_servers
        self._has_news = has_news
        self._throttled = ThrottledLog(log, now_s)
        self.addresses: frozenset[str] = frozenset()

    async def refresh(self) -> bool:
        """False without an answer of a name server: the known addresses stay."""
        try:
            addresses = masters_in(await ask_cluster_info(self._name_servers))
        except ClientError as error:
            self._throttled.warning(_MASTERS, f"the masters are not known yet, retrying: {error}")
            return False
        self._throttled.clear(_MASTERS)
        if addresses != self.addresses:
            self.addresses = addresses
            self._has_news.set()
        return bool(addresses)

    async def keep_known(self, period_s: float) -> None:
        """Runs for ever; asks after each period, sooner while no master is known."""
        while True:
            await asyncio.sleep(period_s if self.addresses else min(_AGAIN_S, period_s))
            await self.refresh()
