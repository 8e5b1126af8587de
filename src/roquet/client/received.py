"""A message as a consumer hands it to a program.

Most programs look at a few members only, so a record is read when the first of them is asked for.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, final

from roquet.client.names import RETRY_PREFIX, unwrapped
from roquet.client.receipt import QueueRef
from roquet.protocol.errors import BadMessage
from roquet.protocol.message import Property, StoredMessage
from roquet.protocol.record import read_plain_body, read_record

_HEAD: Final = Struct(">i16xq")  # total size and queue offset of a record
# What precedes the body, the body's size included, when both hosts are IPv4.
_RECORD_SIZE_MIN: Final = 91


@final
class ReceivedMessage:
    """One delivery of a message. Members raise BadMessage when the broker sent nonsense."""

    # A dict for what few messages have. What is read once has a member, because cached properties
    # take a lock.
    __slots__ = (
        "__dict__",
        "_body",
        "_buffer",
        "_namespace",
        "_position",
        "_record",
        "queue",
        "queue_offset",
        "size",
    )

    # How often this consumer delivered it again by itself; few messages have one of their own.
    local_retry_count = 0

    def __init__(
        self,
        buffer: bytes,
        position: int,
        size: int,
        queue: QueueRef,
        queue_offset: int,
        namespace: str | None = None,
    ) -> None:
        self._body: bytes | None = None
        self._record: StoredMessage | None = None
        self._buffer = buffer
        self._position = position
        self._namespace = namespace
        # The record's size: what the message costs to keep.
        self.size = size
        # Where it was delivered from; for a repeated delivery that is a queue of a retry topic.
        self.queue = queue
        self.queue_offset = queue_offset

    @property
    def record(self) -> StoredMessage:
        """Everything a broker keeps of the message."""
        record = self._record
        if record is None:
            record = self._record = read_record(self._buffer, self._position)
        return record

    @property
    def body(self) -> bytes:
        """Decompressed."""
        body = self._body
        if body is None:
            body = read_plain_body(self._buffer, self._position, self._position + self.size)
            if body is None:
                body = self.record.decompressed_body()
            self._body = body
        return body

    @property
    def topic(self) -> str:
        """The topic it was sent to, whatever way it came since."""
        topic = self.record.topic
        if topic.startswith(RETRY_PREFIX):
            topic = self.properties.get(Property.RETRY_TOPIC, topic)
        return unwrapped(self._namespace, topic)

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
    def born_timestamp(self) -> int:
        """When it was sent, in milliseconds by the clock of its producer."""
        return self.record.born_timestamp

    @property
    def store_timestamp(self) -> int:
        return self.record.store_timestamp

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


def received_messages(
    buffer: bytes, queue: QueueRef, namespace: str | None = None
) -> Iterator[ReceivedMessage]:
    """The messages of a pull reply, which is records and nothing else. Raises BadMessage."""
    position = 0
    end = len(buffer)
    while position < end:
        if end - position < _RECORD_SIZE_MIN:
            raise BadMessage(f"{end - position} bytes are no record")
        size, queue_offset = _HEAD.unpack_from(buffer, position)
        if not _RECORD_SIZE_MIN <= size <= end - position:
            raise BadMessage(f"a record of {size} bytes does not fit at byte {position}")
        yield ReceivedMessage(buffer, position, size, queue, queue_offset, namespace)
        position += size


def received_of(record: bytes, broker_name: str, namespace: str | None = None) -> ReceivedMessage:
    """A single message that a broker sent along with something else. Raises BadMessage."""
    stored = read_record(record)
    queue = QueueRef(stored.topic, broker_name, stored.queue_id)
    return ReceivedMessage(record, 0, stored.size, queue, stored.queue_offset, namespace)
