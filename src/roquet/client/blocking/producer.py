"""The blocking twin of the producer: the same methods for programs without an event loop."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Unpack, final

from roquet.client.arguments import bad, check_timeout
from roquet.client.blocking.submissions import Submissions
from roquet.client.blocking.twin import BlockingTwin, described_by, sharing_key
from roquet.client.config import TIMEOUT_S, ProducerConfig, ProducerOptions
from roquet.client.producer.outgoing import Delay
from roquet.client.producer.producer import REQUEST_TIMEOUT_S, AsyncProducer
from roquet.client.producer.queue_choice import OrderKey
from roquet.client.producer.receipt import BatchReceipt, ProducerStatistics, SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message


@final
@described_by(AsyncProducer)
class Producer(BlockingTwin[AsyncProducer]):
    """Sends messages. `AsyncProducer` is the same for asyncio.

    One serves a whole program and all of its threads. Every send ends in one of three ways: a
    receipt, SendFailed (not stored) or SendUnknown (nobody knows). `options` are the members of
    `ProducerConfig`. Raises BadArgument, and BadAddress for a name server that is not "host:port".

    For example:

        with Producer("127.0.0.1:9876", group="shop") as producer:
            receipt = producer.send(Message("orders", b"one coffee", tags="new"))
            print(receipt.message_id, receipt.queue_offset)
            producer.send_batch([Message("orders", b"tea"), Message("orders", b"cake")])
    """

    def __init__(
        self, name_server: str | None, group: str, **options: Unpack[ProducerOptions]
    ) -> None:
        twin = AsyncProducer(name_server, group, **options)
        super().__init__(twin, "producer", sharing_key(name_server, options))
        config = ProducerConfig(name_server=name_server, group=group, **options)
        self._submissions = Submissions(
            self._thread, config.in_flight_max, config.in_flight_size_max
        )

    def send(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        delay: Delay | None = None,
        delay_level: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> SendReceipt:
        return self._thread.run(
            self._twin.send(
                message,
                queue=queue,
                order_key=order_key,
                delay=delay,
                delay_level=delay_level,
                timeout_s=timeout_s,
            )
        )

    def submit(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        delay: Delay | None = None,
        delay_level: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Future[SendReceipt]:
        """Sends as `send` does, but returns at once: the future has what that returns or raises.

        Up to `in_flight_max` messages of `in_flight_size_max` bytes are under way; one more waits
        for room, and raises SendFailed when there is none within `timeout_s`. They may overtake
        each other. `close` waits a little for them. Raises BadArgument, NotOpen or UsedAfterFork.
        """
        check_timeout("timeout_s", timeout_s)
        if not isinstance(message, Message):
            raise bad("message", "a Message", message)
        send = partial(
            self._twin.send,
            message,
            queue=queue,
            order_key=order_key,
            delay=delay,
            delay_level=delay_level,
            timeout_s=timeout_s,
        )
        return self._submissions.submit(message.topic, len(message.body), send, timeout_s)

    def send_oneway(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._thread.run(
            self._twin.send_oneway(message, queue=queue, order_key=order_key, timeout_s=timeout_s)
        )

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> list[SendReceipt]:
        return self._thread.run(
            self._twin.send_batch(messages, queue=queue, order_key=order_key, timeout_s=timeout_s)
        )

    def send_encoded(
        self,
        topic: str,
        body: bytes,
        count: int,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> BatchReceipt:
        return self._thread.run(
            self._twin.send_encoded(
                topic, body, count, queue=queue, order_key=order_key, timeout_s=timeout_s
            )
        )

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        in_flight: int = 64,
        timeout_s: float = TIMEOUT_S,
    ) -> list[SendReceipt]:
        return self._thread.run(
            self._twin.send_many(messages, in_flight=in_flight, timeout_s=timeout_s)
        )

    def request(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> ReceivedMessage:
        return self._thread.run(
            self._twin.request(message, queue=queue, order_key=order_key, timeout_s=timeout_s)
        )

    def queues(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> list[QueueRef]:
        return self._thread.run(self._twin.queues(topic, timeout_s=timeout_s))

    def is_stored(self, queue: QueueRef, message_id: str, *, timeout_s: float = TIMEOUT_S) -> bool:
        return self._thread.run(self._twin.is_stored(queue, message_id, timeout_s=timeout_s))

    def statistics(self) -> ProducerStatistics:
        return self._twin.statistics()
