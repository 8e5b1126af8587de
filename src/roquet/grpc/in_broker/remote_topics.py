"""Topics as name servers know them: looked up when a client needs them, cached for some seconds.

While no name server answers, the last answer stays in use.
"""

import asyncio
import logging
from typing import Final, final

from roquet.broker.broker import Broker
from roquet.grpc.in_broker.routing import NO_REMOTE_TOPIC, RemoteTopic, masters_in
from roquet.protocol.bodies.name_server import TopicRoute
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# What is older is asked for again. Push consumers ask every five seconds.
FRESH_S: Final = 3.0
TOPIC_COUNT_MAX: Final = 10_000

_REMINDER_S: Final = 600.0


class _CachedTopic:
    __slots__ = ("asked_s", "found", "lock")

    def __init__(self) -> None:
        self.found = NO_REMOTE_TOPIC
        self.asked_s = float("-inf")
        # Clients that ask for the same topic wait for one answer.
        self.lock = asyncio.Lock()


@final
class RemoteTopics:
    """Belongs to the event loop, and to whatever broker is served at the time."""

    def __init__(self) -> None:
        self._known: dict[str, _CachedTopic] = {}
        self._hints = ThrottledLog(log, asyncio.get_running_loop().time, _REMINDER_S)

    def known(self, broker: Broker, topic: str) -> RemoteTopic | None:
        """None if a name server has to be asked first."""
        if not broker.registrar.name_servers:
            return NO_REMOTE_TOPIC
        known = self._known.get(topic)
        return known.found if known is not None and _is_fresh(known) else None

    async def find(self, broker: Broker, topic: str) -> RemoteTopic:
        known = self._known.get(topic)
        if known is None:
            if len(self._known) >= TOPIC_COUNT_MAX:
                self._known.pop(next(iter(self._known)))
            known = self._known[topic] = _CachedTopic()
        async with known.lock:
            if not _is_fresh(known):
                known.found = await self._asked(broker, topic) or known.found
                known.asked_s = asyncio.get_running_loop().time()
        return known.found

    async def _asked(self, broker: Broker, topic: str) -> RemoteTopic | None:
        others = broker.replication.others
        route = await others.route_of(topic)
        if route is None:
            return None
        self._note_missing(broker, topic, route)
        if topic in broker.tables.topics:
            return RemoteTopic(route)
        for data in route.broker_datas:
            for address in data.broker_addrs.values():
                config = await others.topic_at(address, topic)
                if config is not None:
                    return RemoteTopic(route, config)
        return RemoteTopic(route)

    def _note_missing(self, broker: Broker, topic: str, route: TopicRoute) -> None:
        for name in masters_in(route).missing:
            if name != broker.config.broker_name:
                text = (
                    f"{name} has queues of {topic}, and no gRPC endpoint: clients do not reach"
                    " them; set grpcPort there, or run roquet proxy"
                )
                self._hints.warning(name, text)


def _is_fresh(known: _CachedTopic) -> bool:
    return asyncio.get_running_loop().time() - known.asked_s < FRESH_S
