"""Message trace: records of what became of messages, sent to a topic for operators.

    Pub            timestamp region group topic id tags keys host size ms kind offset-id ok
    SubBefore      timestamp region group request id retries keys
    SubAfter       request id ms ok keys outcome timestamp group
    EndTransaction timestamp region group topic id tags keys host kind transaction state asked

Java's tools read and write the same text: the name of a record and its fields are joined by 0x01,
and 0x02 ends it. What is missing is written as "null".

A tracer is a hook of a producer or of a push consumer. It gathers records for a moment and sends
them by a producer of its own; what is too much, or cannot be sent, is dropped and counted.
"""

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, final

import msgspec

from roquet.client.arguments import timestamp_ms
from roquet.client.errors import ClientError
from roquet.client.hooks import (
    ConsumeHook,
    ConsumeOutcome,
    Consuming,
    MessageKind,
    SendHook,
    Sending,
    TransactionEnd,
    TransactionState,
)
from roquet.client.producer.outgoing import Ready
from roquet.client.producer.queue_choice import ANYWHERE, Target
from roquet.client.producer.receipt import SendReceipt
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock, SystemClock
from roquet.net.service import OnFailure, Services
from roquet.protocol.messages.message import KEY_SEPARATOR, Message, Property

log = logging.getLogger(__name__)

MESSAGE_SIZE_MAX: Final = 128_000

_WAITING_COUNT_MAX: Final = 1024
_LINGER_S: Final = 0.5
_SEND_TIMEOUT_S: Final = 5.0
_CLOSING_TIMEOUT_S: Final = 2.0
# A record that is the last to fit may be long, and UTF-8 longer than text.
_TEXT_SIZE_MAX: Final = 118_000
_KEYS_SIZE_MAX: Final = 24_000
_REGION: Final = "DefaultRegion"
_NOT_TRACED: Final = "false"
_STATE_NAMES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
_FIELD_END: Final = "\x01"
_RECORD_END: Final = "\x02"
_NULL: Final = "null"


class _Record(msgspec.Struct, frozen=True):
    """The members of a record, in the order in which they are written."""


class PubRecord(_Record, tag="Pub", frozen=True):
    """A message was sent."""

    timestamp: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    body_size: int
    duration_ms: int
    kind: MessageKind
    offset_id: str | None
    is_success: bool


class SubBeforeRecord(_Record, tag="SubBefore", frozen=True):
    """A listener is called; `request_id` is the same before and after."""

    timestamp: int
    region: str | None
    group: str
    request_id: str
    message_id: str
    retry_count: int
    keys: str | None


class SubAfterRecord(_Record, tag="SubAfter", frozen=True):
    """A listener returned. Old clients omit the outcome, the time and the group."""

    request_id: str
    message_id: str
    duration_ms: int
    is_success: bool
    keys: str | None
    outcome: ConsumeOutcome = ConsumeOutcome.SUCCESS
    timestamp: int = 0
    group: str | None = None


class EndTransactionRecord(_Record, tag="EndTransaction", frozen=True):
    """The end of a transaction was reported to its broker."""

    timestamp: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    kind: MessageKind
    transaction_id: str | None
    state: str  # as Java calls it
    is_answer: bool


TraceRecord = PubRecord | SubBeforeRecord | SubAfterRecord | EndTransactionRecord

_KINDS: Final[dict[str, type[TraceRecord]]] = {
    "Pub": PubRecord,
    "SubBefore": SubBeforeRecord,
    "SubAfter": SubAfterRecord,
    "EndTransaction": EndTransactionRecord,
}
_PUB_SIZE_OLD: Final = 12  # without the offset id


def trace_text(record: TraceRecord) -> str:
    """The record as it is written, its end included."""
    name = record.__struct_config__.tag
    values = map(_text, msgspec.structs.astuple(record))
    return _FIELD_END.join((str(name), *values)) + _RECORD_END


def parse_traces(text: str) -> Iterator[TraceRecord]:
    """The records of a trace message; invalid ones are skipped."""
    for line in text.split(_RECORD_END):
        name, *fields = line.split(_FIELD_END)
        kind = _KINDS.get(name)
        if kind is None:
            continue
        if kind is PubRecord and len(fields) == _PUB_SIZE_OLD:
            fields.insert(-1, _NULL)
        try:
            yield msgspec.convert(_members(kind, fields), kind, strict=False)
        except msgspec.ValidationError:
            continue


def _members(kind: type[TraceRecord], fields: Iterable[str]) -> dict[str, str | None]:
    # Newer clients write more fields after the known ones.
    return {
        field.encode_name: None if value == _NULL else value
        for field, value in zip(msgspec.structs.fields(kind), fields, strict=False)
    }


def _text(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))  # of an enum, too
    # A separator inside a field would cut it.
    return str(value).replace(_FIELD_END, " ").replace(_RECORD_END, " ")


class Sends(Protocol):
    """The producer of a tracer."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def ready(self, message: Message, extra: Mapping[str, str]) -> Ready: ...

    async def send(self, ready: Ready, target: Target, timeout_s: float) -> SendReceipt: ...


class _Line(NamedTuple):
    text: str
    keys: tuple[str, ...]

    @property
    def keys_size(self) -> int:
        return sum(map(len, self.keys)) + len(self.keys)


@final
class Tracer(SendHook, ConsumeHook):
    """Opened and closed by its owner; `dropped_count` records were not written."""

    def __init__(self, accumulator: Sends, topic: str, clock: Clock | None = None) -> None:
        self._accumulator = accumulator
        self._topic = topic
        self._clock = clock or SystemClock()
        self._services = Services("tracer")
        self._lines: deque[_Line] = deque()
        self._text_size = 0
        self._has_lines = asyncio.Event()
        # Enough for a message, or no time left to wait for more.
        self._is_urgent = asyncio.Event()
        self._is_done = asyncio.Event()
        self._is_closing = False
        self.dropped_count = 0

    async def open(self) -> None:
        await self._accumulator.open()
        await self._services.__aenter__()
        self._services.run("send traces", self._send_all, on_failure=OnFailure.RESTART)

    async def close(self) -> None:
        """Sends what waits, within a limited time."""
        self._is_closing = True
        self._has_lines.set()
        self._is_urgent.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_TIMEOUT_S):
                await self._is_done.wait()
        await self._services.__aexit__(None, None, None)
        await self._accumulator.close()

    # What happens to messages.

    def after_send(self, sending: Sending) -> None:
        if sending.topic == self._topic:
            return
        for message, receipt in zip(sending.messages, sending.receipts, strict=False):
            if receipt.is_traced:
                self._add(_pub_record(sending, message, receipt), message.keys)

    def after_transaction(self, end: TransactionEnd) -> None:
        record = EndTransactionRecord(
            timestamp=timestamp_ms(end.end),
            region=_REGION,
            group=end.group,
            topic=end.topic,
            message_id=end.message_id,
            tags=end.tags,
            keys=_joined(end.keys),
            store_host=end.broker_address,
            kind=MessageKind.COMMIT,
            transaction_id=end.message_id,
            state=_STATE_NAMES[end.state],
            is_answer=end.is_answer,
        )
        self._add(record, end.keys)

    def before_consume(self, consuming: Consuming) -> None:
        consuming.request_id = uuid.uuid4().hex.upper()
        for message in self._traced(consuming):
            record = SubBeforeRecord(
                timestamp=timestamp_ms(consuming.begin),
                region=message.properties.get(Property.MESSAGE_REGION, _REGION),
                group=consuming.group,
                request_id=consuming.request_id,
                message_id=message.message_id,
                retry_count=message.retry_count,
                keys=_joined(message.keys),
            )
            self._add(record, message.keys)

    def after_consume(self, consuming: Consuming) -> None:
        duration_ms = round(consuming.duration_s * 1000) // max(1, len(consuming.messages))
        for message in self._traced(consuming):
            record = SubAfterRecord(
                request_id=consuming.request_id,
                message_id=message.message_id,
                duration_ms=duration_ms,
                is_success=consuming.outcome is ConsumeOutcome.SUCCESS,
                keys=_joined(message.keys),
                outcome=consuming.outcome,
                timestamp=self._clock.now_ms(),
                group=consuming.group,
            )
            self._add(record, message.keys)

    def _traced(self, consuming: Consuming) -> list[ReceivedMessage]:
        return [
            message
            for message in consuming.messages
            if message.topic != self._topic
            and message.properties.get(Property.TRACE_ON) != _NOT_TRACED
        ]

    # How it is written down.

    def _add(self, record: TraceRecord, keys: Sequence[str]) -> None:
        line = _Line(trace_text(record), (record.message_id, *keys))
        if line.keys_size > _KEYS_SIZE_MAX:
            line = line._replace(keys=(record.message_id,))
        if len(self._lines) >= _WAITING_COUNT_MAX or len(line.text) > _TEXT_SIZE_MAX:
            self.dropped_count += 1
            return
        self._lines.append(line)
        self._text_size += len(line.text)
        self._has_lines.set()
        if self._text_size >= _TEXT_SIZE_MAX:
            self._is_urgent.set()

    async def _send_all(self) -> None:
        """Sends until the tracer is closed and nothing waits any more."""
        while self._lines or not self._is_closing:
            await self._has_lines.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_S):
                    await self._is_urgent.wait()
            await self._send(self._taken())
        self._is_done.set()

    def _taken(self) -> list[_Line]:
        """The lines of the next message, which is as long as it may be."""
        taken: list[_Line] = []
        text_room, keys_room = _TEXT_SIZE_MAX, _KEYS_SIZE_MAX
        while self._lines:
            text_room -= len(self._lines[0].text)
            keys_room -= self._lines[0].keys_size
            if taken and min(text_room, keys_room) < 0:
                break
            taken.append(self._lines.popleft())
        self._text_size = sum(len(line.text) for line in self._lines)
        if not self._is_closing:
            if not self._lines:
                self._has_lines.clear()
            if self._text_size < _TEXT_SIZE_MAX:
                self._is_urgent.clear()
        return taken

    async def _send(self, lines: Sequence[_Line]) -> None:
        if not lines:
            return
        body = "".join(line.text for line in lines).encode()
        # Each key once, in their order.
        keys = tuple(dict.fromkeys(key for line in lines for key in line.keys))
        try:
            ready = self._accumulator.ready(Message(self._topic, body, keys=keys), {})
            await self._accumulator.send(ready, ANYWHERE, _SEND_TIMEOUT_S)
        except ClientError as error:
            self.dropped_count += len(lines)
            log.warning("%d trace records are lost: %s", len(lines), error)


def _pub_record(sending: Sending, message: Message, receipt: SendReceipt) -> PubRecord:
    return PubRecord(
        timestamp=timestamp_ms(sending.begin),
        region=receipt.region or _REGION,
        group=sending.group,
        topic=sending.topic,
        message_id=receipt.message_id,
        tags=message.tags,
        keys=_joined(message.keys),
        store_host=sending.broker_address,
        body_size=sending.body_size if len(sending.messages) == 1 else len(message.body),
        duration_ms=round(sending.duration_s * 1000),
        kind=sending.kind,
        offset_id=receipt.offset_id,
        is_success=True,
    )


def _joined(keys: Sequence[str]) -> str | None:
    return KEY_SEPARATOR.join(keys) or None
