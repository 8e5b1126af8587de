"""A push consumer that pops: messages come for a time, and brokers keep account of what is out.

The brokers also share out the queues (QUERY_ASSIGNMENT): whole brokers, or some of their queues.
Each place that this member was assigned has a reader, which pops while there is room, delivers, and
answers for each message: it is acknowledged, or comes again after the time of its next try. There
are no offsets to commit, and more members than queues can work.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from roquet.client.cluster.brokers import reply_body
from roquet.client.cluster.popping import (
    ANY_QUEUE,
    INVISIBLE_S_MAX,
    RECEIVE_COUNT_MAX,
    WAIT_S,
    PopOrder,
    Popper,
)
from roquet.client.errors import ClientError
from roquet.client.group.membership import Membership
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Delivery
from roquet.client.push.feeds import FeedContext
from roquet.client.push.outcome import LEVELS_S, Consequence, NotStarted, consequence_of
from roquet.client.push.retries import FIRST_LEVEL, next_try
from roquet.client.push.statistics import PushProgress
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.net.service import OnFailure, Services
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.pop import (
    AssignmentQuery,
    MessageRequestMode,
    QueueAssignment,
    QueueAssignments,
)
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import NoFields
from roquet.protocol.names import RETRY_PREFIX

log = logging.getLogger(__name__)

# Besides the time that a broker waits for messages.
POP_TIMEOUT_S: Final = 5.0

Messages = list[ReceivedMessage]


def pop_places(
    topic: str, assigned: Iterable[QueueAssignment], queues: Iterable[QueueRef]
) -> list[QueueRef]:
    """Where to pop. Brokers that share out queues for pulling let every member pop from all."""
    popped = {
        QueueRef(topic, each.message_queue.broker_name, each.message_queue.queue_id)
        for each in assigned
        if each.mode == MessageRequestMode.POP
    }
    return sorted(popped or {QueueRef(topic, queue.broker_name, ANY_QUEUE) for queue in queues})


def retry_delay_s(message: ReceivedMessage, consequence: Consequence) -> float:
    """When a failed message is redelivered: as its listener chose, or later each time."""
    if consequence.pause_s is not None:
        return min(consequence.pause_s, INVISIBLE_S_MAX)
    level = consequence.delay_level or FIRST_LEVEL + message.retry_count
    return float(LEVELS_S[min(level, len(LEVELS_S)) - 1])


@final
class PopAnswers:
    """Acknowledges or retries messages in the background; if that fails, they are redelivered."""

    def __init__(self, popper: Popper, services: Services) -> None:
        self._popper = popper
        self._services = services
        self._busy_count = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def ack(self, messages: Messages) -> None:
        for message in messages:
            self._send(partial(self._popper.ack, message), message)

    def retry(self, message: ReceivedMessage, delay_s: float) -> None:
        self._send(lambda: self._popper.change_invisible(message, delay_s), message)

    async def until_idle(self) -> None:
        await self._is_idle.wait()

    def _send(self, answer: Callable[[], Awaitable[None]], message: ReceivedMessage) -> None:
        async def send() -> None:
            try:
                await answer()
            except ClientError as error:
                log.warning("%r is redelivered, its acknowledgement failed: %s", message, error)
            finally:
                self._busy_count -= 1
                if not self._busy_count:
                    self._is_idle.set()

        self._busy_count += 1
        self._is_idle.clear()
        self._services.once("answer a pop", send)


@dataclass(frozen=True, slots=True)
class PopContext:
    """What all readers of a consumer share."""

    config: PushConsumerConfig
    membership: Membership
    popper: Popper
    answers: PopAnswers
    feed_context: FeedContext
    # Not set while the consumer is paused.
    may_pull: asyncio.Event


@final
class PopReader:
    """Pops from one place while there is room, and is the feed of what it delivers."""

    def __init__(self, queue: QueueRef, context: PopContext) -> None:
        self.queue = queue
        self.is_dropped = False
        self.has_started = asyncio.Event()
        # As the reader of a queue that is pulled.
        self.loop = self
        self._context = context
        self._counts = context.feed_context.counters.topics[queue.topic]
        # Popped and not yet answered for.
        self._unfinished_count = 0
        config = context.config
        # What waits here loses its time, so it is little more than the listeners can take.
        self._unfinished_max = max(config.concurrency, config.delivery_count_max)
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        services = self._context.membership.instance.services
        self._task = services.run(f"pop {self.queue}", self._run, on_failure=OnFailure.RESTART)

    def stop(self) -> None:
        """Pops no more; messages that run are answered for all the same."""
        self.is_dropped = True
        if self._task is not None:
            self._task.cancel()

    def move(self, _offset: int) -> None:
        """Brokers move the offsets of groups that pop."""

    def progress(self) -> PushProgress | None:
        """Brokers know it."""
        return None

    def ended(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        messages = delivery.messages
        self._unfinished_count -= len(messages)
        if self._unfinished_count < self._unfinished_max:
            self._has_room.set()
        if isinstance(error, NotStarted):
            return
        self._counts.call_count += 1
        self._counts.call_duration_s += duration_s
        if error is None:
            self._counts.done_count += len(messages)
            self._context.answers.ack(messages)
        else:
            self._fail(messages, error)

    def all_done(self, deliveries: Sequence[Delivery], duration_s: float) -> None:
        for delivery in deliveries:
            self.ended(delivery, None, duration_s / len(deliveries))

    def _fail(self, messages: Messages, error: BaseException) -> None:
        consequence = consequence_of(error, len(messages))
        done, failed = messages[: consequence.done_count], messages[consequence.done_count :]
        self._counts.done_count += len(done)
        self._counts.failed_count += len(failed)
        answers, retries = self._context.answers, self._context.feed_context.retries
        answers.ack(done)
        if not failed:
            return
        retries.note(error, failed, next_try(failed[0], retries.retry_count_max, consequence))
        dead = [each for each in failed if consequence.is_dead or retries.is_over(each)]
        if dead:
            retries.send_to_dlq(
                dead, error, lambda kept: answers.ack([each for each in dead if each not in kept])
            )
        for message in failed:
            if message not in dead:
                answers.retry(message, retry_delay_s(message, consequence))

    async def _run(self) -> None:
        context = self._context
        while True:
            await context.may_pull.wait()
            await self._has_room.wait()
            try:
                messages = await self._popped()
            except ClientError as error:
                self.has_started.set()
                context.membership.note_error(str(error))
                log.warning("popping from %s failed, retrying: %s", self.queue, error)
                context.membership.instance.routes.renew_soon(self.queue.topic)
                await asyncio.sleep(context.config.error_pause_s)
            else:
                self.has_started.set()
                self._take_in(messages)

    async def _popped(self) -> Messages:
        context, queue = self._context, self.queue
        subscription = context.membership.registration.subscription_of(queue.topic)
        if subscription is None:
            # Its first heartbeat was not answered yet.
            context.membership.instance.beat_soon()
            await asyncio.sleep(context.config.error_pause_s)
            return []
        room = self._unfinished_max - self._unfinished_count
        return await context.popper.pop(
            PopOrder(
                queue.broker_name,
                queue.topic,
                subscription,
                max(1, min(room, context.config.pull_count_max, RECEIVE_COUNT_MAX)),
                context.config.invisible_s,
                WAIT_S,
                queue_id=queue.queue_id,
                from_first=context.config.start_from is not StartFrom.LAST,
            )
        )

    def _take_in(self, messages: Messages) -> None:
        if not messages:
            return
        self._counts.pull_count += 1
        self._counts.pulled_count += len(messages)
        self._unfinished_count += len(messages)
        if self._unfinished_count >= self._unfinished_max:
            self._has_room.clear()
        size = self._context.config.delivery_count_max
        self._context.feed_context.workers.put(
            Delivery(self, messages[start : start + size])
            for start in range(0, len(messages), size)
        )


@final
class PopAssignment:
    """The `QueueOwner` of a push consumer that pops."""

    def __init__(self, context: PopContext) -> None:
        self._context = context
        self._membership = context.membership
        self.readers: dict[QueueRef, PopReader] = {}

    def topics(self) -> Collection[str]:
        """Without that of retries: what was popped comes again from its own topic."""
        wanted = self._membership.subscriptions.by_topic
        return [topic for topic in wanted if not topic.startswith(RETRY_PREFIX)]

    async def registered(self) -> None:
        """Its share comes later."""

    async def share(
        self, topic: str, queues: Sequence[QueueRef], _share: Sequence[QueueRef]
    ) -> bool:
        """What the broker assigns counts, and not what members compute."""
        try:
            assigned = await self._assigned(topic, queues)
        except ClientError as error:
            self._membership.readiness.report(topic, error)
            return False
        places = pop_places(topic, assigned, queues) if topic in self.topics() else []
        for queue in [each for each in self.readers if each.topic == topic]:
            if queue not in places:
                self.drop(queue)
        fresh = [queue for queue in places if queue not in self.readers]
        for queue in fresh:
            reader = self.readers[queue] = PopReader(queue, self._context)
            reader.start()
        if fresh:
            log.info("popping from %s of %s", [queue[1:] for queue in places], topic)
        return True

    async def until_started(self) -> None:
        """A first pop waits for messages, and they are delivered as they come."""

    async def save(self) -> None:
        """Brokers keep the offsets."""

    def drop_unsubscribed(self) -> None:
        for queue in [*self.readers]:
            if queue.topic not in self.topics():
                self.drop(queue)

    def drop(self, queue: QueueRef) -> None:
        self.readers.pop(queue).stop()

    async def leave_all(self, _busy: Collection[QueueRef]) -> None:
        """After the last delivery: returns when brokers know what became of all."""
        await self._context.answers.until_idle()

    async def _assigned(self, topic: str, queues: Sequence[QueueRef]) -> list[QueueAssignment]:
        if not queues:
            return []
        query = AssignmentQuery(
            client_id=self._membership.instance.id,
            consumer_group=self._membership.group,
            message_model="CLUSTERING",
            strategy_name="AVG",
            topic=topic,
        )
        name = queues[0].broker_name
        code = RequestCode.QUERY_ASSIGNMENT
        reply = await self._membership.brokers.ask_master(name, code, NoFields(), write_body(query))
        return reply_body(QueueAssignments, reply, name).message_queue_assignments
