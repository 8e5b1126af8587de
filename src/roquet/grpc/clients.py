"""Clients of the endpoint, each known by its id: what they told in their settings, the stream that
commands reach them by, and the messages that are kept from others while they live.

A client is gone when it says so, when it sends no heartbeat for two minutes, or a moment after its
stream has ended. A push consumer leaves it to the server how long its messages are out: for as long
as it lives, and when it is gone they come again at once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, final

from roquet.broker.broker import Broker
from roquet.broker.membership import connection_lost, make_retry_topic, notify_members_changed
from roquet.broker.pop.acking import change_time
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.receipts import ORDERED_QUEUE_ID, Receipt
from roquet.broker.tables.clients import CLIENT_NAME_SIZE_MAX, Client, check_client_id
from roquet.grpc.calls import Call, GrpcStatus
from roquet.grpc.codes import ClientType, Code, FilterType, RefusedCall, status_of
from roquet.grpc.message_form import shown_message
from roquet.grpc.questions import Questions
from roquet.grpc.schema import Message, pb
from roquet.net.errors import Refused
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from roquet.protocol.codes import VERSION_5_0_0, RequestCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadExpression, BadMessage, TooLarge
from roquet.protocol.messages.record import read_record
from roquet.protocol.subscription import ExpressionType, parse_subscription

log = logging.getLogger(__name__)

# How long a message is out that its client leaves to the server; it is renewed in time.
RENEWED_MS: Final = 60_000
RENEWAL_PAUSE_S: Final = 5.0
# A consumer that has worked on one message for so long does not finish it any more.
HELD_S_MAX: Final = 3 * 3600.0
# A client whose stream is cut opens another one after a second.
GONE_AFTER_S: Final = 3.0
CLIENT_COUNT_MAX: Final = 20_000
HELD_COUNT_MAX: Final = 65_536

_RENEW_BEFORE_MS: Final = 20_000


class Held(NamedTuple):
    """A message that is out for as long as its client lives."""

    queue: QueueOfGroup
    receipt: Receipt
    since_s: float


@final
class GrpcClient:
    """To the broker it is a connection, as those of remoting are."""

    def __init__(self, client_id: str, peer: str) -> None:
        self.client_id = client_id
        self.peer = peer
        self.settings: Message = None
        self.language = ""
        self.version = ""
        self.questions = Questions()
        self.telemetry: Call | None = None
        # By the text of the receipt.
        self.held: dict[str, Held] = {}

    @property
    def group(self) -> str:
        subscription = self.settings.subscription
        return str(subscription.group.name) if subscription.HasField("group") else ""

    @property
    def topics(self) -> list[str]:
        """That it publishes."""
        return [each.name for each in self.settings.publishing.topics]

    @property
    def subscriptions(self) -> list[SubscriptionData]:
        """Raises RefusedCall."""
        return _subscriptions(self.settings.subscription)

    # What the broker needs of a connection.

    @property
    def is_open(self) -> bool:
        return self.telemetry is not None and self.telemetry.is_open

    @property
    def is_stalled(self) -> bool:
        return False

    def send_oneway(self, command: Command) -> None:
        """Questions about transactions; what only clients of remoting understand is left out."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE or self.telemetry is None:
            return
        half = read_record(command.body)
        try:
            message = shown_message(half, half.topic)
        except (BadMessage, TooLarge) as error:
            log.warning("transaction %s cannot be asked about: %s", half.message_id, error)
            return
        self.send(
            pb.TelemetryCommand(
                recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
                    message=message, transaction_id=transaction_id_of(half.physical_offset)
                )
            )
        )

    async def call(self, command: Command, timeout_s: float) -> Command:
        return await self.questions.ask(self, command, timeout_s)

    def close(self, reason: str) -> None:
        if self.telemetry is not None:
            self.telemetry.finish(GrpcStatus.UNAVAILABLE, reason)

    def send(self, command: Message) -> None:
        if self.telemetry is not None:
            self.telemetry.send(command.SerializeToString())


def transaction_id_of(physical_offset: int) -> str:
    """It says where the half message is, so that any broker of the log can end the transaction."""
    return f"{physical_offset:016X}"


@final
class GrpcClients:
    """Belongs to the event loop."""

    def __init__(self, serving: Callable[[], Broker | None]) -> None:
        """`serving` is the current broker, None while there is none."""
        self._serving = serving
        self._by_id: dict[str, GrpcClient] = {}
        self._going: dict[GrpcClient, asyncio.TimerHandle] = {}

    def __iter__(self) -> Iterator[GrpcClient]:
        return iter(tuple(self._by_id.values()))

    def find(self, call: Call) -> GrpcClient | None:
        return self._by_id.get(call.client_id)

    def of(self, call: Call) -> GrpcClient:
        """The client, or one that nothing is known of: its settings may be on their way."""
        return self.find(call) or GrpcClient(call.client_id, call.connection.peer)

    def known(self, call: Call) -> GrpcClient:
        """Raises RefusedCall; the client then sends its settings again."""
        client = self.find(call)
        if client is None or client.settings is None:
            text = f"client {call.client_id!r} is not known here: its settings have not come yet"
            raise RefusedCall(Code.UNRECOGNIZED_CLIENT_TYPE, text)
        return client

    def take_settings(self, broker: Broker, call: Call, settings: Message) -> GrpcClient:
        """Registers the client with the broker. Raises Refused."""
        check_client_id(call.client_id)
        client = self._by_id.get(call.client_id)
        if client is None:
            if len(self._by_id) >= CLIENT_COUNT_MAX:
                raise RefusedCall(Code.TOO_MANY_REQUESTS, f"{CLIENT_COUNT_MAX} clients are known")
            client = self._by_id[call.client_id] = GrpcClient(call.client_id, call.connection.peer)
        if client.telemetry is not call:
            old, client.telemetry = client.telemetry, call
            client.peer = call.connection.peer
            if old is not None:
                old.on_closed = None
                old.finish()
            call.on_closed = lambda _is_complete: self._stream_ended(client, call)
        going = self._going.pop(client, None)
        if going is not None:
            going.cancel()
        client.language = call.metadata.get("x-mq-language", "")[:CLIENT_NAME_SIZE_MAX]
        client.version = call.metadata.get("x-mq-client-version", "")[:CLIENT_NAME_SIZE_MAX]
        client.settings = settings
        register(broker, client)
        return client

    def forget(self, client: GrpcClient) -> None:
        """It is gone: the group shares its work, and its messages come again."""
        if self._by_id.get(client.client_id) is client:
            del self._by_id[client.client_id]
        going = self._going.pop(client, None)
        if going is not None:
            going.cancel()
        held, client.held = client.held, {}
        broker = self._serving()
        if broker is not None:
            connection_lost(broker, client)
            for each in held.values():
                release(broker, each)

    def close(self) -> None:
        for going in self._going.values():
            going.cancel()
        self._going.clear()

    def _stream_ended(self, client: GrpcClient, call: Call) -> None:
        if client.telemetry is call:
            client.telemetry = None
            loop = asyncio.get_running_loop()
            self._going[client] = loop.call_later(GONE_AFTER_S, self.forget, client)


def register(broker: Broker, client: GrpcClient) -> None:
    """With the settings it has told, or again with each heartbeat. Raises Refused."""
    clock = broker.clock
    member = Client(
        client.client_id,
        client.peer,
        client.language or None,
        VERSION_5_0_0,
        clock.now_ms(),
        clock.monotonic_s(),
    )
    for topic in client.topics:
        broker.clients.producers.register(topic, client, member)
    if client.group:
        data = ConsumerData(
            group_name=client.group,
            consume_type=ConsumeType.PUSH,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET,
            subscription_data_set=client.subscriptions,
        )
        make_retry_topic(broker, data)
        if broker.clients.consumers.register(client, member, data):
            notify_members_changed(broker, client.group)


def hold(broker: Broker, client: GrpcClient, queue: QueueOfGroup, receipt: Receipt) -> None:
    if len(client.held) < HELD_COUNT_MAX:
        client.held[receipt.text] = Held(queue, receipt, broker.clock.monotonic_s())


def release(broker: Broker, held: Held) -> None:
    """The message comes again at once, and it does not count as a delivery."""
    try:
        change_time(broker, held.queue, held.receipt, 0, is_suspended=True)
    except Refused as refused:
        log.warning("a message of %s comes again when its time is over: %s", held.queue, refused)


def renew(broker: Broker, clients: GrpcClients) -> None:
    """Those whose time is nearly over get more of it."""
    now_s = broker.clock.monotonic_s()
    for client in clients:
        for text, held in tuple(client.held.items()):
            if now_s - held.since_s > HELD_S_MAX or not _is_renewed(broker, held):
                client.held.pop(text, None)


def _is_renewed(broker: Broker, held: Held) -> bool:
    """Whether it is still out. The first receipt stays valid."""
    journal = broker.waiting.pops
    receipt = held.receipt
    if receipt.revive_queue_id == ORDERED_QUEUE_ID:
        ordered = journal.ordered.find(held.queue)
        outing = None if ordered is None else ordered.out.get(receipt.offset)
        if outing is None or outing.pop_time_ms != receipt.pop_time_ms:
            return False
        if outing.due_ms - journal.steady_ms < _RENEW_BEFORE_MS:
            change_time(broker, held.queue, receipt, RENEWED_MS)
        return True
    point = journal.in_flight.find(PopKey(held.queue, receipt.start_offset, receipt.pop_time_ms))
    if point is None or point.index_of(receipt.offset) is None:
        return False
    if point.due_ms - journal.steady_ms < _RENEW_BEFORE_MS:
        # In memory only: after a crash of the broker it comes again.
        journal.in_flight.postpone(point, journal.steady_ms + RENEWED_MS)
    return True


def _subscriptions(subscription: Message) -> list[SubscriptionData]:
    """Raises RefusedCall."""
    found = []
    for entry in subscription.subscriptions:
        is_sql = entry.expression.type == FilterType.SQL
        kind = ExpressionType.SQL92 if is_sql else ExpressionType.TAG
        try:
            parsed = parse_subscription(entry.topic.name, entry.expression.expression, kind)
        except (BadExpression, TooLarge) as error:
            raise RefusedCall(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
        found.append(
            SubscriptionData(
                topic=parsed.topic,
                sub_string=parsed.expression,
                expression_type=parsed.expression_type,
                tags_set=list(parsed.tags),
                code_set=sorted(parsed.codes),
            )
        )
    return found


def is_consumer(client_type: int) -> bool:
    return client_type in (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)


def answered_settings(settings: Message) -> bytes:
    command = pb.TelemetryCommand(status=status_of(Code.OK), settings=settings)
    data: bytes = command.SerializeToString()
    return data
