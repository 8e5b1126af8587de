"""Transactions for programs without an event loop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, Unpack, final

from roquet.client.config import TIMEOUT_S, ProducerOptions
from roquet.client.hooks import TransactionState
from roquet.client.loop_thread import LoopThread
from roquet.client.statistics import ProducerStatistics
from roquet.client.transaction_ends import Check
from roquet.client.transaction_producer import AsyncTransactionProducer, Transaction
from roquet.protocol.message import Message


@final
class TransactionProducer:
    """Sends messages in transactions; `AsyncTransactionProducer` says what each method does.

    `check` is called in a thread of its own. Belongs to the process that made it.
    """

    def __init__(
        self, name_server: str, group: str, *, check: Check, **options: Unpack[ProducerOptions]
    ) -> None:
        self._twin = AsyncTransactionProducer(name_server, group, check=check, **options)
        self._thread = LoopThread("transaction producer")

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

    def statistics(self) -> ProducerStatistics:
        return self._twin.statistics()
