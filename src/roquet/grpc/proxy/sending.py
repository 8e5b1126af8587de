"""SendMessage, EndTransaction and RecallMessage by requests to brokers; and the other way round,
brokers that check how a transaction ended.

A transaction id contains the place of the half message, so that any proxy can end it at any time:

    00000000000A1B2C 0000000000000007 @ broker-a      without the spaces

    place in the log, place in the queue of half messages, broker
"""

import logging
import re
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final, NamedTuple, final

from roquet.client.cluster.brokers import reply_header
from roquet.client.cluster.routes import Route
from roquet.client.errors import Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.grpc.codes import (
    Code,
    Encoding,
    MessageType,
    RefusedCall,
    Resolution,
    code_of,
    common_status,
    status_of,
)
from roquet.grpc.message_form import ms_of
from roquet.grpc.names import topic_name
from roquet.grpc.outgoing import check_request, checked_kind, queue_index, stored_properties
from roquet.grpc.proxy.cluster import Cluster
from roquet.grpc.proxy.receiving import ProxyClient
from roquet.grpc.schema import Message, pb
from roquet.net.errors import ConnectFailed
from roquet.net.router import Reply, Request
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadMessage
from roquet.protocol.headers.messages import (
    CheckTransactionHeader,
    EndTransactionHeader,
    RecallMessageHeader,
    RecallMessageReplyHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.recall_handle import RecallHandle
from roquet.protocol.messages.record import read_record

log = logging.getLogger(__name__)

# Transactions that are remembered, the last ones.
ENDED_COUNT_MAX: Final = 10_000

# Stored, if not as safe as it is to be.
_STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
_ENDS: Final = {
    Resolution.COMMIT: SysFlag.TRANSACTION_COMMIT.value,
    Resolution.ROLLBACK: SysFlag.TRANSACTION_ROLLBACK.value,
}
_ASKED_BY_SERVER: Final = 2  # the source of an end
_TRANSACTION: Final = re.compile(r"([0-9A-F]{16})([0-9A-F]{16})@(.+)", re.ASCII)


class TransactionPlace(NamedTuple):
    """Where a half message is."""

    physical_offset: int
    queue_offset: int
    broker_name: str

    @property
    def text(self) -> str:
        return f"{self.physical_offset:016X}{self.queue_offset:016X}@{self.broker_name}"

    @classmethod
    def read(cls, text: str) -> "TransactionPlace":
        """Raises RefusedCall."""
        found = _TRANSACTION.fullmatch(text)
        if found is None:
            shown = f"{text[:100]!r} is no transaction that a message was sent with here"
            raise RefusedCall(Code.INVALID_TRANSACTION_ID, shown)
        return cls(int(found[1], 16), int(found[2], 16), found[3])


@final
class Sending:
    """Methods raise RefusedCall, ClientError and NetError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Which queue is next is of no importance: any start will do.
        self._turns = count()
        # Brokers of Apache would deliver the message of a transaction that is committed again.
        self._ended: dict[str, int] = {}

    async def send(self, request: Message, now_ms: int) -> Message:
        messages = request.messages
        check_request(messages)
        topic = topic_name(messages[0].topic)
        accepted = await self._cluster.types(topic)
        # All are checked before the first one is sent.
        kinds = [checked_kind(topic, accepted, each, now_ms) for each in messages]
        route = await self._cluster.route(topic)
        if not route.queues:
            raise RefusedCall(Code.FORBIDDEN, f"topic {topic!r} is not writable")
        queues = queue_candidates(route, messages, next(self._turns))
        entries = [
            await self._send_one(queues, each, kind, now_ms)
            for each, kind in zip(messages, kinds, strict=True)
        ]
        status = common_status([each.status for each in entries])
        return pb.SendMessageResponse(status=status, entries=entries)

    async def _send_one(
        self, queues: Sequence[QueueRef], message: Message, kind: MessageType, now_ms: int
    ) -> Message:
        """To the first broker that can be connected to: the others do not have the message."""
        for queue in queues[:-1]:
            try:
                return await self._send_to(queue, message, kind, now_ms)
            except (ConnectFailed, Unreachable) as error:
                log.info("a message for %s goes to another broker: %s", queue, error)
                self._cluster.doubt_route(queue.topic)
        return await self._send_to(queues[-1], message, kind, now_ms)

    async def _send_to(
        self, queue: QueueRef, message: Message, kind: MessageType, now_ms: int
    ) -> Message:
        cluster, system = self._cluster, message.system_properties
        address = cluster.master(queue.broker_name)
        if kind is MessageType.DELAY and not await cluster.has_timers(address):
            text = f"{queue.broker_name} is a broker of 4.x, which would deliver it at once"
            raise RefusedCall(Code.NOT_IMPLEMENTED, text)
        header = SendMessageHeaderV2(
            producer_group=queue.topic,
            topic=queue.topic,
            # There is no template: no topic is created.
            default_topic=queue.topic,
            default_topic_queue_nums=0,
            queue_id=queue.queue_id,
            sys_flag=_sys_flag(system, kind),
            born_timestamp=ms_of(system.born_timestamp) or now_ms,
            flag=0,
            properties=properties_text(stored_properties(queue.topic, message, kind)),
            reconsume_times=0,
            broker_name=queue.broker_name,
        )
        code = RequestCode.SEND_MESSAGE_V2
        reply = await cluster.ask_at(address, code, header, message.body, _STORED)
        return _entry(queue.broker_name, reply, message, kind)

    async def end_transaction(self, request: Message) -> Message:
        topic = topic_name(request.topic)
        end = _ENDS.get(request.resolution)
        if end is None:
            raise RefusedCall(Code.BAD_REQUEST, "a transaction is committed or rolled back")
        if self._ended.get(request.transaction_id) == end:
            return pb.EndTransactionResponse(status=status_of(Code.OK))
        place = TransactionPlace.read(request.transaction_id)
        # A route has to name the broker, and this proxy may be new.
        await self._cluster.route(topic)
        header = EndTransactionHeader(
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.physical_offset,
            commit_or_rollback=end,
            msg_id=request.message_id,
            from_transaction_check=request.source == _ASKED_BY_SERVER,
            transaction_id=request.message_id,
            topic=topic,
            broker_name=place.broker_name,
        )
        await self._cluster.ask(place.broker_name, RequestCode.END_TRANSACTION, header)
        if len(self._ended) >= ENDED_COUNT_MAX:
            del self._ended[next(iter(self._ended))]
        self._ended[request.transaction_id] = end
        return pb.EndTransactionResponse(status=status_of(Code.OK))

    async def recall(self, request: Message) -> Message:
        topic = topic_name(request.topic)
        try:
            handle = RecallHandle.read(request.recall_handle)
        except BadMessage as error:
            raise RefusedCall(Code.BAD_REQUEST, str(error)) from None
        await self._cluster.route(topic)
        header = RecallMessageHeader(
            topic=topic,
            recall_handle=request.recall_handle,
            producer_group=topic,
            broker_name=handle.broker_name,
        )
        reply = await self._cluster.ask(handle.broker_name, RequestCode.RECALL_MESSAGE, header)
        recalled = reply_header(RecallMessageReplyHeader, reply, handle.broker_name)
        return pb.RecallMessageResponse(status=status_of(Code.OK), message_id=recalled.msg_id)


@final
class CheckBacks:
    """Brokers ask about transactions; a client that publishes the topic answers.

    `clients` are the connected ones. The proxy is registered for their topics, which are their
    producer groups.
    """

    def __init__(self, cluster: Cluster, clients: Iterable[ProxyClient]) -> None:
        self._cluster = cluster
        self._clients = clients
        self._turns = count()

    def check(self, request: Request[CheckTransactionHeader]) -> Reply:
        """One-way: the answer is a request of its own, when the client has made up its mind."""
        half = read_record(request.body)
        topic = half.properties.get(Property.PRODUCER_GROUP, half.topic)
        asked = request.header
        name = asked.broker_name or self._cluster.name_of(topic, request.connection.peer)
        candidates = [each for each in self._clients if each.is_open and topic in each.topics]
        if not candidates or name is None:
            log.info("no client publishes %s: transaction %s is left", topic, half.message_id)
            return Reply()
        place = TransactionPlace(asked.commit_log_offset, asked.tran_state_table_offset, name)
        client = candidates[next(self._turns) % len(candidates)]
        client.check_transaction(half, place.text)
        return Reply()


def queue_candidates(route: Route, messages: Sequence[Message], turn: int) -> list[QueueRef]:
    """Where a request may go: first its queue, then one of each other broker.

    A message group keeps to its queue.
    """
    first = route.queues[queue_index(messages, len(route.queues), turn)]
    if len(messages) == 1 and messages[0].system_properties.message_group:
        return [first]
    others = {each.broker_name: each for each in route.queues if each.broker_name in route.masters}
    others.pop(first.broker_name, None)
    return [first, *others.values()]


def _sys_flag(system: Message, kind: MessageType) -> int:
    flag = SysFlag.COMPRESSED.value if system.body_encoding == Encoding.GZIP else 0
    if kind is MessageType.TRANSACTION:
        flag |= SysFlag.TRANSACTION_PREPARED.value
    return flag


def _entry(broker_name: str, reply: Command, message: Message, kind: MessageType) -> Message:
    stored = reply_header(SendMessageReplyHeader, reply, broker_name)
    transaction_id = ""
    if kind is MessageType.TRANSACTION:
        physical_offset = parse_offset_id(stored.msg_id).physical_offset
        transaction_id = TransactionPlace(physical_offset, stored.queue_offset, broker_name).text
    return pb.SendResultEntry(
        status=status_of(code_of(reply.code)),
        message_id=message.system_properties.message_id,
        transaction_id=transaction_id,
        offset=stored.queue_offset,
        recall_handle=stored.recall_handle or "",
    )
