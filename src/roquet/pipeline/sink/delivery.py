"""Sends requests, several at a time, with retries until brokers have them or time is up.

With `checks_first` all brokers of the topic are asked for each row before it is sent, and what one
of them has is left out. After an attempt without an answer they are asked for the first row alone:
a request is stored whole or not at all. All of them are asked, because an earlier attempt may have
gone elsewhere: routes change, and a broker that fails is skipped. An unreachable broker is waited
for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar, final

from roquet.backoff import Backoff
from roquet.client.blocking.twin import BlockingTwin
from roquet.client.errors import BadArgument, SendError, SendForbidden, SendRefused
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.queue_choice import RETRY_CODES
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import UNANSWERED, credentials_of, tls_of
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.sink.requests import SendRequest
from roquet.pipeline.sink.rows import SingleRow, row_error

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S_FIRST: Final = 0.1
_PAUSE_S_MAX: Final = 5.0
# Rows of one request that are asked for at the same time.
_QUERIES_IN_FLIGHT: Final = 16


class SendTimeouts(NamedTuple):
    """How long one request may take, and how long all attempts at it."""

    request: timedelta
    total: timedelta

    @property
    def request_s(self) -> float:
        return self.request.total_seconds()


def timeouts_of(cluster: ClusterOptions) -> SendTimeouts:
    return SendTimeouts(cluster.request_timeout, cluster.retry_timeout)


@final
class SharedProducer(BlockingTwin[AsyncProducer]):
    """A producer whose event loop runs work of other threads."""

    def __init__(self, cluster: ClusterOptions, group: str) -> None:
        producer = AsyncProducer(
            cluster.name_server,
            group,
            namespace=cluster.namespace,
            credentials=credentials_of(cluster),
            tls=tls_of(cluster),
        )
        super().__init__(producer, "sink")

    def run(self, work: Callable[[AsyncProducer], Coroutine[Any, Any, T]]) -> T:
        return self._thread.run(work(self._twin))


@lru_cache(maxsize=16)
def shared_producer(cluster: ClusterOptions, group: str) -> SharedProducer:
    """Open as long as the process runs: workers run many tasks one after the other."""
    opened = SharedProducer(cluster, group)
    opened.open()
    return opened


async def attempted(
    attempt: Callable[[int], Awaitable[T]],
    timeouts: SendTimeouts,
) -> T:
    """What `attempt` returns, retried; its argument is the number of earlier attempts.

    Raises its last error when time is up, and at once one that no retry changes.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeouts.total.total_seconds()
    backoff = Backoff(_PAUSE_S_FIRST, _PAUSE_S_MAX)
    count = 0
    while True:
        try:
            return await attempt(count)
        except (SendError, *UNANSWERED) as error:
            is_refused = isinstance(error, SendRefused) and error.code not in RETRY_CODES
            is_final = is_refused or isinstance(error, SendForbidden)
            pause_s = backoff.next_s()
            if is_final or loop.time() + pause_s > deadline_s:
                raise
            log.warning("retrying in %.1f s: %s", pause_s, error)
        await asyncio.sleep(pause_s)
        count += 1


async def in_parallel(
    works: Iterable[Callable[[], Coroutine[Any, Any, None]]], in_flight: int
) -> None:
    """Runs all of them, several at a time. The first error cancels the others, and is raised."""
    waiting = iter(works)

    async def work() -> None:
        # All workers take from the same iterator.
        for each in waiting:
            await each()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


@final
class RateLimit:
    """How fast one task may send, on average: a request of many messages is sent at once."""

    def __init__(self, messages_per_second: int | None) -> None:
        self._rate = messages_per_second
        self._free_s = 0.0

    async def admit(self, message_count: int) -> None:
        """Returns when they may be sent, in the order of the calls."""
        if self._rate is None:
            return
        now_s = asyncio.get_running_loop().time()
        start_s = max(self._free_s, now_s)
        self._free_s = start_s + message_count / self._rate
        await asyncio.sleep(start_s - now_s)


@final
class Deliverer:
    """Belongs to one task. `turn` is where the round robin over the queues of a topic starts."""

    def __init__(
        self,
        producer: AsyncProducer,
        timeouts: SendTimeouts,
        rate_limit: RateLimit,
        *,
        checks_first: bool,
        turn: int,
    ) -> None:
        self._producer = producer
        self._timeouts = timeouts
        self._rate_limit = rate_limit
        self._checks_first = checks_first
        self._turn = turn

    async def deliver(self, requests: Sequence[SendRequest], in_flight: int) -> None:
        """Returns when brokers have all. Requests of a fixed queue are sent one after the other."""
        works = (partial(self._deliver_in_order, group) for group in _ordered_groups(requests))
        await in_parallel(works, in_flight)

    async def _deliver_in_order(self, group: Sequence[SendRequest]) -> None:
        for request in group:
            missing = await self._missing_rows(request) if self._checks_first else request
            if missing is not None:
                self._turn += 1
                # Apart from the attempts, whose timeouts are about brokers.
                await self._rate_limit.admit(missing.message_count)
                await attempted(partial(self._attempt, missing, self._turn), self._timeouts)

    async def _missing_rows(self, request: SendRequest) -> SendRequest | None:
        """The request without what is stored."""
        stored: set[str] = set()
        unknown = {row.id for row in request.rows}

        async def ask(_count: int) -> None:
            topic, timeout_s = request.topic, self._timeouts.request_s
            # Asked for once: a name server is not asked for every row.
            queues = await self._producer.queues(topic, timeout_s=timeout_s)

            async def look(message_id: str) -> None:
                if await is_stored_anywhere(self._producer, queues, message_id, self._timeouts):
                    stored.add(message_id)
                unknown.remove(message_id)

            await in_parallel([partial(look, each) for each in unknown], _QUERIES_IN_FLIGHT)

        await attempted(ask, self._timeouts)
        if stored:
            log.info("already stored: %d of %d rows", len(stored), request.message_count)
        return request.without(stored)

    async def _attempt(self, request: SendRequest, turn: int, count: int) -> None:
        queue = request.queue
        if self._checks_first:
            queues = await self._producer.queues(request.topic, timeout_s=self._timeouts.request_s)
            if count and await is_stored_anywhere(
                self._producer, queues, request.first_id, self._timeouts
            ):
                return
            # A fixed queue is tried once; the next attempt checks again.
            queue = queue or queues[(turn + count) % len(queues)]
        await self._producer.send_encoded(
            request.topic,
            request.body,
            request.message_count,
            queue=queue,
            timeout_s=self._timeouts.request_s,
        )


async def is_stored_anywhere(
    producer: AsyncProducer, queues: Iterable[QueueRef], message_id: str, timeouts: SendTimeouts
) -> bool:
    """Whether one of the brokers of these queues has the message, readable."""
    one_of_each = {queue.broker_name: queue for queue in queues}.values()
    answers = await asyncio.gather(
        *(
            producer.is_stored(queue, message_id, timeout_s=timeouts.request_s)
            for queue in one_of_each
        )
    )
    return any(answers)


def _ordered_groups(requests: Sequence[SendRequest]) -> list[list[SendRequest]]:
    """Requests that must stay in order are in one list."""
    groups: list[list[SendRequest]] = []
    of_queue: dict[QueueRef, list[SendRequest]] = {}
    for request in requests:
        if request.queue is None:
            groups.append([request])
        elif request.queue in of_queue:
            of_queue[request.queue].append(request)
        else:
            group = of_queue[request.queue] = [request]
            groups.append(group)
    return groups


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def send_row(
    producer: AsyncProducer,
    row: SingleRow,
    place: str,
    timeouts: SendTimeouts,
    rate_limit: RateLimit,
) -> None:
    """Returns when a broker has it. Raises BadRow, or SendError when time is up."""

    async def attempt(_count: int) -> None:
        await producer.send(
            row.message,
            order_key=row.order_key,
            delay=row.delay,
            delay_level=row.delay_level,
            timeout_s=timeouts.request_s,
        )

    await rate_limit.admit(1)
    try:
        await attempted(attempt, timeouts)
    except BadArgument as error:
        raise row_error(place, row.number, "properties", str(error)) from None
