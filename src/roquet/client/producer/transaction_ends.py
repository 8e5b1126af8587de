"""What brokers are told about transactions: how each one ended, and once more when they ask."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

from roquet.client.cluster.routes import MASTER_ID
from roquet.client.config import ProducerConfig
from roquet.client.errors import ClientError, NotOpen, RequestRefused, Unreachable
from roquet.client.hooks import TransactionEnd, TransactionState
from roquet.client.moments import utc
from roquet.client.names import wrapped
from roquet.client.producer.outbox import Outbox
from roquet.client.producer.receipt import SendReceipt
from roquet.client.received import ReceivedMessage, received_of
from roquet.client.user_code import call_or, tell
from roquet.net.connection import Connection
from roquet.net.errors import NetError
from roquet.net.router import Reply, Request, Router, on
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.headers.messages import (
    CheckTransactionHeader,
    EndTransactionHeader,
)
from roquet.protocol.messages.message import Message, Property
from roquet.protocol.messages.message_id import parse_offset_id

log = logging.getLogger(__name__)

_END: Final = RequestCode.END_TRANSACTION
# Questions that wait for `check`. What comes beyond is not answered: brokers ask again.
_CHECK_COUNT_MAX: Final = 2000

# It may be a coroutine function; a plain one may block, because it gets a thread.
Check = Callable[[ReceivedMessage], TransactionState | Awaitable[TransactionState]]


@final
class TransactionEnds:
    """The broker's side of a transaction producer, and the outbox that both sides use.

    Without `check` brokers do not know the producer, and ask others of its group.
    """

    def __init__(self, what: str, config: ProducerConfig, check: Check | None) -> None:
        router = Router(self, ROUTES)
        # Any broker may have a transaction of the group that nobody ended.
        is_asked = check is not None
        self.outbox = Outbox(
            what, config, router, self.is_asked, names_group=is_asked, meets_all=is_asked
        )
        self.wire_group = wrapped(config.namespace, config.group)
        self._config = config
        self._check = check
        self._check_count = 0

    async def tell(
        self, message: Message, receipt: SendReceipt, state: TransactionState, timeout_s: float
    ) -> None:
        """Tells the broker that keeps the message. If it cannot be told, it will ask."""
        try:
            address = await self.end(receipt, state, timeout_s)
        except RequestRefused as refused:
            log.warning("%s of transaction %s: %s", state, receipt.message_id, refused)
            address = refused.address
        except (ClientError, NetError) as error:
            log.warning("%s of %s is left to `check`: %s", state, receipt.message_id, error)
            return
        self._tell_hooks(message, receipt.message_id, state, address, is_answer=False)

    async def end(self, receipt: SendReceipt, state: TransactionState, timeout_s: float) -> str:
        """The address of the broker that was told. Raises NetError or ClientError."""
        instance = self.outbox.usable().instance
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
            # Somebody else may have sent it.
            await instance.routes.newest(wire_topic, timeout_s)
        address = instance.routes.broker(broker_name).get(MASTER_ID)
        if address is None:
            raise Unreachable(broker_name, "no name server knows a master of it")
        if state is TransactionState.UNKNOWN:
            # Apache's brokers do not answer this one.
            await instance.requests.call_oneway(address, _END, header, timeout_s)
            return address
        reply = await instance.requests.call(address, _END, header, timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefused(address, reply.code, reply.remark)
        return address

    def is_asked(self, command: Command) -> bool:
        """Whether a broker asks about a transaction of this group."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return False
        try:
            properties = received_of(command.body, "").properties
        except ProtocolError:
            return False
        return properties.get(Property.PRODUCER_GROUP) == self.wire_group

    def accept(self, request: Request[CheckTransactionHeader]) -> Reply:
        """A broker asks, one way: the answer is a request of its own."""
        check = self._check
        if check is None:
            return Reply()  # Somebody who is asked by mistake knows nothing.
        if self._check_count >= _CHECK_COUNT_MAX:
            log.warning("%d questions wait already; a broker asks in vain", self._check_count)
            return Reply()
        broker_name = request.header.broker_name or request.connection.peer
        message = received_of(request.body, broker_name, self._config.namespace)
        self._check_count += 1
        self.outbox.usable().instance.services.once(
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
            state = await call_or(TransactionState.UNKNOWN, check, message)
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
            connection.send_oneway(self.outbox.usable().instance.requests.command(_END, header))
        except (NetError, NotOpen) as error:
            log.info("%s is not told of %s: %s", connection.peer, message.message_id, error)
            return
        self._tell_hooks(message, message.message_id, state, connection.peer, is_answer=True)

    def _tell_hooks(
        self,
        message: Message | ReceivedMessage,
        message_id: str,
        state: TransactionState,
        address: str,
        *,
        is_answer: bool,
    ) -> None:
        if not self.outbox.hooks:
            return
        end = TransactionEnd(
            group=self._config.group,
            topic=message.topic,
            message_id=message_id,
            tags=message.tags,
            keys=message.keys,
            state=state,
            broker_address=address,
            end=utc(self.outbox.clock.now_ms()),
            is_answer=is_answer,
        )
        tell([hook.after_transaction for hook in self.outbox.hooks], end)


def check_transaction(ends: TransactionEnds, request: Request[CheckTransactionHeader]) -> Reply:
    return ends.accept(request)


ROUTES: Final = (
    on(RequestCode.CHECK_TRANSACTION_STATE, CheckTransactionHeader, check_transaction),
)
