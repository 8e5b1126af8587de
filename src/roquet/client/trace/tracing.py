"""Message trace: tells a topic what became of messages, for operators to look up.

A tracer is a hook of a producer or of a push consumer. It gathers records for a moment and sends
them by a producer of its own; what is too much, or cannot be sent, is dropped and counted.
"""

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, final

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
from roquet.client.moments import timestamp_ms
from roquet.client.producer.outgoing import Ready
from roquet.client.producer.queue_choice import ANYWHERE, Target
from roquet.client.producer.receipt import SendReceipt
from roquet.client.received import ReceivedMessage
from roquet.client.trace.records import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
    trace_text,
)
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
