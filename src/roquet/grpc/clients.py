"""Clients of the endpoint, each known by its id: their settings, the stream that commands reach
them by, and the messages that are kept from others while they live.

A client is gone when it unregisters, when it sends no heartbeat for two minutes, or a moment after
its stream has ended.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import Final, Generic, Protocol, TypeVar, final

from roquet.grpc.calls import Call, GrpcStatus
from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.message_form import shown_message
from roquet.grpc.schema import Message, pb
from roquet.grpc.settings import answered_settings, subscriptions_in
from roquet.grpc.telemetry_requests import TelemetryRequests
from roquet.protocol.bodies.clients import SubscriptionData
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record

log = logging.getLogger(__name__)

RENEWAL_PAUSE_S: Final = 5.0
# A consumer that has worked on one message for so long does not finish it any more.
HELD_S_MAX: Final = 3 * 3600.0
# A client whose stream is cut opens another one after a second.
GONE_AFTER_S: Final = 3.0
SILENT_S_MAX: Final = 120.0
CLIENT_COUNT_MAX: Final = 20_000
HELD_COUNT_MAX: Final = 65_536

RENEW_BEFORE_MS: Final = 20_000
# What clients name themselves is not longer.
NAME_SIZE_MAX: Final = 512


# What is kept of a message that is in flight for as long as its client lives.
H = TypeVar("H")


@final
class GrpcClient(Generic[H]):
    """To a broker in the same process it is a connection, as those of remoting are."""

    def __init__(self, client_id: str, peer: str) -> None:
        self.client_id = client_id
        self.peer = peer
        self.settings: Message = None
        self.language = ""
        self.version = ""
        self.requests = TelemetryRequests()
        self.telemetry: Call | None = None
        # By the text of the receipt.
        self.held: dict[str, H] = {}
        # The last time that it sent settings or a heartbeat.
        self.seen_s = 0.0

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
        return subscriptions_in(self.settings.subscription)

    # What the broker needs of a connection.

    @property
    def is_open(self) -> bool:
        return self.telemetry is not None and self.telemetry.is_open

    @property
    def is_stalled(self) -> bool:
        return False

    def send_oneway(self, command: Command) -> None:
        """Checks of transactions; what only clients of remoting understand is left out."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            half = read_record(command.body)
            self.check_transaction(half, transaction_id_of(half.physical_offset))

    async def call(self, command: Command, timeout_s: float) -> Command:
        return await self.requests.call(self, command, timeout_s)

    def close(self, reason: str) -> None:
        if self.telemetry is not None:
            self.telemetry.finish(GrpcStatus.UNAVAILABLE, reason)

    # Commands.

    def check_transaction(self, half: StoredMessage, transaction_id: str) -> None:
        """Asks how a transaction ended; the answer is a call of its own."""
        try:
            message = shown_message(half, half.topic)
        except (BadMessage, TooLarge) as error:
            log.warning("transaction %s cannot be asked about: %s", half.message_id, error)
            return
        self.send(
            pb.TelemetryCommand(
                recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
                    message=message, transaction_id=transaction_id
                )
            )
        )

    def send(self, command: Message) -> None:
        if self.telemetry is not None:
            self.telemetry.send(command.SerializeToString())


def transaction_id_of(physical_offset: int) -> str:
    """Contains the place of the half message: any broker of the log can end the transaction."""
    return f"{physical_offset:016X}"


class Registry(Protocol[H]):
    """Where clients are registered: a broker, or a cluster."""

    def register(self, client: GrpcClient[H]) -> None:
        """With its settings, and again with each heartbeat. Raises Refused."""

    def unregister(self, client: GrpcClient[H], held: Collection[H]) -> None:
        """It is gone, and what it held comes again."""


@final
class GrpcClients(Generic[H]):
    """Belongs to the event loop."""

    def __init__(self, registry: Registry[H]) -> None:
        self._registry = registry
        self._by_id: dict[str, GrpcClient[H]] = {}
        self._going: dict[GrpcClient[H], asyncio.TimerHandle] = {}

    def __iter__(self) -> Iterator[GrpcClient[H]]:
        return iter(tuple(self._by_id.values()))

    def find(self, call: Call) -> GrpcClient[H] | None:
        return self._by_id.get(call.client_id)

    def holds(self, client_id: str) -> bool:
        """Whether messages are in flight for as long as the client lives."""
        client = self._by_id.get(client_id)
        return client is not None and bool(client.held)

    def of(self, call: Call) -> GrpcClient[H]:
        """The client, or one that nothing is known of: its settings may be on their way."""
        return self.find(call) or GrpcClient(call.client_id, call.connection.peer)

    def known(self, call: Call) -> GrpcClient[H]:
        """Raises RefusedCall; the client then sends its settings again."""
        client = self.find(call)
        if client is None or client.settings is None:
            text = f"client {call.client_id!r} is unknown: it has not sent its settings yet"
            raise RefusedCall(Code.UNRECOGNIZED_CLIENT_TYPE, text)
        return client

    def beat(self, call: Call) -> None:
        """Raises Refused."""
        self._register(self.known(call))

    def take_settings(self, call: Call, settings: Message) -> None:
        """Registers the client, and answers it. Raises Refused."""
        if len(call.client_id) > NAME_SIZE_MAX:
            text = f"a client id has at most {NAME_SIZE_MAX} characters"
            raise RefusedCall(Code.BAD_REQUEST, text)
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
        client.language = call.metadata.get("x-mq-language", "")[:NAME_SIZE_MAX]
        client.version = call.metadata.get("x-mq-client-version", "")[:NAME_SIZE_MAX]
        client.settings = settings
        self._register(client)
        call.send(answered_settings(settings))

    def forget(self, client: GrpcClient[H]) -> None:
        """It is gone: the group shares its work, and its messages come again."""
        if self._by_id.get(client.client_id) is client:
            del self._by_id[client.client_id]
        going = self._going.pop(client, None)
        if going is not None:
            going.cancel()
        held, client.held = client.held, {}
        self._registry.unregister(client, held.values())

    def forget_silent(self) -> None:
        """Those that have sent no heartbeat for too long."""
        now_s = asyncio.get_running_loop().time()
        for client in self:
            if now_s - client.seen_s > SILENT_S_MAX:
                self.forget(client)

    def close(self) -> None:
        for going in self._going.values():
            going.cancel()
        self._going.clear()

    def _register(self, client: GrpcClient[H]) -> None:
        client.seen_s = asyncio.get_running_loop().time()
        self._registry.register(client)

    def _stream_ended(self, client: GrpcClient[H], call: Call) -> None:
        if client.telemetry is call:
            client.telemetry = None
            loop = asyncio.get_running_loop()
            self._going[client] = loop.call_later(GONE_AFTER_S, self.forget, client)
