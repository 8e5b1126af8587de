"""The blocking twins of the producers, and sends that a thread does not wait for.

`submit` returns a future. Threads append what they submit to a queue, and the loop is woken once
for all that is in it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Unpack, final

from roquet.client.arguments import bad, check_count, check_timeout
from roquet.client.blocking.direct_send import DirectSends
from roquet.client.blocking.loop_thread import LoopThread
from roquet.client.blocking.twin import BlockingTwin, blocking, described_by, sharing_key
from roquet.client.config import TIMEOUT_S, ProducerConfig, ProducerOptions
from roquet.client.errors import BadArgument, NotOpen, SendFailed, SendUnknown, UsedAfterFork
from roquet.client.hooks import TransactionState
from roquet.client.producer.outgoing import Delay
from roquet.client.producer.producer import AsyncProducer, accumulator_of
from roquet.client.producer.queue_choice import OrderKey
from roquet.client.producer.receipt import ProducerStatistics, SendReceipt
from roquet.client.producer.transaction_producer import (
    AsyncTransactionProducer,
    Check,
    Transaction,
)
from roquet.client.queue_ref import QueueRef
from roquet.protocol.messages.message import Message


@final
@described_by(AsyncProducer)
class Producer(BlockingTwin[AsyncProducer]):
    """Sends messages. `AsyncProducer` is the same for asyncio.

    One serves a whole program and all of its threads. Every send ends in one of three ways: a
    receipt, SendFailed (not stored) or SendUnknown (may be stored). `options` are the members of
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
            self._thread, config.window_count, config.in_flight_size_max
        )
        accumulator = accumulator_of(twin)
        self._direct = None if accumulator is None else DirectSends(accumulator, self._thread)

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
        self._thread.check_caller()
        is_usual = queue is None and order_key is None and delay is None and delay_level is None
        if is_usual and self._direct is not None and self._thread.is_running:
            check_timeout("timeout_s", timeout_s)
            receipt = self._direct.send(message, timeout_s)
            if receipt is not None:
                return receipt
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

        Up to `in_flight_max` messages of `in_flight_size_max` bytes are in flight; one more waits
        for room as long as others are stored, and raises SendFailed when there was none, and
        nothing was stored, for `timeout_s`. They may overtake each other. `close` waits a little
        for them. Raises BadArgument, NotOpen or UsedAfterFork.
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

    def _unsent(self) -> int:
        return self._submissions.count

    send_oneway = blocking(AsyncProducer.send_oneway)
    send_batch = blocking(AsyncProducer.send_batch)
    send_encoded = blocking(AsyncProducer.send_encoded)
    send_many = blocking(AsyncProducer.send_many)

    def send_stream(
        self, messages: Iterable[Message], *, in_flight: int = 64, timeout_s: float = TIMEOUT_S
    ) -> Generator[SendReceipt, None, None]:
        """Sends messages as they come, and yields their receipts in the order of the messages.

        A message is taken when fewer than `in_flight` have no receipt that was taken, so neither
        an endless stream nor a caller that is slow fills the memory. Messages may overtake each
        other. While `messages` blocks, no receipt is yielded. Raises as `send` does for the first
        message that fails; what is in flight then, or when the caller stops, may be stored.
        """
        check_count("in_flight", in_flight)
        check_timeout("timeout_s", timeout_s)
        if isinstance(messages, Message | str | bytes) or not isinstance(messages, Iterable):
            raise bad("messages", "an iterable of Messages", messages)
        return self._stream(messages, in_flight, timeout_s)

    def _stream(
        self, messages: Iterable[Message], in_flight: int, timeout_s: float
    ) -> Generator[SendReceipt, None, None]:
        pending: deque[Future[SendReceipt]] = deque()
        for message in messages:
            pending.append(self.submit(message, timeout_s=timeout_s))
            if len(pending) >= in_flight:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    request = blocking(AsyncProducer.request)
    queues = blocking(AsyncProducer.queues)
    is_stored = blocking(AsyncProducer.is_stored)
    recall = blocking(AsyncProducer.recall)

    def statistics(self) -> ProducerStatistics:
        counted = self._twin.statistics()
        if self._direct is not None:
            counted.stored_count += self._direct.stored_count
            counted.stored_size += self._direct.stored_size
            counted.in_flight_count += self._direct.in_flight_count
        return counted

    def close(self) -> None:
        """Waits a little for messages in flight; a second time does nothing."""
        if self._direct is not None and self._thread.is_running:
            self._direct.close()
        super().close()


@final
@described_by(AsyncTransactionProducer)
class TransactionProducer(BlockingTwin[AsyncTransactionProducer]):
    """Sends messages that consumers see only if something else happened, too.

    A broker withholds the message while the block runs; it is committed when the block ends and
    rolled back if it raises. A broker that learns of neither calls `check`, which has to know the
    answer also after a crash; it is called in a thread of its own. `AsyncTransactionProducer` is
    the same for asyncio. `options` are the members of `ProducerConfig`.

    For example:

        def was_paid(message):
            is_paid = message.message_id in paid
            return TransactionState.COMMIT if is_paid else TransactionState.ROLLBACK

        paid = set()  # a table of your database
        with TransactionProducer("127.0.0.1:9876", "payments", check=was_paid) as producer:
            with producer.transaction(Message("orders", b"order 7 is paid")) as transaction:
                paid.add(transaction.id)
    """

    def __init__(
        self,
        name_server: str | None,
        group: str,
        *,
        check: Check | None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(
            AsyncTransactionProducer(name_server, group, check=check, **options),
            "transaction producer",
            sharing_key(name_server, options),
        )

    @contextmanager
    def transaction(
        self, message: Message, *, timeout_s: float = TIMEOUT_S
    ) -> Iterator[Transaction]:
        """The block runs in the calling thread, so it may use objects that belong to it."""
        with self._thread.entered(self._twin.transaction(message, timeout_s=timeout_s)) as entered:
            yield entered

    def send_in_transaction(
        self,
        message: Message,
        local: Callable[[Transaction], TransactionState],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> Transaction:
        with self.transaction(message, timeout_s=timeout_s) as transaction:
            transaction.outcome = local(transaction)
        return transaction

    prepare = blocking(AsyncTransactionProducer.prepare)
    end = blocking(AsyncTransactionProducer.end)

    def statistics(self) -> ProducerStatistics:
        return self._twin.statistics()


_Send = Callable[[], Coroutine[Any, Any, SendReceipt]]


class _Submission(NamedTuple):
    topic: str
    size: int
    send: _Send
    future: Future[SendReceipt]


@final
class Submissions:
    """Of one producer. Bounded in count and bytes: one more makes its thread wait.

    Something larger than the bound goes when nothing else is in flight, or it never could.
    """

    def __init__(self, thread: LoopThread, count_max: int, size_max: int) -> None:
        self._thread = thread
        self._count_max = count_max
        self._size_max = size_max
        self._count = 0
        self._size = 0
        self._stored_count = 0
        self._has_room = threading.Condition()
        self._submitted: deque[_Submission] = deque()
        self._is_woken = False
        # The loop has only weak references to running tasks.
        self._tasks: set[asyncio.Task[SendReceipt]] = set()

    @property
    def count(self) -> int:
        """Those that have no outcome yet."""
        return self._count

    def submit(self, topic: str, size: int, send: _Send, timeout_s: float) -> Future[SendReceipt]:
        """In any thread. Raises SendFailed without room in time, NotOpen or UsedAfterFork."""
        self._enter(topic, size, timeout_s)
        future: Future[SendReceipt] = Future()
        submission = _Submission(topic, size, send, future)
        self._submitted.append(submission)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._thread.post(self._start_sends)
            except (BadArgument, NotOpen, UsedAfterFork):
                self._is_woken = False
                self._submitted.remove(submission)
                self._leave(size)
                raise
        return future

    def _start_sends(self) -> None:
        """In the loop."""
        # Before the queue is read: a thread that submits after that must wake the loop again.
        self._is_woken = False
        loop = asyncio.get_running_loop()
        while self._submitted:
            submission = self._submitted.popleft()
            if not submission.future.set_running_or_notify_cancel():
                self._leave(submission.size)
                continue
            task = loop.create_task(submission.send())
            self._tasks.add(task)
            task.add_done_callback(partial(self._end, submission))

    def _end(self, submission: _Submission, task: asyncio.Task[SendReceipt]) -> None:
        self._tasks.discard(task)
        future = submission.future
        if task.cancelled():
            future.set_exception(SendUnknown(submission.topic, "its producer was closed"))
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            self._stored_count += 1
            future.set_result(task.result())
        self._leave(submission.size)

    def _enter(self, topic: str, size: int, timeout_s: float) -> None:
        with self._has_room:
            stored_count = self._stored_count
            while not self._has_room.wait_for(lambda: self._fits(size), timeout_s):
                if stored_count == self._stored_count:
                    flight = f"{self._count} sends are in flight, and none is stored"
                    raise SendFailed(topic, f"no room within {timeout_s:g} s: {flight}")
                stored_count = self._stored_count
            self._count += 1
            self._size += size

    def _fits(self, size: int) -> bool:
        return not self._count or (
            self._count < self._count_max and self._size + size <= self._size_max
        )

    def _leave(self, size: int) -> None:
        with self._has_room:
            self._count -= 1
            self._size -= size
            # All waiting threads: the first one may be too large for the room, and another is not.
            self._has_room.notify_all()
