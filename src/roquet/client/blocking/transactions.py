"""Transactions for programs without an event loop."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Unpack, final

from roquet.client.blocking.twin import BlockingTwin, described_by, sharing_key
from roquet.client.config import TIMEOUT_S, ProducerOptions
from roquet.client.hooks import TransactionState
from roquet.client.producer.receipt import ProducerStatistics
from roquet.client.producer.transaction_producer import (
    AsyncTransactionProducer,
    Check,
    PreparedMessage,
    Transaction,
)
from roquet.protocol.messages.message import Message


@final
@described_by(AsyncTransactionProducer)
class TransactionProducer(BlockingTwin[AsyncTransactionProducer]):
    """Sends messages that consumers see only if something else happened, too.

    A broker keeps the message back while the block runs; it is let go if the block ends well and
    thrown away if it raises. A broker that hears of neither asks `check`, which has to know the
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
        """The block runs in the thread that calls, so it may use what belongs to that."""
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

    def prepare(self, message: Message, *, timeout_s: float = TIMEOUT_S) -> PreparedMessage:
        return self._thread.run(self._twin.prepare(message, timeout_s=timeout_s))

    def end(
        self,
        prepared: Iterable[PreparedMessage],
        outcome: TransactionState,
        *,
        in_flight: int = 64,
        timeout_s: float = TIMEOUT_S,
    ) -> list[PreparedMessage]:
        return self._thread.run(
            self._twin.end(prepared, outcome, in_flight=in_flight, timeout_s=timeout_s)
        )

    def statistics(self) -> ProducerStatistics:
        return self._twin.statistics()
