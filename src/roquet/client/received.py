"""A message as a consumer hands it to a program.

Most programs look at a few members only, so a record is read when the first of them is asked for.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, final

from roquet.client.moments import utc
from roquet.client.names import unwrapped
from roquet.client.queue_ref import QueueRef
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_reading import LazyRecord, split_lazily
from roquet.protocol.names import DLQ_PREFIX, RETRY_PREFIX


class Death(NamedTuple):
    """Why a message became a dead letter. Only our consumers say what they failed with."""

    reason: str | None
    error_type: str | None
    try_count: int


@final
class ReceivedMessage(LazyRecord):
    """One delivery of a message. Members raise BadMessage when the broker sent nonsense.

    `size` is that of its record: what it costs to keep. `queue` is where it was delivered from; for
    a repeated delivery that is a queue of a retry topic.

    For example:

        def bill(message):
            print(message.topic, message.body, message.tags, message.keys, message.properties)
            print(message.message_id, message.retry_count, message.stored)
    """

    # For what few messages have.
    __slots__ = ("__dict__",)

    queue: QueueRef

    # How often this consumer delivered it again by itself; few messages have one of their own.
    local_retry_count = 0

    @property
    def topic(self) -> str:
        """The topic it was sent to, whatever way it came since."""
        topic = self.record.topic
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            topic = origin_topic(self.properties) or topic
        return unwrapped(self._namespace, topic)

    @property
    def death(self) -> Death | None:
        """Of a dead letter; None for any other message."""
        if not self.record.topic.startswith(DLQ_PREFIX):
            return None
        marks = self.properties
        tries = marks.get(Property.DEAD_TRIES, "")
        is_count = tries.isascii() and tries.isdigit()
        return Death(
            marks.get(Property.DEAD_REASON),
            marks.get(Property.DEAD_ERROR),
            int(tries) if is_count else self.record.reconsume_times,
        )

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
        """As its producer got it; the same in every delivery."""
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
        """When its broker stored it, by the clock of that; of what was delayed, when it was due."""
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
        return f"<message {self.queue_offset} of {self.queue}>"


def _moment(timestamp_ms: int) -> datetime:
    try:
        return utc(timestamp_ms)
    except (OverflowError, ValueError, OSError):
        raise BadMessage(f"{timestamp_ms} is no time in milliseconds") from None


def origin_topic(properties: Mapping[str, str]) -> str | None:
    """Where a message was sent to that is tried again or dead, as brokers know the topic."""
    return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)


def received_messages(
    buffer: bytes, queue: QueueRef, namespace: str | None = None
) -> list[ReceivedMessage]:
    """The messages of a pull reply, which is records and nothing else. Raises BadMessage."""
    return split_lazily(ReceivedMessage, buffer, queue, namespace)


def received_of(record: bytes, broker_name: str, namespace: str | None = None) -> ReceivedMessage:
    """A single message that a broker sent along with something else. Raises BadMessage."""
    stored = read_record(record)
    queue = QueueRef(stored.topic, broker_name, stored.queue_id)
    return ReceivedMessage(record, 0, stored.size, queue, stored.queue_offset, namespace)
