"""Functions of a program that a pull consumer calls for queues.

A schedule calls one for each queue the consumer has, again and again: the program decides itself
what to pull and when to be called again; Java calls it scheduled pull. A topic watch notifies
programs that assign queues themselves when the queues of a topic change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, final

from roquet.client.callbacks import call_all, call_or
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError
from roquet.client.names import wrapped
from roquet.client.queue_ref import QueueRef
from roquet.net.service import OnFailure, Services

log = logging.getLogger(__name__)

DELAY_S: Final = 0.2
_ERROR_DELAY_S: Final = 1.0

# Returns the seconds until its next call; None is the delay of the schedule.
# A function runs in a thread, a coroutine in the event loop.
PullWork = Callable[[QueueRef], Awaitable[float | None] | float | None]

# Gets all queues that the topic has from now on.
OnTopicQueues = Callable[[Sequence[QueueRef]], None]

_NONE: Final[tuple[QueueRef, ...]] = ()


@final
class PullSchedule:
    """One task for each queue. An error is logged, and the call is repeated a little later."""

    def __init__(self, work: PullWork, delay_s: float, services: Services) -> None:
        self._work = work
        self._delay_s = delay_s
        self._services = services
        self._tasks: dict[QueueRef, asyncio.Task[None] | None] = {}

    def follow(self, queues: Sequence[QueueRef]) -> None:
        """Runs for these queues from now on, and no others."""
        for queue in self._tasks.keys() - set(queues):
            task = self._tasks.pop(queue)
            if task is not None:
                task.cancel()
        for queue in queues:
            if queue not in self._tasks:
                self._tasks[queue] = self._services.run(
                    f"work on {queue}", partial(self._run, queue), on_failure=OnFailure.RESTART
                )

    async def _run(self, queue: QueueRef) -> None:
        while True:
            after_error: float | None = _ERROR_DELAY_S
            pause_s = await call_or(after_error, self._work, queue)
            await asyncio.sleep(self._delay_s if pause_s is None else pause_s)


@final
class TopicWatch:
    """Of one consumer: a function for each topic, whether it reads the topic or not."""

    def __init__(self, routes: RouteBook, namespace: str | None) -> None:
        self._routes = routes
        self._namespace = namespace
        self._listeners: dict[str, OnTopicQueues] = {}
        self._known: dict[str, tuple[QueueRef, ...]] = {}

    async def add(self, topic: str, listener: OnTopicQueues) -> Sequence[QueueRef]:
        """The queues of the topic now; a topic has one function, the last one.

        Raises TopicNotFound or NoNameServer.
        """
        queues = self._known[topic] = await self._queues(topic)
        self._listeners[topic] = listener
        return queues

    async def refresh(self) -> None:
        """Called after each period."""
        for topic, listener in [*self._listeners.items()]:
            try:
                queues = await self._queues(topic)
            except ClientError as error:
                log.info("the queues of %s are not known now, retrying: %s", topic, error)
                continue
            if queues != self._known[topic]:
                self._known[topic] = queues
                call_all([listener], queues)

    async def _queues(self, topic: str) -> tuple[QueueRef, ...]:
        route = await self._routes.newest(wrapped(self._namespace, topic))
        if route is None:
            return _NONE
        return tuple(queue._replace(topic=topic) for queue in sorted(route.readable))
