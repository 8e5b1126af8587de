"""Requests and replies: a message that its consumer answers.

    reply = await producer.request(Message("prices", b"coffee"), timeout_s=3.0)

    async def listener(message: ReceivedMessage) -> None:
        await producer.send(reply_to(message, b"2.40"))

A request has the id of its sender and a correlation id. The reply repeats both; the broker that
gets it pushes it over the connection of the sender, where a future waits for it.
"""

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, final

from roquet.client.errors import BadArgument
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage, received_of
from roquet.clock import Clock
from roquet.net.addresses import split_address
from roquet.net.errors import BadAddress
from roquet.net.router import Reply, Request, on
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadMessage
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.messages import PushReplyHeader
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Message, Property
from roquet.protocol.messages.properties import property_of, with_property
from roquet.protocol.names import reply_topic

_REPLY_TYPE: Final = "reply"
_PUSH_REPLY: Final = int(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
_PROPERTIES: Final = "properties"
_NO_HOST: Final = bytes(8)
# Properties that route a reply; a request has all three.
_RETURN_ADDRESS: Final = (Property.CORRELATION_ID, Property.REPLY_TO_CLIENT, Property.TTL)


class ReplyMessage(Message, gc=False):
    """Made by `reply_to`. It goes through the broker of the request."""

    broker_name: str = ""

    @property
    def queue(self) -> QueueRef:
        return QueueRef(self.topic, self.broker_name, 0)


def reply_to(
    request: ReceivedMessage,
    body: bytes,
    *,
    tags: str | None = None,
    keys: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
) -> ReplyMessage:
    """The reply to `request`, to be sent by a producer. Raises BadArgument if that is no request.

    For example:

        def answer(question):
            bar.send(reply_to(question, b"2.40"))  # `bar` is a Producer
    """
    asked = request.properties
    if any(name not in asked for name in (*_RETURN_ADDRESS, Property.CLUSTER)):
        raise BadArgument(f"{request} is not a request, so it cannot be replied to", "request")
    named = dict(properties or {})
    named.update((name, asked[name]) for name in _RETURN_ADDRESS)
    named[Property.MESSAGE_TYPE] = _REPLY_TYPE
    topic = reply_topic(asked[Property.CLUSTER])
    return ReplyMessage(topic, body, tags, keys, named, broker_name=request.queue.broker_name)


@final
class PendingReplies:
    """The requests of one client that wait for replies. Belongs to the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    @contextmanager
    def expected(
        self, client_id: str, timeout_s: float
    ) -> Iterator[tuple[Mapping[str, str], asyncio.Future[ReceivedMessage]]]:
        """The properties of a new request, and its reply to come; after the block it is late."""
        correlation_id = str(uuid.uuid4())
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = waiting
        properties = {
            Property.CORRELATION_ID: correlation_id,
            Property.REPLY_TO_CLIENT: client_id,
            Property.TTL: str(max(1, round(timeout_s * 1000))),
        }
        try:
            yield properties, waiting
        finally:
            del self._waiting[correlation_id]

    def is_asked(self, command: Command) -> bool:
        """Whether a broker pushes a reply that is waited for here."""
        if command.code != _PUSH_REPLY:
            return False
        properties = field_texts(command.fields).get(_PROPERTIES, "")
        return (property_of(properties, Property.CORRELATION_ID) or "") in self._waiting

    def accept(self, request: Request[PushReplyHeader]) -> Reply:
        properties = request.header.properties or ""
        waiting = self._waiting.get(property_of(properties, Property.CORRELATION_ID) or "")
        # A request that was sent twice may be replied to twice; the first one counts.
        if waiting is not None and not waiting.done():
            waiting.set_result(_received(request, self._clock.now_ms()))
        return Reply()


def _received(request: Request[PushReplyHeader], now_ms: int) -> ReceivedMessage:
    """The reply as a message like any other: a record that is not stored."""
    header = request.header
    properties = with_property(header.properties or "", Property.ARRIVE_TIME, str(now_ms))
    draft = RecordDraft(
        queue_id=header.queue_id,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=_host(header.born_host),
        store_host=_host(header.store_host),
        body=request.body,
        topic=header.topic.encode(),
        properties=properties.encode(),
        reconsume_times=header.reconsume_times or 0,
    )
    # The broker does not send its name, so its address stands for it.
    return received_of(draft.pack(0, 0, header.store_timestamp), request.connection.peer)


def _host(address: str) -> bytes:
    try:
        return pack_host(*split_address(address))
    except (BadAddress, BadMessage):
        return _NO_HOST  # A name: no reason to throw the reply away.


def accept_reply(pending: PendingReplies, request: Request[PushReplyHeader]) -> Reply:
    return pending.accept(request)


ROUTES = (on(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, PushReplyHeader, accept_reply),)
