"""Members of groups that pop, by remoting and by gRPC, which give the same account of what they do;
and who sends by gRPC.

What a member could not do, because the broker was away or refused it, raises `NoAnswer`; whether
the broker did it all the same is not known then.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from roquet import AsyncPopConsumer, ClientError, ReceivedMessage, RequestRefused
from roquet.clock import SystemClock
from roquet.grpc.codes import ClientType, Code, MessageType
from roquet.grpc.schema import Message, pb
from tests.support.grpc_client import GrpcTestClient

# As many as Apache's clients and the SDKs of 5.x ask for.
RECEIVE_COUNT: Final = 32
# Long enough to be acknowledged on a busy machine, short enough to be waited for.
INVISIBLE_S: Final = 1.5
_WAIT_S: Final = 0.5
_TIMEOUT_S: Final = 3.0
# The least that the endpoint allows for a receive, as Apache's does; a change may be shorter.
_GRPC_INVISIBLE_S: Final = 10
_POP_TIME, _INVISIBLE_TIME = 1, 2  # Items of a receipt.


class NoAnswer(Exception):
    """Nothing is known of what was asked."""


class Received(NamedTuple):
    """`handle` is what the member acknowledges it with, `due_ms` when it comes again."""

    body: bytes
    queue_id: int
    offset: int
    due_ms: int
    handle: Any


class Member(Protocol):
    """Of one group, which has a topic in order or not."""

    async def receive(self) -> list[Received]: ...
    async def ack(self, received: Sequence[Received]) -> list[bool | None]:
        """Of each whether it was answered with success; None is no answer."""

    async def change(self, received: Received, invisible_s: float) -> Received | None:
        """As it is now; None if that was refused."""

    async def close(self) -> None: ...


class RemotingMember:
    def __init__(self, name_server: str, topic: str, group: str, *, is_ordered: bool) -> None:
        self._topic = topic
        self._consumer = AsyncPopConsumer(
            name_server, group, ordered=is_ordered, timeout_s=_TIMEOUT_S
        )

    async def receive(self) -> list[Received]:
        await self._consumer.open()
        try:
            found = await self._consumer.receive(
                self._topic, RECEIVE_COUNT, invisible_s=INVISIBLE_S, wait_s=_WAIT_S
            )
        except ClientError as error:
            raise NoAnswer from error
        return [_of_remoting(message) for message in found]

    async def ack(self, received: Sequence[Received]) -> list[bool | None]:
        return await asyncio.gather(*(self._ack(each.handle) for each in received))

    async def _ack(self, message: ReceivedMessage) -> bool | None:
        try:
            await self._consumer.ack(message)
        except RequestRefused:
            return False
        except ClientError:
            return None
        return True

    async def change(self, received: Received, invisible_s: float) -> Received | None:
        try:
            await self._consumer.change_invisible(received.handle, invisible_s)
        except ClientError as error:
            raise NoAnswer from error
        return _of_remoting(received.handle)

    async def close(self) -> None:
        await self._consumer.close()


class GrpcLink:
    """A connection that is opened as often as it has to be; `settings` are told first, if any."""

    def __init__(self, port: int, client_id: str, settings: Mapping[str, Any] | None) -> None:
        self._port = port
        self._client_id = client_id
        self._settings = settings
        self._client: GrpcTestClient | None = None

    async def call(self, name: str, request: Message) -> Any:
        """The answer. Raises NoAnswer."""
        client = await self._connected()
        try:
            return await client.call(name, request)
        except (OSError, TimeoutError) as error:
            await self.close()
            raise NoAnswer from error

    async def stream(self, name: str, request: Message) -> list[bytes]:
        """All messages of the answer. Raises NoAnswer."""
        client = await self._connected()
        try:
            stream = await client.finished(client.start(name, request))
        except (OSError, TimeoutError) as error:
            await self.close()
            raise NoAnswer from error
        if stream.headers.get("grpc-status") != "0":
            raise NoAnswer
        return stream.messages

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
            with suppress(OSError):
                await client.writer.wait_closed()

    async def _connected(self) -> GrpcTestClient:
        if self._client is None:
            try:
                self._client = await GrpcTestClient.connect(self._port, self._client_id)
                if self._settings is not None:
                    await self._client.settings(**self._settings)
            except (OSError, TimeoutError) as error:
                await self.close()
                raise NoAnswer from error
        return self._client


class GrpcMember:
    """A simple consumer with a connection of its own."""

    def __init__(self, port: int, topic: str, group: str, *, is_ordered: bool) -> None:
        self._topic = pb.Resource(name=topic)
        self._group = pb.Resource(name=group)
        self._is_ordered = is_ordered
        subscription = pb.Subscription(
            group=self._group, subscriptions=[pb.SubscriptionEntry(topic=self._topic)]
        )
        settings = {"client_type": ClientType.SIMPLE_CONSUMER, "subscription": subscription}
        self._link = GrpcLink(port, f"{group}@{uuid.uuid4().hex}", settings)
        # Of a receive that may have taken something: the next one is the same attempt.
        self._attempt_id: str | None = None

    async def receive(self) -> list[Received]:
        self._attempt_id = self._attempt_id or uuid.uuid4().hex
        request = pb.ReceiveMessageRequest(
            group=self._group,
            message_queue=pb.MessageQueue(topic=self._topic),
            batch_size=RECEIVE_COUNT,
            invisible_duration=_duration(_GRPC_INVISIBLE_S),
            long_polling_timeout=_duration(_WAIT_S),
            attempt_id=self._attempt_id if self._is_ordered else "",
        )
        found = await self._link.stream("ReceiveMessage", request)
        self._attempt_id = None
        answers = [pb.ReceiveMessageResponse.FromString(each) for each in found]
        return [_of_grpc(each.message) for each in answers if each.HasField("message")]

    async def ack(self, received: Sequence[Received]) -> list[bool | None]:
        request = pb.AckMessageRequest(
            group=self._group,
            topic=self._topic,
            entries=[pb.AckMessageEntry(receipt_handle=each.handle) for each in received],
        )
        answer = await self._link.call("AckMessage", request)
        if len(answer.entries) != len(received):
            raise NoAnswer
        return [entry.status.code == Code.OK for entry in answer.entries]

    async def change(self, received: Received, invisible_s: float) -> Received | None:
        request = pb.ChangeInvisibleDurationRequest(
            group=self._group,
            topic=self._topic,
            receipt_handle=received.handle,
            invisible_duration=_duration(invisible_s),
        )
        answer = await self._link.call("ChangeInvisibleDuration", request)
        if answer.status.code != Code.OK:
            return None
        handle = answer.receipt_handle
        return received._replace(handle=handle, due_ms=_due_ms(handle))

    async def close(self) -> None:
        await self._link.close()


class GrpcSender:
    def __init__(self, port: int, topic: str) -> None:
        self._topic = pb.Resource(name=topic)
        self._link = GrpcLink(port, "senders@1", None)

    async def send(self, message_group: str, body: bytes) -> bool:
        """Whether it is stored. Raises NoAnswer."""
        system = pb.SystemProperties(
            message_id=body.hex(), message_type=MessageType.FIFO, message_group=message_group
        )
        message = pb.Message(topic=self._topic, body=body, system_properties=system)
        answer = await self._link.call("SendMessage", pb.SendMessageRequest(messages=[message]))
        return bool(answer.status.code == Code.OK)

    async def close(self) -> None:
        await self._link.close()


def seconds_until(due_ms: int) -> float:
    return (due_ms - SystemClock().now_ms()) / 1000


def _of_remoting(message: ReceivedMessage) -> Received:
    assert message.pop_receipt is not None
    due_ms = _due_ms(message.pop_receipt.text)
    queue_id, offset = message.queue.queue_id, message.queue_offset
    return Received(message.body, queue_id, offset, due_ms, message)


def _of_grpc(message: Message) -> Received:
    system = message.system_properties
    handle = system.receipt_handle
    return Received(message.body, system.queue_id, system.queue_offset, _due_ms(handle), handle)


def _due_ms(receipt: str) -> int:
    items = receipt.split(" ")
    return int(items[_POP_TIME]) + int(items[_INVISIBLE_TIME])


def _duration(seconds: float) -> Message:
    whole = int(seconds)
    return pb.Duration(seconds=whole, nanos=round((seconds - whole) * 1e9))
