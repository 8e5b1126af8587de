"""Transactions: a message that consumers see only if something else happened, too.

    async with AsyncTransactionProducer("127.0.0.1:9876", "payments", check=was_paid) as producer:
        async with producer.transaction(Message("paid", b"order 7")) as transaction:
            await book_payment(transaction.id)

A broker takes the message first and keeps it back. The block is the local transaction: if it ends
well the message is let go, if it raises the message is thrown away. A broker that hears of neither
asks any producer of the group: `check` has to know the answer, also after a crash.

One process may prepare a message and another one end it: `prepare` returns what `end` needs, to be
sent along. A producer that only prepares has no `check`, and is never asked.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Unpack, final

import msgspec

from roquet.client.config import TIMEOUT_S, ProducerConfig, ProducerOptions
from roquet.client.errors import BadArgument, ClientError, NotYetSafe, SendFailed
from roquet.client.hooks import MessageKind, TransactionState
from roquet.client.lifecycle import AsyncResource
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.sending import ANYWHERE
from roquet.client.producer.statistics import ProducerStatistics
from roquet.client.producer.transaction_ends import Check, TransactionEnds
from roquet.client.user_code import call
from roquet.net.errors import NetError
from roquet.protocol.messages.message import Message, Property

log = logging.getLogger(__name__)

_WHAT: Final = "transaction producer"
_PREPARED: Final = "true"


@final
class Transaction:
    """A message that a broker keeps back. `outcome` is what becomes of it after the block.

    UNKNOWN leaves the decision to `check`, which the broker will ask.
    """

    __slots__ = ("outcome", "receipt")

    def __init__(self, receipt: SendReceipt) -> None:
        self.receipt: Final = receipt
        self.outcome = TransactionState.COMMIT

    @property
    def id(self) -> str:
        """What `check` finds as `message_id`: to be kept with what is done locally."""
        return self.receipt.message_id


@final
class PreparedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that a broker keeps back, wherever it is ended. Can be pickled."""

    group: str
    receipt: SendReceipt

    @property
    def id(self) -> str:
        """What `check` finds as `message_id`."""
        return self.receipt.message_id


# It may be a coroutine function; a plain one may block, because it gets a thread.
LocalTransaction = Callable[[Transaction], TransactionState | Awaitable[TransactionState]]


@final
class AsyncTransactionProducer(AsyncResource):
    """Sends messages in transactions. Belongs to the event loop and the process that opened it.

    `check` says how the transaction of a message ended; an error of it counts as UNKNOWN, and the
    broker asks again later. With None, other producers of the group are asked, and there should be
    some. `options` are the members of `ProducerConfig`.

    For example:

        def was_paid(message):
            is_paid = message.message_id in paid
            return TransactionState.COMMIT if is_paid else TransactionState.ROLLBACK

        paid = set()  # a table of your database
        async with AsyncTransactionProducer("127.0.0.1:9876", "tills", check=was_paid) as producer:
            async with producer.transaction(Message("orders", b"order 7 is paid")) as transaction:
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
        config = ProducerConfig(name_server=name_server, group=group, **options)
        self._group = group
        self._ends = TransactionEnds(_WHAT, config, check)
        self._outbox = self._ends.outbox

    async def open(self) -> None:
        """Begins to live. With a `check` all brokers know of it from now on, and may ask it about
        transactions that others of its group began. Raises NotOpen after `close`."""
        await self._outbox.open()

    async def close(self) -> None:
        """Waits a little for what is on its way, and leaves; a second time does nothing."""
        await self._outbox.close()

    @asynccontextmanager
    async def transaction(
        self, message: Message, *, timeout_s: float = TIMEOUT_S
    ) -> AsyncIterator[Transaction]:
        """The block runs when a broker has the message, and decides what becomes of it.

        An error of the block throws the message away; a block that is cancelled leaves it open.
        Raises SendFailed or SendUnknown before the block, which then does not run.
        """
        transaction = Transaction(await self._begin(message, timeout_s))
        try:
            yield transaction
        except Exception:
            transaction.outcome = TransactionState.ROLLBACK
            raise
        except BaseException:
            # Interrupted: it may be just before or just after its decision.
            transaction.outcome = TransactionState.UNKNOWN
            raise
        finally:
            await self._ends.tell(message, transaction.receipt, transaction.outcome, timeout_s)

    async def send_in_transaction(
        self, message: Message, local: LocalTransaction, *, timeout_s: float = TIMEOUT_S
    ) -> Transaction:
        """The same for a function that does the local part and returns how it ended."""
        async with self.transaction(message, timeout_s=timeout_s) as transaction:
            transaction.outcome = await call(local, transaction)
        return transaction

    async def prepare(self, message: Message, *, timeout_s: float = TIMEOUT_S) -> PreparedMessage:
        """Returns when a broker has the message and keeps it back, until `end` or `check` decides.

        Raises SendFailed or SendUnknown.
        """
        return PreparedMessage(self._group, await self._begin(message, timeout_s))

    async def end(
        self,
        prepared: Iterable[PreparedMessage],
        outcome: TransactionState,
        *,
        in_flight: int = 64,
        timeout_s: float = TIMEOUT_S,
    ) -> list[PreparedMessage]:
        """Ends the transactions of messages that any producer of the group prepared.

        Returns those whose brokers could not be told, or said no: these ask `check`. To end one of
        them again might deliver it twice. Raises BadArgument for a message of another group.
        """
        left: list[PreparedMessage] = []
        waiting = list(prepared)
        strangers = {each.group for each in waiting} - {self._group}
        if strangers:
            raise BadArgument(f"messages of group {strangers.pop()!r} are ended by producers of it")
        self._outbox.usable()
        # All workers take from the same iterator.
        messages = iter(waiting)

        async def work() -> None:
            for each in messages:
                try:
                    await self._ends.end(each.receipt, outcome, timeout_s)
                except (ClientError, NetError) as error:
                    log.warning("%s of %s is left to `check`: %s", outcome, each.id, error)
                    left.append(each)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(in_flight, len(waiting))):
                group.create_task(work())
        return left

    def statistics(self) -> ProducerStatistics:
        """A copy of the counts up to now; a message counts as stored when it is kept back."""
        return self._outbox.statistics()

    async def _begin(self, message: Message, timeout_s: float) -> SendReceipt:
        extra = {
            Property.TRANSACTION_PREPARED: _PREPARED,
            Property.PRODUCER_GROUP: self._ends.wire_group,
        }
        ready = self._outbox.ready(message, extra, MessageKind.HALF)
        try:
            return await self._outbox.send(ready, ANYWHERE, timeout_s)
        except NotYetSafe as error:
            # The broker could forget it after we have done our part.
            rollback = TransactionState.ROLLBACK
            await self._ends.tell(message, error.receipts[0], rollback, timeout_s)
            raise SendFailed(message.topic, f"{error.reason}, so it was rolled back") from None
