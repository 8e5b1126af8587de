"""The push consumer: messages of a group's topics are delivered to a program as they arrive.

    async def listen(message: ReceivedMessage) -> None: ...

    consumer = AsyncPushConsumer("127.0.0.1:9876", "billing", listen)
    consumer.subscribe("orders", tags="new || paid")
    await consumer.run()

A listener that returns acknowledges the message; one that raises gets it redelivered later, as
`outcome.py` explains. Each topic may have a listener of its own:

    consumer = AsyncPushConsumer("127.0.0.1:9876", "billing")

    @consumer.on("orders", tags="new || paid")
    async def bill(message: ReceivedMessage) -> None: ...

Without a listener, `async for message in consumer` yields the messages.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from operator import itemgetter
from typing import Any, Final, TypeVar, Unpack, final, overload

from roquet.client.errors import BadArgument, NothingToRead
from roquet.client.group.readiness import no_topic
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.lifecycle import AsyncResource, Lifecycle
from roquet.client.middleware import surrounded
from roquet.client.names import unwrapped
from roquet.client.push.config import PushConsumerConfig, PushConsumerOptions
from roquet.client.push.iteration import DeliveryIterator, Iterations
from roquet.client.push.listeners import BatchListener, Listener, Listeners, OneListener
from roquet.client.push.member import PushMember, retry_topic
from roquet.client.push.outcome import BROKER_DECIDES, RetryLater
from roquet.client.push.statistics import ConsumerStatistics
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.client.typed.topic import Topic, TypedOn, decoding
from roquet.clock import SystemClock
from roquet.net.loop import stop_signals
from roquet.protocol.names import RETRY_PREFIX

_WHAT: Final = "push consumer"

L = TypeVar("L", bound=Listener)
T = TypeVar("T")


@final
class RunEnding:
    """How a listener ends `run`: by SystemExit, as it would end a program without a loop."""

    def __init__(self) -> None:
        self.stop: Callable[[], object] = lambda: None
        self._exit: SystemExit | None = None

    def end_by(self, error: SystemExit) -> None:
        self._exit = self._exit or error
        self.stop()

    def check(self) -> None:
        """Raises SystemExit if a listener did."""
        if self._exit is not None:
            raise self._exit


@final
class AsyncPushConsumer(AsyncResource):
    """Delivers messages of a group's topics to a coroutine, or to a function in a thread.

    Belongs to the event loop and the process that opened it. `listener` gets one message, or with
    `batch_size` a list of them; without one, `async for message in consumer` yields the messages.
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
        self._ending = RunEnding()
        self._lifecycle = Lifecycle(_WHAT, self._new_member)

    async def open(self, timeout_s: float | None = None) -> None:
        """Joins the group, and returns when it reads the first queues, or after three seconds.

        Raises NotOpen after `close`, RequestRefused when a broker does not support the filter of a
        subscription, and BadStateFile when the offsets of broadcasting cannot be read. Anything
        else that keeps it from consuming is logged and retried for ever; with `timeout_s` it is
        raised when the time is up: NoNameServer, TopicNotFound, Unreachable, RequestRefused or
        NothingToRead.
        """
        await self._lifecycle.open(timeout_s)

    async def close(self) -> None:
        """Waits `close_timeout_s` for running listeners, and leaves the group; a second time does
        nothing.

        Messages that are not acknowledged are delivered again, to the next reader of their queue.
        """
        await self._lifecycle.close()

    async def run(self) -> None:
        """Opens, consumes until SIGINT or SIGTERM, and closes: for programs that only consume.

        A SystemExit of a listener ends it, too, and is raised; its message is redelivered later.
        Raises as `open` does, and NothingToRead without a listener or a topic.
        """
        self._check_can_run()
        if threading.current_thread() is not threading.main_thread():
            raise BadArgument("run() needs the main thread, which gets signals; use open()")
        try:
            with stop_signals() as stop:
                self._ending.stop = stop.set
                await self.open()
                await stop.wait()
        finally:
            # Without the handlers: a second Ctrl-C ends a close that takes too long.
            await self.close()
        self._ending.check()

    def _check_can_run(self) -> None:
        """Raises NothingToRead without a listener or a topic."""
        if not self._listeners:
            raise NothingToRead("it has no listener: give it one, or use @consumer.on(topic)")
        if not any(not topic.startswith(RETRY_PREFIX) for topic in self._subscriptions.by_topic):
            raise no_topic()

    @property
    def last_error(self) -> str | None:
        """The last error, if there was one."""
        member = self._lifecycle.session
        return None if member is None else member.membership.last_error

    def subscribe(
        self, topic: str, *, tags: str | Iterable[str] | None = None, sql: str | None = None
    ) -> None:
        """Subscribes to the messages of a topic: those with tags such as "a || b", those that match
        an SQL92 expression, or all. All members of a group must have the same subscriptions.

        Raises BadArgument.
        """
        self._subscriptions.add(topic, tags, sql, self._clock.now_ms())
        self._update_member()

    @overload
    def on(
        self, topic: str, *, tags: str | Iterable[str] | None = None, sql: str | None = None
    ) -> Callable[[L], L]: ...

    @overload
    def on(
        self, topic: Topic[T], *, tags: str | Iterable[str] | None = None, sql: str | None = None
    ) -> TypedOn[T]: ...

    def on(
        self,
        topic: str | Topic[Any],
        *,
        tags: str | Iterable[str] | None = None,
        sql: str | None = None,
    ) -> Any:
        """Subscribes to a topic and makes the function below its listener.

        That of a typed topic gets the value, and if it has a second parameter, the message; what
        cannot be decoded is a dead letter at once. Before `open`, and without a listener for all
        topics. Raises BadArgument.
        """
        if self._lifecycle.session is not None:
            raise BadArgument("the consumer is open already; add listeners before `open`")
        if isinstance(topic, Topic) and self._config.batch_size is not None:
            raise BadArgument(
                "a typed topic delivers one value at a time: leave out `batch_size`, or use "
                f"on({topic.name!r}) and `Topic.decode` for each message"
            )

        def listen(listener: Any) -> Any:
            name = topic.name if isinstance(topic, Topic) else topic
            listening = decoding(topic, listener) if isinstance(topic, Topic) else listener
            self._listeners.add(name, listening)
            self.subscribe(name, tags=tags, sql=sql)
            return listener

        return listen

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription of a topic; one that does not exist is no error."""
        self._subscriptions.remove(topic)
        self._update_member()

    def pause(self) -> None:
        """Pauses delivery until `resume`; the consumer keeps its queues. Raises NotOpen."""
        self._lifecycle.usable().pause()

    def resume(self) -> None:
        """Continues after `pause`. Raises NotOpen."""
        self._lifecycle.usable().resume()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Asking for the next message acknowledges the last one. Raises BadArgument or NotOpen."""
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
        """For programs without a listener: the message is redelivered to the group later. Asking
        for the next message acknowledges this delivery. `RetryLater` explains the delay.

        Raises Unreachable or RequestRefused when no broker took it, and BadArgument.
        """
        if self._config.mode == "pop":
            raise BadArgument('with mode="pop", raise RetryLater in a listener', "mode")
        level = RetryLater(delay, delay_level=delay_level).delay_level or BROKER_DECIDES
        member = self._lifecycle.usable()
        await member.send_back.send_back(message, level, self._config.wire_retry_count_max)

    def queues(self) -> list[QueueRef]:
        """The queues of its topics that this member reads now. Raises NotOpen."""
        namespace = self._config.namespace
        return [
            queue._replace(topic=unwrapped(namespace, queue.topic))
            for queue in sorted(self._lifecycle.usable().assignment.readers)
            # The program did not subscribe to the retry topic; it comes with the group.
            if not queue.topic.startswith(RETRY_PREFIX)
        ]

    def statistics(self) -> ConsumerStatistics:
        """Counts, rates, and the progress in each queue."""
        member = self._lifecycle.session
        return ConsumerStatistics() if member is None else member.statistics()

    def _new_member(self) -> PushMember:
        config = self._config
        listener = surrounded(self._listeners.one(), config.middleware, config.group)
        return PushMember(config, listener, self._subscriptions, self._clock, self._ending.end_by)

    def _iterations(self) -> Iterations:
        workers = self._lifecycle.usable().workers
        if not isinstance(workers, Iterations):
            raise BadArgument("this consumer has a listener, which gets all messages")
        return workers

    def _update_member(self) -> None:
        if self._lifecycle.session is not None:
            self._lifecycle.usable().subscriptions_changed()
