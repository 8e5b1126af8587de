"""The blocking twins of consumers."""

import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack, final, overload

from roquet.client.blocking.twin import BlockingTwin, blocking, described_by, in_loop, sharing_key
from roquet.client.errors import BadArgument
from roquet.client.pop.consumer import AsyncPopConsumer, PopConsumerOptions
from roquet.client.pull.config import PullConsumerOptions
from roquet.client.pull.consumer import (
    AsyncPullConsumer,
)
from roquet.client.push.config import PushConsumerOptions
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.iteration import DeliveryIterator
from roquet.client.push.listeners import BatchListener, Listener, OneListener
from roquet.client.received import ReceivedMessage
from roquet.client.typed.topic import Topic, TypedOn

L = TypeVar("L", bound=Listener)
T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@final
@described_by(AsyncPushConsumer)
class PushConsumer(BlockingTwin[AsyncPushConsumer]):
    """Delivers messages of a group's topics to a function.

    `AsyncPushConsumer` is the same for asyncio. A function runs in threads of its own, a coroutine
    in the thread of the loop; without a listener, `for message in consumer` yields the messages. A
    listener that returns acknowledges its message. After RetryLater or any other error it is
    redelivered later; DeadLetter gives it up. With `batch_size` the listener gets a list.
    `options` are the members of `PushConsumerConfig`. Raises BadArgument, and BadAddress for a
    name server that is not "host:port".

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
        # Running loops, and their threads.
        self._loops: dict[DeliveryIterator[Any], threading.Thread] = {}

    def open(self, timeout_s: float | None = None) -> None:
        self._open(lambda: self._twin.open(timeout_s))

    def run(self) -> None:
        """Opens, consumes until SIGINT or SIGTERM, and closes: for programs that only consume.
        Needs the main thread, which gets signals. A SystemExit of a listener ends it, too, and is
        raised; its message is redelivered later.

        Raises as `open` does, BadArgument in another thread, and NothingToRead without a listener
        or a topic.
        """
        twin = self._twin
        twin._check_can_run()  # noqa: SLF001  Twins know each other.
        with stop_signals(self.run) as gate, self:
            twin._ending.stop = gate.open  # noqa: SLF001
            gate.wait()
        twin._ending.check()  # noqa: SLF001

    def close(self) -> None:
        """Waits `close_timeout_s` for running listeners and loops of other threads, and leaves the
        group; a second time does nothing. Messages that are not acknowledged are redelivered."""
        for loop, thread in [*self._loops.items()]:
            # It would wait for itself.
            if thread is threading.current_thread() and self._thread.is_running:
                self._thread.call(loop.close)
        super().close()

    subscribe = in_loop(AsyncPushConsumer.subscribe)

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
        return self._twin.on(topic, tags=tags, sql=sql)

    unsubscribe = in_loop(AsyncPushConsumer.unsubscribe)

    @property
    def last_error(self) -> str | None:
        """The last error, if there was one."""
        return self._twin.last_error

    pause = in_loop(AsyncPushConsumer.pause)
    resume = in_loop(AsyncPushConsumer.resume)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self._iterated(self._twin.__aiter__)

    def batches(self) -> Iterator[list[ReceivedMessage]]:
        return self._iterated(self._twin.batches)

    retry_later = blocking(AsyncPushConsumer.retry_later)
    queues = in_loop(AsyncPushConsumer.queues)
    statistics = in_loop(AsyncPushConsumer.statistics)

    def _iterated(self, new_iterator: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        iterator = self._thread.call(new_iterator)
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
    """Returns messages when it is polled. `AsyncPullConsumer` is the same for asyncio.

    A member of a group gets its share of the queues with `subscribe`, or takes those it wants with
    `assign`. With `auto_commit`, the next poll acknowledges the messages of the last one.
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
        """The last error, if there was one."""
        return self._twin.last_error

    subscribe = in_loop(AsyncPullConsumer.subscribe)
    unsubscribe = in_loop(AsyncPullConsumer.unsubscribe)
    assign = in_loop(AsyncPullConsumer.assign)
    assignment = in_loop(AsyncPullConsumer.assignment)
    watch_queues = blocking(AsyncPullConsumer.watch_queues)
    queues = blocking(AsyncPullConsumer.queues)
    pause = in_loop(AsyncPullConsumer.pause)
    resume = in_loop(AsyncPullConsumer.resume)
    poll = blocking(AsyncPullConsumer.poll)
    seek = blocking(AsyncPullConsumer.seek)
    seek_to_begin = blocking(AsyncPullConsumer.seek_to_begin)
    seek_to_end = blocking(AsyncPullConsumer.seek_to_end)
    position = in_loop(AsyncPullConsumer.position)
    commit = blocking(AsyncPullConsumer.commit)
    committed = blocking(AsyncPullConsumer.committed)
    offset_for_time = blocking(AsyncPullConsumer.offset_for_time)
    begin_offset = blocking(AsyncPullConsumer.begin_offset)
    end_offset = blocking(AsyncPullConsumer.end_offset)
    pull = blocking(AsyncPullConsumer.pull)
    schedule = in_loop(AsyncPullConsumer.schedule)
    statistics = in_loop(AsyncPullConsumer.statistics)


@final
class Gate:
    """One thread waits until another, or the handler of a signal, opens it."""

    def __init__(self) -> None:
        # Not an event: a handler may run while the thread that waits holds the event's own lock.
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> None:
        self._lock.acquire()

    def open(self) -> None:
        if self._lock.locked():
            self._lock.release()


@contextmanager
def stop_signals(caller: Callable[..., object]) -> Iterator[Gate]:
    """Yields a gate that SIGINT or SIGTERM opens. After the first one the old handlers are
    restored, so that a second Ctrl-C ends a program that takes too long to close.

    Raises BadArgument, which names `caller`, outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise BadArgument(
            f"{caller.__name__}() needs the main thread, which gets signals; in others use `with`"
        )
    gate = Gate()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(_number: int, _frame: object) -> None:
        restore()
        gate.open()

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield gate
    finally:
        restore()


@final
@described_by(AsyncPopConsumer)
class PopConsumer(BlockingTwin[AsyncPopConsumer]):
    """Takes messages for a time, and acknowledges each of them; needs brokers of Roquet or 5.x.
    `AsyncPopConsumer` is the same for asyncio.

    One serves any number of threads. `options` are the members of `PopConsumerConfig`.

    For example:

        with PopConsumer("127.0.0.1:9876", "billing") as consumer:
            for message in consumer.receive("orders", invisible_s=60):
                consumer.ack(message)
    """

    def __init__(
        self, name_server: str | None, group: str, **options: Unpack[PopConsumerOptions]
    ) -> None:
        super().__init__(AsyncPopConsumer(name_server, group, **options), "pop consumer")

    receive = blocking(AsyncPopConsumer.receive)
    ack = blocking(AsyncPopConsumer.ack)
    change_invisible = blocking(AsyncPopConsumer.change_invisible)
