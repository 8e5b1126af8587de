"""The blocking twins of consumers."""

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack, final, overload

from roquet.client.blocking.signals import stop_signals
from roquet.client.blocking.twin import BlockingTwin, described_by, sharing_key
from roquet.client.group.pulling import Pulled
from roquet.client.pull.config import PullConsumerOptions
from roquet.client.pull.consumer import (
    POLL_TIMEOUT_S,
    PULL_COUNT,
    AsyncPullConsumer,
    PullStatistics,
)
from roquet.client.pull.schedule import DELAY_S, PullWork
from roquet.client.pull.topic_watch import OnTopicQueues
from roquet.client.push.config import PushConsumerOptions
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.iteration import DeliveryIterator
from roquet.client.push.listeners import BatchListener, Listener, OneListener
from roquet.client.push.statistics import ConsumerStatistics
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage

L = TypeVar("L", bound=Listener)
T = TypeVar("T")


@final
@described_by(AsyncPushConsumer)
class PushConsumer(BlockingTwin[AsyncPushConsumer]):
    """Hands messages of a group's topics to a function.

    `AsyncPushConsumer` is the same for asyncio. A function runs in threads of its own, a coroutine
    in the thread of the loop; without a listener, `for message in consumer` gives the messages. A
    listener that returns is done with its message. RetryLater brings it back later, and so does
    any other error; DeadLetter gives it up. With `batch_size` the listener gets a list. `options`
    are the members of `PushConsumerConfig`. Raises BadArgument, and BadAddress for a name server
    that is not "host:port".

    For example:

        consumer = PushConsumer("127.0.0.1:9876", "billing", start_from=StartFrom.FIRST)

        @consumer.on("orders", tags="new || paid")
        def bill(message):
            print(message.body, message.keys, message.retry_count)

        consumer.run()  # until Ctrl-C or SIGTERM
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
        listener: Any = None,
        *,
        batch_size: Any = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        super().__init__(
            AsyncPushConsumer(name_server, group, listener, batch_size=batch_size, **options),
            "push consumer",
            sharing_key(name_server, options),
        )
        # Loops that are not over, and whose they are.
        self._loops: dict[DeliveryIterator[Any], threading.Thread] = {}

    def open(self, timeout_s: float | None = None) -> None:
        self._open(lambda: self._twin.open(timeout_s))

    def run(self) -> None:
        """Opens, consumes until SIGINT or SIGTERM, and closes: what a program does that does
        nothing else. Belongs to the main thread, which gets signals.

        Raises as `open` does, BadArgument in another thread, and NothingToRead without a listener
        or a topic.
        """
        self._twin._check_can_run()  # noqa: SLF001  Twins know each other.
        with stop_signals(self.run) as wait, self:
            wait()

    def close(self) -> None:
        """Waits a while for running listeners and for loops of other threads, and leaves the
        group; a second time does nothing. What is not done then is delivered again."""
        for loop, thread in [*self._loops.items()]:
            # It would wait for itself.
            if thread is threading.current_thread() and self._thread.is_running:
                self._thread.call(loop.close)
        super().close()

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        self._thread.call(lambda: self._twin.subscribe(topic, tags=tags, sql=sql))

    def on(
        self, topic: str, *, tags: str | None = None, sql: str | None = None
    ) -> Callable[[L], L]:
        return self._twin.on(topic, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        self._thread.call(lambda: self._twin.unsubscribe(topic))

    @property
    def last_error(self) -> str | None:
        """The last thing that went wrong, if anything did."""
        return self._twin.last_error

    def pause(self) -> None:
        self._thread.call(self._twin.pause)

    def resume(self) -> None:
        self._thread.call(self._twin.resume)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self._iterated(self._twin.__aiter__)

    def batches(self) -> Iterator[list[ReceivedMessage]]:
        return self._iterated(self._twin.batches)

    def retry_later(
        self,
        message: ReceivedMessage,
        delay: timedelta | None = None,
        *,
        delay_level: int | None = None,
    ) -> None:
        self._thread.run(self._twin.retry_later(message, delay, delay_level=delay_level))

    def queues(self) -> list[QueueRef]:
        return self._thread.call(self._twin.queues)

    def statistics(self) -> ConsumerStatistics:
        return self._thread.call(self._twin.statistics)

    def _iterated(self, begin: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        iterator = self._thread.call(begin)
        assert isinstance(iterator, DeliveryIterator)
        iterator.is_of_a_thread = True
        self._loops[iterator] = threading.current_thread()
        try:
            while True:
                yield self._thread.run(iterator.__anext__())
        except StopAsyncIteration:
            return
        finally:
            self._loops.pop(iterator, None)
            if self._thread.is_running:
                self._thread.call(iterator.close)


@final
@described_by(AsyncPullConsumer)
class PullConsumer(BlockingTwin[AsyncPullConsumer]):
    """Gives messages when it is asked. `AsyncPullConsumer` is the same for asyncio.

    A member of a group gets its share of the queues with `subscribe`, or takes those it wants with
    `assign`. With `auto_commit`, what a poll gave counts as done when the next one begins.
    `options` are the members of `PullConsumerConfig`. Belongs to the process that made it;
    `on_queues` is called in the thread of the loop.

    For example:

        consumer = PullConsumer("127.0.0.1:9876", "archive", start_from=StartFrom.FIRST)
        consumer.subscribe("orders")
        with consumer:
            for message in consumer.poll(timeout_s=30):
                print(message.queue.queue_id, message.queue_offset, message.body)
            consumer.commit()
    """

    def __init__(
        self, name_server: str | None, group: str, **options: Unpack[PullConsumerOptions]
    ) -> None:
        twin = AsyncPullConsumer(name_server, group, **options)
        super().__init__(twin, "pull consumer", sharing_key(name_server, options))

    def open(self, timeout_s: float | None = None) -> None:
        self._open(lambda: self._twin.open(timeout_s))

    @property
    def last_error(self) -> str | None:
        """The last thing that went wrong, if anything did."""
        return self._twin.last_error

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        self._thread.call(lambda: self._twin.subscribe(topic, tags=tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        self._thread.call(lambda: self._twin.unsubscribe(topic))

    def assign(
        self, queues: Iterable[QueueRef], *, tags: str | None = None, sql: str | None = None
    ) -> None:
        self._thread.call(lambda: self._twin.assign(queues, tags=tags, sql=sql))

    def assignment(self) -> list[QueueRef]:
        return self._thread.call(self._twin.assignment)

    def watch_queues(self, topic: str, on_queues: OnTopicQueues) -> list[QueueRef]:
        return self._thread.run(self._twin.watch_queues(topic, on_queues))

    def queues(self, topic: str) -> list[QueueRef]:
        return self._thread.run(self._twin.queues(topic))

    def pause(self, queues: Iterable[QueueRef]) -> None:
        self._thread.call(lambda: self._twin.pause(queues))

    def resume(self, queues: Iterable[QueueRef]) -> None:
        self._thread.call(lambda: self._twin.resume(queues))

    def poll(self, *, timeout_s: float = POLL_TIMEOUT_S) -> list[ReceivedMessage]:
        return self._thread.run(self._twin.poll(timeout_s=timeout_s))

    def seek(self, queue: QueueRef, offset: int) -> None:
        self._thread.run(self._twin.seek(queue, offset))

    def seek_to_begin(self, queue: QueueRef) -> None:
        self._thread.run(self._twin.seek_to_begin(queue))

    def seek_to_end(self, queue: QueueRef) -> None:
        self._thread.run(self._twin.seek_to_end(queue))

    def position(self, queue: QueueRef) -> int | None:
        return self._thread.call(lambda: self._twin.position(queue))

    def commit(self, offsets: Mapping[QueueRef, int] | None = None) -> None:
        self._thread.run(self._twin.commit(offsets))

    def committed(self, queue: QueueRef) -> int | None:
        return self._thread.run(self._twin.committed(queue))

    def offset_for_time(self, queue: QueueRef, moment: datetime) -> int:
        return self._thread.run(self._twin.offset_for_time(queue, moment))

    def begin_offset(self, queue: QueueRef) -> int:
        return self._thread.run(self._twin.begin_offset(queue))

    def end_offset(self, queue: QueueRef) -> int:
        return self._thread.run(self._twin.end_offset(queue))

    def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        count_max: int = PULL_COUNT,
        tags: str | None = None,
        sql: str | None = None,
        wait_s: float = 0.0,
    ) -> Pulled:
        return self._thread.run(
            self._twin.pull(queue, offset, count_max=count_max, tags=tags, sql=sql, wait_s=wait_s)
        )

    def schedule(self, work: PullWork, *, delay_s: float = DELAY_S) -> None:
        self._thread.call(lambda: self._twin.schedule(work, delay_s=delay_s))

    def statistics(self) -> PullStatistics:
        return self._thread.call(self._twin.statistics)
