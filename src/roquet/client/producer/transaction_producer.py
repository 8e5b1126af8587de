"""Transactions: a message that consumers see only if something else happened, too.

    async with AsyncTransactionProducer("127.0.0.1:9876", "payments", check=was_paid) as producer:
        async with producer.transaction(Message("paid", b"order 7")) as transaction:
            await book_payment(transaction.id)

A broker stores the message first and withholds it. The block is the local transaction: when it
ends, the message is committed; when it raises, it is rolled back. A broker that learns of neither
checks with any producer of the group: `check` has to know the answer, also after a crash.

One process may prepare a message and another one end it: `prepare` returns what `end` needs. A
producer that only prepares has no `check`, and is never asked.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Unpack, final

import msgspec

from roquet.client.arguments import utc
from roquet.client.callbacks import call, call_all, call_or
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.config import TIMEOUT_S, ProducerConfig, ProducerOptions
from roquet.client.errors import (
    BadArgument,
    ClientError,
    NotOpen,
    NotYetSafe,
    RequestRefused,
    SendFailed,
    Unreachable,
)
from roquet.client.hooks import MessageKind, TransactionEnd, TransactionState
from roquet.client.lifecycle import AsyncResource
from roquet.client.middleware import SendChain
from roquet.client.names import wrapped
from roquet.client.producer.accumulator import Accumulator
from roquet.client.producer.queue_choice import ANYWHERE
from roquet.client.producer.receipt import ProducerStatistics, SendReceipt
from roquet.client.received import ReceivedMessage, received_of
from roquet.net.connection import Connection
from roquet.net.errors import NetError
from roquet.net.router import Reply, Request, Router, on
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.headers.messages import CheckTransactionHeader, EndTransactionHeader
from roquet.protocol.messages.message import Message, Property
from roquet.protocol.messages.message_id import parse_offset_id

log = logging.getLogger(__name__)

_WHAT: Final = "transaction producer"
_PREPARED: Final = "true"
_END: Final = RequestCode.END_TRANSACTION
# Checks that wait for `check`. More are not answered: brokers check again.
_CHECK_COUNT_MAX: Final = 2000

# A coroutine function, or a function that may block: it runs in a thread.
Check = Callable[[ReceivedMessage], TransactionState | Awaitable[TransactionState]]


@final
class Transaction:
    """A message that a broker withholds. `outcome` decides about it after the block.

    UNKNOWN leaves the decision to `check`, which the broker calls later.
    """

    __slots__ = ("outcome", "receipt")

    def __init__(self, receipt: SendReceipt) -> None:
        self.receipt: Final = receipt
        self.outcome = TransactionState.COMMIT

    @property
    def id(self) -> str:
        """What `check` finds as `message_id`: store it with the local transaction."""
        return self.receipt.message_id


@final
class PreparedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that a broker withholds, wherever it is ended. Can be pickled."""

    group: str
    receipt: SendReceipt

    @property
    def id(self) -> str:
        """What `check` finds as `message_id`."""
        return self.receipt.message_id


# A coroutine function, or a function that may block: it runs in a thread.
LocalTransaction = Callable[[Transaction], TransactionState | Awaitable[TransactionState]]


@final
class AsyncTransactionProducer(AsyncResource):
    """Sends messages in transactions. Belongs to the event loop and the process that opened it.

    `check` returns how the transaction of a message ended; an error counts as UNKNOWN, and the
    broker checks again later. With None, brokers check with other producers of the group.
    `options` are the members of `ProducerConfig`.

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
        self._accumulator = self._ends.accumulator
        self._middleware = SendChain(config.middleware)

    async def open(self) -> None:
        """With a `check` it is registered with all brokers, which may check transactions of other
        producers of its group. Raises NotOpen after `close`."""
        await self._accumulator.open()

    async def close(self) -> None:
        """Waits a little for messages in flight; a second time does nothing."""
        await self._accumulator.close()

    @asynccontextmanager
    async def transaction(
        self, message: Message, *, timeout_s: float = TIMEOUT_S
    ) -> AsyncIterator[Transaction]:
        """The block runs when a broker has stored the message, and decides about it.

        An error of the block rolls it back; a cancelled block leaves it to `check`.
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
            await self._ends.report(message, transaction.receipt, transaction.outcome, timeout_s)

    async def send_in_transaction(
        self, message: Message, local: LocalTransaction, *, timeout_s: float = TIMEOUT_S
    ) -> Transaction:
        """The same for a function that does the local part and returns how it ended."""
        async with self.transaction(message, timeout_s=timeout_s) as transaction:
            transaction.outcome = await call(local, transaction)
        return transaction

    async def prepare(self, message: Message, *, timeout_s: float = TIMEOUT_S) -> PreparedMessage:
        """Returns when a broker withholds the message, until `end` or `check` decides.

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

        Returns those whose brokers could not be reached, or refused: these call `check`. To end one
        of them again might deliver it twice. Raises BadArgument for a message of another group.
        """
        left: list[PreparedMessage] = []
        waiting = list(prepared)
        strangers = {each.group for each in waiting} - {self._group}
        if strangers:
            raise BadArgument(
                f"messages of group {strangers.pop()!r} are ended by its producers", "prepared"
            )
        self._accumulator.usable()
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
        """A copy of the counts up to now; a message counts as stored when it is withheld."""
        return self._accumulator.statistics()

    async def _begin(self, message: Message, timeout_s: float) -> SendReceipt:
        extra = {
            Property.TRANSACTION_PREPARED: _PREPARED,
            Property.PRODUCER_GROUP: self._ends.wire_group,
        }

        def send_one(changed: Message) -> Coroutine[None, None, SendReceipt]:
            if changed.topic != message.topic:
                raise BadArgument("middleware must not change the topic of a transaction")
            ready = self._accumulator.ready(changed, extra, MessageKind.HALF)
            return self._accumulator.send(ready, ANYWHERE, timeout_s)

        try:
            return await self._middleware(message, send_one)
        except NotYetSafe as error:
            # The broker could lose it after the local transaction.
            rollback = TransactionState.ROLLBACK
            await self._ends.report(message, error.receipts[0], rollback, timeout_s)
            raise SendFailed(message.topic, f"{error.reason}, so it was rolled back") from None


@final
class TransactionEnds:
    """Ends transactions at their brokers and answers checks, with the accumulator of the producer.

    Without `check` the producer is not registered, and brokers check with others of its group.
    """

    def __init__(self, what: str, config: ProducerConfig, check: Check | None) -> None:
        router = Router(self, ROUTES)
        # Any broker may have a transaction of the group that was not ended.
        is_asked = check is not None
        self.accumulator = Accumulator(
            what, config, router, self.is_asked, names_group=is_asked, registers_everywhere=is_asked
        )
        self.wire_group = wrapped(config.namespace, config.group)
        self._config = config
        self._check = check
        self._check_count = 0

    async def report(
        self, message: Message, receipt: SendReceipt, state: TransactionState, timeout_s: float
    ) -> None:
        """Ends the transaction at its broker. A broker that cannot be reached will check later."""
        try:
            address = await self.end(receipt, state, timeout_s)
        except RequestRefused as refused:
            log.warning("%s of transaction %s: %s", state, receipt.message_id, refused)
            address = refused.address
        except (ClientError, NetError) as error:
            log.warning("%s of %s is left to `check`: %s", state, receipt.message_id, error)
            return
        self._call_hooks(message, receipt.message_id, state, address, is_answer=False)

    async def end(self, receipt: SendReceipt, state: TransactionState, timeout_s: float) -> str:
        """Returns the address of the broker. Raises NetError or ClientError."""
        instance = self.accumulator.usable().instance
        broker_name = receipt.queue.broker_name
        wire_topic = wrapped(self._config.namespace, receipt.queue.topic)
        header = EndTransactionHeader(
            producer_group=self.wire_group,
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=parse_offset_id(receipt.offset_id).physical_offset,
            commit_or_rollback=state.value,
            msg_id=receipt.message_id,
            transaction_id=receipt.transaction_id,
            topic=wire_topic,
            broker_name=broker_name,
        )
        if MASTER_ID not in instance.routes.broker(broker_name):
            # Another producer may have sent it.
            await instance.routes.newest(wire_topic, timeout_s)
        address = instance.routes.broker(broker_name).get(MASTER_ID)
        if address is None:
            raise Unreachable(broker_name, "name servers list no master for it")
        if state is TransactionState.UNKNOWN:
            # Apache's brokers do not answer this one.
            await instance.requests.call_oneway(address, _END, header, timeout_s)
            return address
        reply = await instance.requests.call(address, _END, header, timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(address, reply.code, reply.remark)
        return address

    def is_asked(self, command: Command) -> bool:
        """Whether a broker checks a transaction of this group."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return False
        try:
            properties = received_of(command.body, "").properties
        except ProtocolError:
            return False
        return properties.get(Property.PRODUCER_GROUP) == self.wire_group

    def accept(self, request: Request[CheckTransactionHeader]) -> Reply:
        """A broker checks, one-way: the answer is a request of its own."""
        check = self._check
        if check is None:
            return Reply()  # Checked by mistake: only producers with a `check` are registered.
        if self._check_count >= _CHECK_COUNT_MAX:
            log.warning("%d checks are pending; a check of a broker is dropped", self._check_count)
            return Reply()
        broker_name = request.header.broker_name or request.connection.peer
        message = received_of(request.body, broker_name, self._config.namespace)
        self._check_count += 1
        self.accumulator.usable().instance.services.once(
            "check a transaction",
            lambda: self._answer(check, request.connection, request.header, message),
        )
        return Reply()

    async def _answer(
        self,
        check: Check,
        connection: Connection,
        asked: CheckTransactionHeader,
        message: ReceivedMessage,
    ) -> None:
        try:
            state: Any = await call_or(TransactionState.UNKNOWN, check, message)
            if not isinstance(state, TransactionState):
                log.error(
                    "%r returned %r, which is no TransactionState; counted as UNKNOWN", check, state
                )
                state = TransactionState.UNKNOWN
        finally:
            self._check_count -= 1
        header = EndTransactionHeader(
            producer_group=self.wire_group,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=state.value,
            msg_id=message.message_id,
            from_transaction_check=True,
            transaction_id=asked.transaction_id,
            topic=wrapped(self._config.namespace, message.topic),
            broker_name=asked.broker_name,
        )
        # Over the same connection: only the broker that asked has the message.
        try:
            connection.send_oneway(
                self.accumulator.usable().instance.requests.command(_END, header)
            )
        except (NetError, NotOpen) as error:
            log.info("no answer to %s about %s: %s", connection.peer, message.message_id, error)
            return
        self._call_hooks(message, message.message_id, state, connection.peer, is_answer=True)

    def _call_hooks(
        self,
        message: Message | ReceivedMessage,
        message_id: str,
        state: TransactionState,
        address: str,
        *,
        is_answer: bool,
    ) -> None:
        if not self.accumulator.hooks:
            return
        end = TransactionEnd(
            group=self._config.group,
            topic=message.topic,
            message_id=message_id,
            tags=message.tags,
            keys=message.keys,
            state=state,
            broker_address=address,
            end=utc(self.accumulator.clock.now_ms()),
            is_answer=is_answer,
        )
        call_all([hook.after_transaction for hook in self.accumulator.hooks], end)


def check_transaction(ends: TransactionEnds, request: Request[CheckTransactionHeader]) -> Reply:
    return ends.accept(request)


ROUTES: Final = (
    on(RequestCode.CHECK_TRANSACTION_STATE, CheckTransactionHeader, check_transaction),
)
