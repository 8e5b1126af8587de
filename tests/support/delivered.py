"""Messages as a listener gets them, without a broker."""

from collections.abc import Mapping

from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage, received_messages
from roquet.protocol.messages.message import Message, Property
from tests.support.drafts import draft
from tests.support.records import changed, record_of


def delivered(
    body: bytes = b"hello",
    *,
    message_id: str = "id-1",
    properties: Mapping[str, str] | None = None,
    retry_count: int = 0,
) -> ReceivedMessage:
    """One delivery of topic "orders"."""
    named = {Property.UNIQUE_KEY: message_id, **(properties or {})}
    made = changed(draft(body, topic="orders", properties=named), reconsume_times=retry_count)
    (message,) = received_messages(record_of(made), QueueRef("orders", "a", 0))
    return message


def delivery_of(message: Message) -> ReceivedMessage:
    """What a consumer gets of a message that a producer sends."""
    return delivered(message.body, properties=message.all_properties())
