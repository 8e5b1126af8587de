"""The blocking twins of consumers. See `blocking.py` for how they live."""

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar, Unpack, final

from roquet.client.consumer_config import PushConsumerOptions
from roquet.client.consumer_statistics import ConsumerStatistics
from roquet.client.iteration import DeliveryIterator
from roquet.client.loop_thread import LoopThread
from roquet.client.outcome import BROKER_DECIDES
from roquet.client.push_consumer import AsyncPushConsumer, Listener
from roquet.client.receipt import QueueRef
from roquet.client.received import ReceivedMessage

T = TypeVar("T")


@final
class PushConsumer:
    """Hands messages to a listener; `AsyncPushConsumer` says what each method does.

    A function runs in threads of its own, a coroutine in the thread of the loop. Without a
    listener, `for message in consumer` gives the messages.
    """

    def __init__(
        self,
        name_server: str,
        group: str,
        listener: Listener | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        self._twin = AsyncPushConsumer(name_server, group, listener, **options)
        self._thread = LoopThread("push consumer")

    def open(self) -> None:
        self._thread.start()
        self._thread.run(self._twin.open())

    def close(self) -> None:
        if self._thread.is_running:
            self._thread.run(self._twin.close())
            self._thread.stop()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        self._in_loop(lambda: self._twin.subscribe(topic, tags=tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        self._in_loop(lambda: self._twin.unsubscribe(topic))

    def pause(self) -> None:
        self._in_loop(self._twin.pause)

    def resume(self) -> None:
        self._in_loop(self._twin.resume)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self._iterated(self._twin.__aiter__)

    def batches(self) -> Iterator[list[ReceivedMessage]]:
        return self._iterated(self._twin.batches)

    def retry_later(self, message: ReceivedMessage, *, delay_level: int = BROKER_DECIDES) -> None:
        self._thread.run(self._twin.retry_later(message, delay_level=delay_level))

    def queues(self) -> list[QueueRef]:
        return self._in_loop(self._twin.queues)

    def statistics(self) -> ConsumerStatistics:
        return self._in_loop(self._twin.statistics)

    def _in_loop(self, function: Callable[[], T]) -> T:
        """State belongs to the loop, as soon as there is one."""
        if not self._thread.is_running:
            return function()

        async def call() -> T:
            return function()

        return self._thread.run(call())

    def _iterated(self, begin: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        iterator = self._in_loop(begin)
        assert isinstance(iterator, DeliveryIterator)
        try:
            while True:
                yield self._thread.run(iterator.__anext__())
        except StopAsyncIteration:
            return
        finally:
            if self._thread.is_running:
                self._in_loop(iterator.close)
