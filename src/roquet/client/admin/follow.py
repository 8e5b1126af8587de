"""Following topics as messages arrive, like `tail -f`: no group, and no offsets are kept."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from datetime import datetime
from enum import Enum, auto
from typing import Final

from roquet.client.admin.servers import AdminServers, Master
from roquet.client.arguments import bad, timestamp_ms
from roquet.client.cluster.brokers import by_broker
from roquet.client.cluster.pulling import SUSPEND_S, PullOrder, PullStatus, PullTerms
from roquet.client.cluster.routes import Route
from roquet.client.errors import ClientError, Unreachable
from roquet.client.group.start_offset import StartFrom
from roquet.client.group.subscriptions import check_subscriptions
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.names import TOOLS_GROUP
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

# Where to start in each queue; those that are not named start at their first message.
FollowFrom = StartFrom | datetime | Mapping[QueueRef, int]

# In whose name a broker is asked to check a filter.
_MEMBER: Final = (TOOLS_GROUP, "admin")
_PULL_COUNT: Final = 32
# Messages that may wait for their reader.
_AHEAD_MAX: Final = 256
_PAUSE_S: Final = 1.0
# How long it may take until a new queue is noticed.
_ROUTE_INTERVAL_S: Final = 10.0


class _End(Enum):
    OF_A_QUEUE = auto()


async def follow(
    servers: AdminServers,
    subscription: Subscription,
    start: FollowFrom,
    ends: Mapping[QueueRef, int] | None,
) -> AsyncGenerator[ReceivedMessage]:
    """Up to `ends`, without the queues that it does not list; None follows for ever.

    Raises TopicNotFound or RequestRefused, and BadArgument for an invalid `start`.
    """
    # A broker without this kind of filter would return everything.
    await check_subscriptions(servers.brokers, servers.routes, _MEMBER, [subscription])
    topic = subscription.topic
    ahead: asyncio.Queue[ReceivedMessage | ClientError | _End] = asyncio.Queue(_AHEAD_MAX)
    readers: dict[QueueRef, asyncio.Task[None]] = {}
    time_s = asyncio.get_running_loop().time

    async def read(queue: QueueRef, offset: int) -> None:
        try:
            end = None if ends is None else ends.get(_user_queue(servers, queue), offset)
            # Up to an end there is nothing to wait for.
            suspend_s = SUSPEND_S if end is None else 0
            terms = PullTerms(subscription, _PULL_COUNT, suspend_s, sends_subscription=True)
            order = PullOrder(queue, terms, offset)
            async with aclosing(_of_queue(servers, order, end)) as messages:
                async for message in messages:
                    await ahead.put(message)
            await ahead.put(_End.OF_A_QUEUE)
        except ClientError as error:
            await ahead.put(error)

    next_start = start
    next_route_s = 0.0
    finished_count = 0
    try:
        while True:
            if time_s() >= next_route_s:
                route = await servers.route(topic)
                fresh = [queue for queue in route.readable if queue not in readers]
                starts = await _start_offsets(servers, route, fresh, next_start)
                for queue, offset in starts:
                    readers[queue] = asyncio.create_task(read(queue, offset))
                if ends is not None and not readers:
                    return
                # Queues that are created from now on are read from their first message.
                next_start = StartFrom.FIRST
                next_route_s = time_s() + _ROUTE_INTERVAL_S
            try:
                found = await asyncio.wait_for(ahead.get(), max(0.0, next_route_s - time_s()))
            except TimeoutError:
                continue
            if isinstance(found, ClientError):
                raise found
            if isinstance(found, ReceivedMessage):
                yield found
                continue
            finished_count += 1
            if finished_count == len(readers):
                return
    finally:
        for reader in readers.values():
            reader.cancel()
        await asyncio.gather(*readers.values(), return_exceptions=True)


async def _start_offsets(
    servers: AdminServers, route: Route, queues: Iterable[QueueRef], start: FollowFrom
) -> list[tuple[QueueRef, int]]:
    by_name = by_broker(queues)

    async def offsets(broker: Master) -> list[tuple[QueueRef, int]]:
        here = by_name.get(broker.broker_name, ())
        return [(queue, await start_offset(servers, queue, start)) for queue in here]

    parts = await servers.ask_each(servers.replicas_in(route), offsets)
    return [each for part in parts.values() for each in part]


async def start_offset(servers: AdminServers, queue: QueueRef, start: FollowFrom) -> int:
    """Raises BadArgument."""
    match start:
        case StartFrom.FIRST:
            return await servers.brokers.min_offset(queue)
        case StartFrom.LAST:
            return await servers.brokers.max_offset(queue)
        case datetime():
            return await servers.brokers.offset_at(queue, timestamp_ms(start, "start"))
        case Mapping():
            if (user_queue := _user_queue(servers, queue)) in start:
                return start[user_queue]
            return await servers.brokers.min_offset(queue)
        case _:
            raise bad("start", "a datetime, offsets, or StartFrom.FIRST or LAST", start)


async def _of_queue(
    servers: AdminServers, order: PullOrder, end: int | None
) -> AsyncGenerator[ReceivedMessage]:
    while end is None or order.offset < end:
        try:
            pulled = await servers.puller.pull(order)
        except Unreachable as error:
            log.warning("retrying: %s", error)
            await asyncio.sleep(_PAUSE_S)
            continue
        for message in pulled.messages:
            if end is None or message.queue_offset < end:
                yield message
        if pulled.status is PullStatus.OUT_OF_RANGE or pulled.next_offset > order.offset:
            order = order._replace(offset=pulled.next_offset)
        elif end is not None:
            return


def _user_queue(servers: AdminServers, queue: QueueRef) -> QueueRef:
    return queue._replace(topic=servers.user_name(queue.topic))
