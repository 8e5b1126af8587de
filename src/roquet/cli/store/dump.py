"""Messages of a store for `roquet store dump`: which are selected, and each as a line of JSON."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from roquet.errors import RoquetError
from roquet.protocol.errors import ProtocolError
from roquet.protocol.host import unpack_host
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.store.offline.reader import StoreReader

_END_OF_TIME: Final = 2**63 - 1
_ALL: Final = 2**63 - 1
_encode = msgspec.json.Encoder().encode


class BadSelection(RoquetError):
    """These options contradict each other or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSelection:
    """None stands for all. Times are store timestamps: `from_time` is included, `to_time` not."""

    topic: str | None = None
    queue_id: int | None = None
    offset: int = 0
    count: int | None = None
    key: str | None = None
    from_time: int | None = None
    to_time: int | None = None

    def __post_init__(self) -> None:
        if self.queue_id is not None and self.topic is None:
            raise BadSelection("--queue requires --topic")
        for text in (self.topic, self.key):
            if text is not None and not _is_text(text):
                raise BadSelection(f"{text!r} is not UTF-8")

    def includes(self, message: StoredMessage) -> bool:
        timestamp = message.store_timestamp
        return (
            self.queue_id in (None, message.queue_id)
            and message.queue_offset >= self.offset
            and (self.from_time is None or timestamp >= self.from_time)
            and (self.to_time is None or timestamp < self.to_time)
        )


def selected(reader: StoreReader, selection: DumpSelection) -> Iterator[StoredMessage]:
    """In the order of topics, queues and offsets; with a key, of topics and store times."""
    messages = (
        read_record(record)
        for topic, queue_ids in reader.queues().items()
        if selection.topic in (None, topic)
        for record in _records(reader, selection, topic, queue_ids)
    )
    return islice(filter(selection.includes, messages), selection.count)


def _records(
    reader: StoreReader, selection: DumpSelection, topic: str, queue_ids: list[int]
) -> Iterator[bytes]:
    if selection.key is not None:
        begin, end = selection.from_time or 0, selection.to_time or _END_OF_TIME
        yield from reader.find_by_key(topic, selection.key, begin, end, _ALL)
        return
    for queue_id in queue_ids:
        if selection.queue_id in (None, queue_id):
            yield from _queue_records(reader, selection, topic, queue_id)


def _queue_records(
    reader: StoreReader, selection: DumpSelection, topic: str, queue_id: int
) -> Iterator[bytes]:
    start, end = selection.offset, None
    if selection.from_time is not None:
        start = max(start, reader.offset_by_time(topic, queue_id, selection.from_time))
    if selection.to_time is not None:
        end = reader.offset_by_time(topic, queue_id, selection.to_time)
    return reader.messages(topic, queue_id, start, end)


def _is_text(text: str) -> bool:
    """A shell can pass bytes that are not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class MessageView(NamedTuple):
    """One message as one line; with a problem, the line is there but has no body."""

    line: bytes
    problem: str | None = None


def message_view(message: StoredMessage) -> MessageView:
    try:
        body = message.decompressed_body()
    except ProtocolError as error:
        return MessageView(_line(message, None), str(error))
    return MessageView(_line(message, base64.b64encode(body).decode()))


def _line(message: StoredMessage, body: str | None) -> bytes:
    """The names are those of Java's getters, as in the lines of tests/golden/store."""
    members = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "offsetMsgId": message.offset_id,
        "keys": message.properties.get(Property.KEYS),
        "tags": message.tags,
        "properties": message.properties,
        "body": body,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "bornHost": _address(message.born_host),
        "storeHost": _address(message.store_host),
        "commitLogOffset": message.physical_offset,
        "storeSize": message.size,
        "bodyCRC": message.body_crc,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }
    return _encode(members) + b"\n"


@lru_cache(maxsize=1024)
def _address(host: bytes) -> str:
    """A store holds millions of messages from a few hosts."""
    return str(unpack_host(host))
