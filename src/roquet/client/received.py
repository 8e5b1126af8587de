"""A message as a consumer receives it.

Most programs use a few members only, so a record is parsed when the first of them is read.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, final

from roquet.client.arguments import utc
from roquet.client.names import unwrapped
from roquet.client.queue_ref import QueueRef
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_reading import LazyRecord, split_lazily
from roquet.protocol.names import DLQ_PREFIX, RETRY_PREFIX


class DlqReason(NamedTuple):
    """Why a message became a dead letter. Only consumers of Roquet record the error."""

    reason: str | None
    error_type: str | None
    try_count: int


# The older name.
Death = DlqReason


class PopReceipt(NamedTuple):
    """What a popped message is acknowledged with, at its broker."""

    text: str
    broker_name: str
    topic: str
    queue_id: int
    offset: int


@final
class ReceivedMessage(LazyRecord):
    """One delivery of a message. Members raise BadMessage if its record is invalid.

    `size` is that of its record: the memory it takes. `queue` is the one it was delivered from; of
    a redelivery that is a queue of a retry topic.

    For example:

        def bill(message):
            print(message.topic, message.body, message.tags, message.keys, message.properties)
            print(message.message_id, message.retry_count, message.stored)
    """

    # For what few messages have.
    __slots__ = ("__dict__",)

    queue: QueueRef

    # How often this consumer redelivered it by itself; few messages have one of their own.
    local_retry_count = 0
    # Of messages that a pop consumer received.
    pop_receipt: PopReceipt | None = None

    @property
    def topic(self) -> str:
        """The topic it was sent to, also of a redelivery."""
        topic = self.record.topic
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            topic = origin_topic(self.properties) or topic
        return unwrapped(self._namespace, topic)

    @property
    def stored_topic(self) -> str:
        """The topic that its queue belongs to: that of retries or dead letters, or `topic`."""
        return unwrapped(self._namespace, self.record.topic)

    @property
    def dlq_reason(self) -> DlqReason | None:
        """Of a dead letter; None for any other message."""
        if not self.record.topic.startswith(DLQ_PREFIX):
            return None
        properties = self.properties
        tries = properties.get(Property.DEAD_TRIES, "")
        is_count = tries.isascii() and tries.isdigit()
        return DlqReason(
            properties.get(Property.DEAD_REASON),
            properties.get(Property.DEAD_ERROR),
            int(tries) if is_count else self.record.reconsume_times,
        )

    @property
    def death(self) -> DlqReason | None:
        """The older name of `dlq_reason`."""
        return self.dlq_reason

    @property
    def properties(self) -> Mapping[str, str]:
        return self.record.properties

    @property
    def tags(self) -> str | None:
        return self.record.tags

    @property
    def keys(self) -> tuple[str, ...]:
        return self.record.keys

    @property
    def message_id(self) -> str:
        """The id in the receipt of its producer; the same in every delivery."""
        return self.record.message_id

    @property
    def offset_id(self) -> str:
        return self.record.offset_id

    @property
    def retry_count(self) -> int:
        """How often it was delivered to this group before."""
        return self.record.reconsume_times + self.local_retry_count

    @property
    def born(self) -> datetime:
        """When it was sent, by the clock of its producer."""
        return _moment(self.record.born_timestamp)

    @property
    def stored(self) -> datetime:
        """When its broker stored it, by the broker's clock; if delayed, when it was due."""
        return _moment(self.record.store_timestamp)

    @property
    def flag(self) -> int:
        return self.record.flag

    @property
    def transaction_id(self) -> str | None:
        if Property.TRANSACTION_PREPARED not in self.properties:
            return None
        return self.properties.get(Property.UNIQUE_KEY)

    def __repr__(self) -> str:
        place = f"message {self.queue_offset} of {self.queue}"
        try:
            tags = f", tags {self.tags!r}" if self.tags else ""
            keys = f", keys {' '.join(self.keys)!r}" if self.keys else ""
            facts = f"id {self.message_id}{tags}{keys}, {len(self.record.body)} bytes"
            return f"<{place}, {facts}, try {self.retry_count + 1}>"
        except BadMessage:
            return f"<{place}, invalid>"


def _moment(timestamp_ms: int) -> datetime:
    try:
        return utc(timestamp_ms)
    except (OverflowError, ValueError, OSError):
        raise BadMessage(f"{timestamp_ms} is not a time in milliseconds") from None


def origin_topic(properties: Mapping[str, str]) -> str | None:
    """The topic that a retried or dead message was sent to, with its namespace."""
    return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)


def received_messages(
    buffer: bytes, queue: QueueRef, namespace: str | None = None
) -> list[ReceivedMessage]:
    """The messages of a pull reply, which is records and nothing else. Raises BadMessage."""
    return split_lazily(ReceivedMessage, buffer, queue, namespace)


def received_of(record: bytes, broker_name: str, namespace: str | None = None) -> ReceivedMessage:
    """A single message that a broker sent in the body of a request. Raises BadMessage."""
    stored = read_record(record)
    queue = QueueRef(stored.topic, broker_name, stored.queue_id)
    return ReceivedMessage(record, 0, stored.size, queue, stored.queue_offset, namespace)
