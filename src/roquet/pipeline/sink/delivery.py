"""Sends pieces, several at a time, again and again until brokers have them or time is up.

With `looks_first` every attempt begins with a question: the brokers of the topic are asked for
the first message of the piece, and if one has it the piece is there. All of them are asked,
because the piece may have gone elsewhere before: routes change, and a broker that fails is
passed over. One that cannot be asked is waited for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar, final

from roquet.client.blocking.twin import BlockingTwin
from roquet.client.errors import BadArgument, SendError, SendForbidden, SendRefused
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.queue_choice import RETRY_CODES
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import UNANSWERED, credentials_of, tls_of
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.sink.requests import SendPiece
from roquet.pipeline.sink.rows import SingleRow, row_error

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S_FIRST: Final = 0.1
_PAUSE_S_MAX: Final = 5.0


class Patience(NamedTuple):
    """How long one request may take, and how long all attempts at it."""

    request: timedelta
    total: timedelta

    @property
    def request_s(self) -> float:
        return self.request.total_seconds()


def patience_of(cluster: ClusterOptions) -> Patience:
    return Patience(cluster.request_timeout, cluster.retry_timeout)


@final
class Outlet(BlockingTwin[AsyncProducer]):
    """A producer whose loop other threads can give work to."""

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
def outlet(cluster: ClusterOptions, group: str) -> Outlet:
    """Open, and kept as long as the process: workers run many tasks one after the other."""
    opened = Outlet(cluster, group)
    opened.open()
    return opened


async def attempted(
    attempt: Callable[[int], Awaitable[T]],
    patience: Patience,
    final_error: type[SendError] = SendForbidden,
) -> T:
    """What `attempt` returns, which is told how often it was tried before.

    Raises what it raised last when time is up, or at once for what no repetition changes and for
    the error that is final to the caller.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience.total.total_seconds()
    pause_s = _PAUSE_S_FIRST
    count = 0
    while True:
        try:
            return await attempt(count)
        except (SendError, *UNANSWERED) as error:
            is_refused = isinstance(error, SendRefused) and error.code not in RETRY_CODES
            is_final = is_refused or isinstance(error, final_error)
            if is_final or loop.time() + pause_s > deadline_s:
                raise
            log.warning("sent again in %.1f s: %s", pause_s, error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        count += 1


async def in_parallel(
    works: Iterable[Callable[[], Coroutine[Any, Any, None]]], in_flight: int
) -> None:
    """Does all of them, several at a time. The first error ends the others, and is raised."""
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
class Pace:
    """Belongs to one task, whichever of its loops asks. Without a limit nobody waits."""

    def __init__(self, messages_per_second: int | None) -> None:
        self._rate = messages_per_second
        self._free_s = 0.0

    @property
    def has_limit(self) -> bool:
        return self._rate is not None

    async def admit(self, message_count: int) -> None:
        """Returns when they may be sent. Who asks first goes first."""
        if self._rate is None:
            return
        now_s = asyncio.get_running_loop().time()
        start_s = max(self._free_s, now_s)
        self._free_s = start_s + message_count / self._rate
        await asyncio.sleep(start_s - now_s)


@final
class Deliverer:
    """Belongs to one task. `turn` is where the round through the queues of a topic begins."""

    def __init__(
        self,
        producer: AsyncProducer,
        patience: Patience,
        pace: Pace,
        *,
        looks_first: bool,
        turn: int,
    ) -> None:
        self._producer = producer
        self._patience = patience
        self._pace = pace
        self._looks_first = looks_first
        self._turn = turn

    async def deliver(self, pieces: Sequence[SendPiece], in_flight: int) -> None:
        """Returns when brokers have all. Pieces of a fixed queue go one after the other."""
        works = (partial(self._deliver_lane, lane) for lane in _lanes(pieces))
        await in_parallel(works, in_flight)

    async def _deliver_lane(self, lane: Sequence[SendPiece]) -> None:
        for piece in lane:
            self._turn += 1
            await self._wait_for_turn(piece)
            await attempted(partial(self._attempt, piece, self._turn), self._patience)

    async def _wait_for_turn(self, piece: SendPiece) -> None:
        """Apart from the attempts, whose patience is about brokers."""
        if not self._pace.has_limit:
            return

        async def look(_count: int) -> bool:
            queues = await self._producer.queues(piece.topic, timeout_s=self._patience.request_s)
            return await is_stored_anywhere(self._producer, queues, piece.first_id, self._patience)

        # What is there already takes no time.
        if not (self._looks_first and await attempted(look, self._patience)):
            await self._pace.admit(piece.message_count)

    async def _attempt(self, piece: SendPiece, turn: int, count: int) -> None:
        queue = piece.queue
        if self._looks_first:
            queues = await self._producer.queues(piece.topic, timeout_s=self._patience.request_s)
            if await is_stored_anywhere(self._producer, queues, piece.first_id, self._patience):
                log.info("%d messages from %s on are there", piece.message_count, piece.first_id)
                return
            # A queue that is fixed is tried once; the next attempt looks again.
            queue = queue or queues[(turn + count) % len(queues)]
        await self._producer.send_encoded(
            piece.topic,
            piece.body,
            piece.message_count,
            queue=queue,
            timeout_s=self._patience.request_s,
        )


async def is_stored_anywhere(
    producer: AsyncProducer, queues: Iterable[QueueRef], message_id: str, patience: Patience
) -> bool:
    """Whether one of the brokers of these queues has a message that can be read."""
    one_of_each = {queue.broker_name: queue for queue in queues}.values()
    answers = await asyncio.gather(
        *(
            producer.is_stored(queue, message_id, timeout_s=patience.request_s)
            for queue in one_of_each
        )
    )
    return any(answers)


def _lanes(pieces: Sequence[SendPiece]) -> list[list[SendPiece]]:
    """Pieces that must not overtake each other are in one list."""
    lanes: list[list[SendPiece]] = []
    of_queue: dict[QueueRef, list[SendPiece]] = {}
    for piece in pieces:
        if piece.queue is None:
            lanes.append([piece])
        elif piece.queue in of_queue:
            of_queue[piece.queue].append(piece)
        else:
            lane = of_queue[piece.queue] = [piece]
            lanes.append(lane)
    return lanes


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def send_row(
    producer: AsyncProducer, row: SingleRow, place: str, patience: Patience, pace: Pace
) -> None:
    """Returns when a broker has it. Raises BadRow, or SendError when time is up."""

    async def attempt(_count: int) -> None:
        await producer.send(
            row.message,
            order_key=row.order_key,
            delay=row.delay,
            delay_level=row.delay_level,
            timeout_s=patience.request_s,
        )

    await pace.admit(1)
    try:
        await attempted(attempt, patience)
    except BadArgument as error:
        raise row_error(place, row.number, "properties", str(error)) from None
