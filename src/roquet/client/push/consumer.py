"""The push consumer: messages of a group's topics are handed to a program as they come.

    async def listen(message: ReceivedMessage) -> None: ...

    consumer = AsyncPushConsumer("127.0.0.1:9876", "billing", listen)
    consumer.subscribe("orders", tags="new || paid")
    await consumer.run()

A listener that returns has done its work; how it says something else is in `outcome.py`. Each topic
may have a listener of its own:

    consumer = AsyncPushConsumer("127.0.0.1:9876", "billing")

    @consumer.on("orders", tags="new || paid")
    async def bill(message: ReceivedMessage) -> None: ...

Without a listener, `async for message in consumer` gives the messages.
"""

import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from operator import itemgetter
from typing import Final, TypeVar, Unpack, final, overload

from roquet.client.errors import BadArgument, NothingToRead
from roquet.client.group.lifetime import Lifetime
from roquet.client.group.readiness import no_topic
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.lifecycle import AsyncResource
from roquet.client.names import unwrapped
from roquet.client.push.config import PushConsumerConfig, PushConsumerOptions
from roquet.client.push.iteration import DeliveryIterator, Iterations
from roquet.client.push.listeners import BatchListener, Listener, Listeners, OneListener
from roquet.client.push.member import PushMember, retry_topic
from roquet.client.push.outcome import BROKER_DECIDES, RetryLater
from roquet.client.push.statistics import ConsumerStatistics
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.net.loop import stop_signals
from roquet.protocol.names import RETRY_PREFIX

_WHAT: Final = "push consumer"

L = TypeVar("L", bound=Listener)


@final
class AsyncPushConsumer(AsyncResource):
    """Hands messages of a group's topics to a coroutine, or to a function in a thread.

    Belongs to the event loop and the process that opened it. `listener` gets one message, or with
    `batch_size` a list of them; without one, `async for message in consumer` gives the messages.
    `options` are the members of `PushConsumerConfig`. Raises BadArgument, and BadAddress for a name
    server that is not "host:port"; several are joined by semicolons.

    For example:

        consumer = AsyncPushConsumer("127.0.0.1:9876", "billing", start_from=StartFrom.FIRST)
        consumer.subscribe("orders", tags="new || paid")
        async with consumer:
            async for message in consumer:
                print(message.body)
                break
    """

    @overload
    def __init__(
        self,
        name_server: str | None,
        group: str,
        listener: OneListener | None = None,
        *,
        batch_size: None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        name_server: str | None,
        group: str,
        listener: BatchListener | None = None,
        *,
        batch_size: int,
        **options: Unpack[PushConsumerOptions],
    ) -> None: ...

    def __init__(
        self,
        name_server: str | None,
        group: str,
        listener: Listener | None = None,
        *,
        batch_size: int | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        self._config = PushConsumerConfig(
            name_server=name_server, group=group, batch_size=batch_size, **options
        )
        self._listeners = Listeners(listener, is_batch=batch_size is not None)
        self._clock = SystemClock()
        self._subscriptions = Subscriptions(self._config.namespace)
        if not self._config.broadcasting:
            self._subscriptions.add(retry_topic(group), None, None, self._clock.now_ms())
        self._life = Lifetime(_WHAT, self._new_member)

    async def open(self, timeout_s: float | None = None) -> None:
        """Joins the group, and returns when the first queues are read; they may also come later.

        Raises NotOpen after `close`, RequestRefused when a broker cannot filter as it should, and
        BadStateFile when the offsets of broadcasting cannot be read. What is in its way is logged
        once and tried again for ever; with `timeout_s` it is raised instead when the time is up:
        NoNameServer, TopicNotFound, Unreachable, RequestRefused or NothingToRead.
        """
        await self._life.open(timeout_s)

    async def close(self) -> None:
        """Waits a while for running listeners, and leaves the group; a second time does nothing.

        What is not done then is delivered again, to whichever member reads the queue next.
        """
        await self._life.close()

    async def run(self) -> None:
        """Opens, consumes until SIGINT or SIGTERM, and closes: what a program does that does
        nothing else. Raises as `open` does, and NothingToRead without a listener or a topic.
        """
        self._check_can_run()
        if threading.current_thread() is not threading.main_thread():
            raise BadArgument("run() belongs to the main thread, which gets signals; use open()")
        try:
            with stop_signals() as stop:
                await self.open()
                await stop.wait()
        finally:
            # Without the handlers: a second Ctrl-C ends what takes too long.
            await self.close()

    def _check_can_run(self) -> None:
        """Raises NothingToRead when nothing would ever happen."""
        if not self._listeners:
            raise NothingToRead("it has no listener: give it one, or use @consumer.on(topic)")
        if not any(not topic.startswith(RETRY_PREFIX) for topic in self._subscriptions.by_topic):
            raise no_topic()

    @property
    def last_error(self) -> str | None:
        """The last thing that went wrong, if anything did."""
        member = self._life.member
        return None if member is None else member.membership.last_error

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Wants the messages of a topic: those with tags such as "a || b", those that an SQL92
        expression picks, or all. All members of a group have to want the same.

        Raises BadArgument.
        """
        self._subscriptions.add(topic, tags, sql, self._clock.now_ms())
        self._tell_member()

    def on(
        self, topic: str, *, tags: str | None = None, sql: str | None = None
    ) -> Callable[[L], L]:
        """Subscribes to a topic and makes the function below its listener.

        Before `open`, and without a listener for all topics. Raises BadArgument.
        """
        if self._life.member is not None:
            raise BadArgument("the consumer is open already; its listeners are known before that")

        def listen(listener: L) -> L:
            self._listeners.add(topic, listener)
            self.subscribe(topic, tags=tags, sql=sql)
            return listener

        return listen

    def unsubscribe(self, topic: str) -> None:
        """Wants no more of a topic; one that is not wanted is no error."""
        self._subscriptions.remove(topic)
        self._tell_member()

    def pause(self) -> None:
        """Nothing is delivered until `resume`; queues are kept. Raises NotOpen."""
        self._life.usable().pause()

    def resume(self) -> None:
        """Goes on after `pause`. Raises NotOpen."""
        self._life.usable().resume()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """A message is done when the next one is asked for. Raises BadArgument or NotOpen."""
        if self._config.batch_size is not None:
            raise BadArgument('there is a `batch_size`: use "async for messages in .batches()"')
        first: Callable[[list[ReceivedMessage]], ReceivedMessage] = itemgetter(0)
        return DeliveryIterator(self._iterations(), first)

    def batches(self) -> AsyncIterator[list[ReceivedMessage]]:
        """The same for up to `batch_size` messages at a time."""
        return DeliveryIterator(self._iterations(), list[ReceivedMessage].copy)

    async def retry_later(
        self,
        message: ReceivedMessage,
        delay: timedelta | None = None,
        *,
        delay_level: int | None = None,
    ) -> None:
        """For programs without a listener: the group gets the message again, and this one counts
        as done when the next is asked for. When it comes, `RetryLater` explains.

        Raises Unreachable or RequestRefused when no broker took it, and BadArgument.
        """
        level = RetryLater(delay, delay_level=delay_level).delay_level or BROKER_DECIDES
        member = self._life.usable()
        await member.send_back.send_back(message, level, self._config.wire_retry_count_max)

    def queues(self) -> list[QueueRef]:
        """Those of its topics that this member reads now. Raises NotOpen."""
        namespace = self._config.namespace
        return [
            queue._replace(topic=unwrapped(namespace, queue.topic))
            for queue in sorted(self._life.usable().assignment.readers)
            # Nobody subscribed to the retry topic; it comes with the group.
            if not queue.topic.startswith(RETRY_PREFIX)
        ]

    def statistics(self) -> ConsumerStatistics:
        """What was done so far, how fast, and how far it is."""
        member = self._life.member
        return ConsumerStatistics() if member is None else member.statistics()

    def _new_member(self) -> PushMember:
        return PushMember(self._config, self._listeners.one(), self._subscriptions, self._clock)

    def _iterations(self) -> Iterations:
        workers = self._life.usable().workers
        if not isinstance(workers, Iterations):
            raise BadArgument("this consumer has a listener, which gets all messages")
        return workers

    def _tell_member(self) -> None:
        if self._life.member is not None:
            self._life.usable().wants_changed()
