"""Messages between FastStream and RocketMQ: received ones, and commands to send one."""

import sys
from datetime import timedelta
from typing import Any, Final, Self

from faststream.exceptions import HandlerException
from faststream.message import StreamMessage, decode_message
from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand, Response

from roquet.client.producer.outgoing import RESERVED_NAMES, Delay
from roquet.client.push.outcome import DeadLetter, NotDone, RetryLater
from roquet.client.received import ReceivedMessage
from roquet.client.typed.topic import CONTENT_TYPE
from roquet.protocol.messages.message import Message, Property

# Properties of FastStream, besides its headers.
CORRELATION_ID: Final = "correlation_id"
REPLY_TO: Final = "reply_to"


class Delivered:
    """One delivery, and what the handler decided about it: None is no decision yet."""

    __slots__ = ("error", "is_decided", "message")

    def __init__(self, message: ReceivedMessage) -> None:
        self.message = message
        self.is_decided = False
        self.error: Exception | None = None

    def decide(self, error: Exception | None) -> None:
        """The first decision counts."""
        if not self.is_decided:
            self.is_decided, self.error = True, error

    def check(self) -> None:
        """Raises what the push consumer has to know."""
        if not self.is_decided:
            raise RetryLater
        if self.error is not None:
            raise self.error


class RocketMessage(StreamMessage[ReceivedMessage]):
    """A message as a handler gets it; `raw_message` is what consumers of Roquet get."""

    def __init__(self, delivered: Delivered, **members: Any) -> None:
        super().__init__(raw_message=delivered.message, **members)
        self._delivered = delivered

    async def ack(self) -> None:
        """The group is done with it."""
        self._delivered.decide(None)
        await super().ack()

    async def nack(self, delay: timedelta | None = None) -> None:
        """It is delivered again later; `RetryLater` explains the delay. Raises BadArgument."""
        error: Exception = RetryLater(delay)
        raised = sys.exception()
        if delay is None and isinstance(raised, Exception) and not _is_word(raised):
            # What the handler raised is the reason of its dead letter.
            error = raised
        self._delivered.decide(error)
        await super().nack()

    async def reject(self, reason: str = "rejected by its handler") -> None:
        """It is a dead letter at once."""
        self._delivered.decide(DeadLetter(reason))
        await super().reject()


def _is_word(error: Exception) -> bool:
    """Whether a handler raises it to decide what becomes of its message."""
    return isinstance(error, HandlerException | NotDone)


async def parse_message(delivered: Delivered) -> RocketMessage:
    message = delivered.message
    properties = message.properties
    # Of a request its sender waits for the reply; any other message may name a topic for it.
    reply_to = properties.get(Property.REPLY_TO_CLIENT) or properties.get(REPLY_TO, "")
    return RocketMessage(
        delivered,
        body=message.body,
        headers={name: value for name, value in properties.items() if name not in RESERVED_NAMES},
        reply_to=reply_to,
        content_type=properties.get(CONTENT_TYPE),
        correlation_id=properties.get(CORRELATION_ID) or properties.get(Property.CORRELATION_ID),
        message_id=message.message_id,
    )


async def decode(message: StreamMessage[Any]) -> Any:
    return decode_message(message)


class RocketResponse(Response):
    """What a handler returns to set tags, keys or a delay of the message that is published."""

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        tags: str | None = None,
        keys: tuple[str, ...] = (),
        delay: Delay | None = None,
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.tags = tags
        self.keys = keys
        self.delay = delay

    def as_publish_command(self) -> "RocketCommand":
        return RocketCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            tags=self.tags,
            keys=self.keys,
            delay=self.delay,
            _publish_type=PublishType.PUBLISH,
        )


class RocketCommand(PublishCommand):
    """A message that is to be sent, on its way through middlewares."""

    def __init__(
        self,
        body: Any,
        *,
        tags: str | None = None,
        keys: tuple[str, ...] = (),
        delay: Delay | None = None,
        timeout_s: float | None = None,
        **members: Any,
    ) -> None:
        super().__init__(body, **members)
        self.tags = tags
        self.keys = keys
        self.delay = delay
        self.timeout_s = timeout_s
        # The request that it answers, if any.
        self.request: ReceivedMessage | None = None

    @classmethod
    def from_cmd(cls, command: PublishCommand) -> Self:
        if isinstance(command, cls):
            return command
        return cls(
            command.body,
            destination=command.destination,
            correlation_id=command.correlation_id,
            headers=command.headers,
            reply_to=command.reply_to,
            _publish_type=command.publish_type,
        )

    def message(self, body: bytes, content_type: str | None) -> Message:
        """With its headers as properties; RocketMQ's own are left out."""
        return Message(
            self.destination,
            body,
            tags=self.tags,
            keys=self.keys,
            properties=self.properties(content_type),
        )

    def properties(self, content_type: str | None) -> dict[str, str]:
        own = {CONTENT_TYPE: content_type, CORRELATION_ID: self.correlation_id}
        own[REPLY_TO] = self.reply_to
        headers = {str(name): str(value) for name, value in self.headers.items()}
        return {name: value for name, value in own.items() if value} | headers
