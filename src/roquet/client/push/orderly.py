"""Queues whose messages are delivered one after the other, and the locks that make it so.

A broker lets one member of a group lock a queue. A lock is good for 60 seconds there, for 30 here,
and renewed after 20: whoever could not renew it stops before anybody else can begin.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, final

from roquet.client.cluster.brokers import Brokers, by_broker
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.push.concurrent_feed import FeedContext, Room
from roquet.client.push.delivery import Delivery
from roquet.client.push.flow_control import QueueLimits
from roquet.client.push.offset_book import OffsetBook
from roquet.client.push.outcome import NotBegun, consequence_of
from roquet.client.push.retrying import next_try, next_try_in_order
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock

log = logging.getLogger(__name__)

RENEW_PERIOD_S: Final = 20.0
_LOCK_LIFE_S: Final = 30.0

Messages = list[ReceivedMessage]


class Renewal(NamedTuple):
    """`taken` are queues that somebody else has now; a broker that did not answer says nothing."""

    taken: list[QueueRef]
    have_all_answered: bool


@final
class QueueLocks:
    """The locks of one member. Brokers that do not answer have given none."""

    def __init__(self, brokers: Brokers, group: str, client_id: str, clock: Clock) -> None:
        self._brokers = brokers
        self._group = group
        self._client_id = client_id
        self._clock = clock
        self._ends_s: dict[QueueRef, float] = {}

    def is_held(self, queue: QueueRef) -> bool:
        return self._clock.monotonic_s() < self._ends_s.get(queue, 0.0)

    def locked_s(self, queue: QueueRef) -> float | None:
        """When it was last locked, in monotonic time."""
        end_s = self._ends_s.get(queue)
        return None if end_s is None else end_s - _LOCK_LIFE_S

    async def lock(self, queues: Collection[QueueRef]) -> set[QueueRef]:
        """Those of the queues that this member may read now."""
        await self._ask(queues)
        return {queue for queue in queues if self.is_held(queue)}

    async def renew(self, queues: Collection[QueueRef]) -> Renewal:
        have_all_answered = await self._ask(queues)
        return Renewal([each for each in queues if each not in self._ends_s], have_all_answered)

    async def unlock(self, queues: Collection[QueueRef]) -> None:
        for queue in queues:
            self._ends_s.pop(queue, None)
        for name, part in by_broker(queues).items():
            try:
                await self._brokers.unlock(self._group, self._client_id, part)
            except (Unreachable, RequestRefused) as error:
                log.info("locks at %s are left to expire: %s", name, error)

    async def _ask(self, queues: Collection[QueueRef]) -> bool:
        """Notes what brokers say; whether all of them said something."""
        return all(await asyncio.gather(*map(self._ask_one, by_broker(queues).values())))

    async def _ask_one(self, queues: list[QueueRef]) -> bool:
        # The lock is as old as the question, not as the answer.
        end_s = self._clock.monotonic_s() + _LOCK_LIFE_S
        try:
            locked = await self._brokers.lock(self._group, self._client_id, queues)
        except (Unreachable, RequestRefused) as error:
            log.info("no locks from %s: %s", queues[0].broker_name, error)
            return False
        for queue in queues:
            if queue in locked:
                self._ends_s[queue] = end_s
            else:
                self._ends_s.pop(queue, None)
        return True


@final
class OrderlyFeed:
    """At most one delivery at a time; what fails comes again before anything behind it."""

    def __init__(
        self,
        queue: QueueRef,
        start: int,
        context: FeedContext,
        limits: QueueLimits,
        is_locked: Callable[[], bool],
    ) -> None:
        self.queue = queue
        self.is_dropped = False
        self.ended_s: float | None = None
        self.book = OffsetBook(start)
        self.room = Room(self.book, limits)
        self._context = context
        self._counts = context.counters.topics[queue.topic]
        self._may_run = is_locked
        self._waiting: deque[ReceivedMessage] = deque()
        self._current: Delivery | None = None
        # The queue rests after a failure, or until a broker has taken a dead letter.
        self._is_resting = False
        self._is_sending_dead = False
        self._is_quiet = asyncio.Event()

    @property
    def is_locked(self) -> bool:
        return self._may_run()

    def take_in(self, messages: Messages, next_offset: int) -> None:
        """What a pull brought. Nothing of interest is left before `next_offset`."""
        fresh = self.book.add_all(messages)
        self.book.skip_to(next_offset)
        self._counts.pulled_count += len(fresh)
        self._waiting.extend(fresh)
        self.go_on()

    def go_on(self) -> None:
        """Delivers what comes next, if it may."""
        is_busy = self._current is not None or self._is_resting or self.is_dropped
        if is_busy or not self._waiting or not self._may_run():
            return
        waiting = self._waiting
        count = min(len(waiting), self._context.config.delivery_count_max)
        self._current = Delivery(self, [waiting.popleft() for _ in range(count)])
        self._context.workers.put([self._current])

    def drop(self) -> None:
        self.is_dropped = True
        running = [each.delivery for each in self._context.workers.running]
        if self._current not in running:
            self._current = None  # And it will not be begun.
        self._look_if_quiet()

    async def until_quiet(self) -> None:
        """After `drop`: returns when the listener has ended."""
        await self._is_quiet.wait()

    def ended(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        if delivery is not self._current:
            return
        self._current = None
        if not isinstance(error, NotBegun):
            self._counts.call_count += 1
            self._counts.call_duration_s += duration_s
            self.ended_s = self._context.clock.monotonic_s()
            self._judge(delivery.messages, error)
        self._look_if_quiet()
        self.go_on()

    def _judge(self, messages: Messages, error: BaseException | None) -> None:
        if error is None:
            self._finish(messages)
            return
        consequence = consequence_of(error, len(messages))
        self._finish(messages[: consequence.done_count])
        failed = messages[consequence.done_count :]
        self._counts.failed_count += len(failed)
        if not failed or self.is_dropped:
            return
        retries = self._context.retries
        pause_s = consequence.pause_s
        if pause_s is None:
            pause_s = self._context.config.retry_pause_s
        dead = [each for each in failed if consequence.is_dead or retries.is_over(each)]
        again = [each for each in failed if each not in dead]
        count_max = retries.retry_count_max
        if again:
            retries.note(error, failed, next_try_in_order(again[0], count_max, pause_s))
        else:
            retries.note(error, failed, next_try(dead[0], count_max, consequence))
        for message in again:
            message.local_retry_count += 1
        self._is_resting = True
        if dead:
            self._is_sending_dead = True
            retries.send_to_dlq(
                dead, error, lambda kept: self._dead_sent(dead, kept, again, pause_s)
            )
        else:
            self._rest(again, pause_s)

    def _dead_sent(self, dead: Messages, kept: Messages, again: Messages, pause_s: float) -> None:
        self._is_sending_dead = False
        self._finish([each for each in dead if each not in kept])
        again = sorted(kept + again, key=lambda message: message.queue_offset)
        self._rest(again, pause_s if again else 0.0)
        self._look_if_quiet()

    def _rest(self, again: Messages, pause_s: float) -> None:
        self._waiting.extendleft(reversed(again))
        asyncio.get_running_loop().call_later(pause_s, self._wake)

    def _wake(self) -> None:
        self._is_resting = False
        self.go_on()

    def _finish(self, messages: Messages) -> None:
        self._counts.done_count += len(messages)
        self.book.finish_all(message.queue_offset for message in messages)
        self.room.look()

    def _look_if_quiet(self) -> None:
        if self.is_dropped and self._current is None and not self._is_sending_dead:
            self._is_quiet.set()
