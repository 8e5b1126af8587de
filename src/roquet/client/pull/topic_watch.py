"""Programs that assign queues themselves are told when a topic has others than before."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError
from roquet.client.names import wrapped
from roquet.client.queue_ref import QueueRef
from roquet.client.user_code import tell

log = logging.getLogger(__name__)

# Gets all queues that the topic has from now on.
OnTopicQueues = Callable[[Sequence[QueueRef]], None]

_NONE: Final[tuple[QueueRef, ...]] = ()


@final
class TopicWatch:
    """Of one consumer: a listener for each topic, whether it reads the topic or not."""

    def __init__(self, routes: RouteBook, namespace: str | None) -> None:
        self._routes = routes
        self._namespace = namespace
        self._listeners: dict[str, OnTopicQueues] = {}
        self._known: dict[str, tuple[QueueRef, ...]] = {}

    async def add(self, topic: str, listener: OnTopicQueues) -> Sequence[QueueRef]:
        """The queues there are now; a topic has one listener, the last one that was named.

        Raises TopicNotFound or NoNameServer when nobody can be asked.
        """
        queues = self._known[topic] = await self._queues(topic)
        self._listeners[topic] = listener
        return queues

    async def look(self) -> None:
        """Called after each period."""
        for topic, listener in [*self._listeners.items()]:
            try:
                queues = await self._queues(topic)
            except ClientError as error:
                log.info("the queues of %s are not known now: %s", topic, error)
                continue
            if queues != self._known[topic]:
                self._known[topic] = queues
                tell([listener], queues)

    async def _queues(self, topic: str) -> tuple[QueueRef, ...]:
        route = await self._routes.newest(wrapped(self._namespace, topic))
        if route is None:
            return _NONE
        return tuple(queue._replace(topic=topic) for queue in sorted(route.readable))
