"""What became of messages, as clients that trace wrote it down: each in a message of its own."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.messages import messages_by_key
from roquet.client.admin.servers import AdminServers
from roquet.client.errors import TopicNotFound
from roquet.client.moments import moment_of
from roquet.client.trace.records import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
    parse_traces,
)
from roquet.protocol.names import TRACE_TOPIC

_COUNT_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """What a client did with a message; what it does not say is None."""

    # "sent", "delivered", "consumed", or "transaction ended".
    event: str
    # By the clock of the client; old ones do not say when a listener returned.
    time: datetime | None
    group: str | None
    # Of the message, or of how it was consumed or ended: in words.
    outcome: str | None
    duration: timedelta | None = None
    # Where it is stored.
    store_host: str | None = None
    # How often it was delivered before.
    retry_count: int | None = None


async def trace_of(servers: AdminServers, message_id: str, topic: str | None) -> list[TraceEvent]:
    """Oldest first; what a listener returned stands behind what it was called with."""
    wire_topic = TRACE_TOPIC if topic is None else servers.wire_name(topic)
    try:
        found = await messages_by_key(servers, wire_topic, message_id, None, None, _COUNT_MAX)
    except TopicNotFound:
        return []  # Brokers have it if they are told to trace.
    records = [
        record
        for message in found
        for record in parse_traces(message.body.decode(errors="replace"))
        if record.message_id == message_id
    ]
    return [_event(servers, record) for record in sorted(records, key=_order)]


def _order(record: TraceRecord) -> tuple[int, bool]:
    return record.timestamp, isinstance(record, SubAfterRecord)


def _event(servers: AdminServers, record: TraceRecord) -> TraceEvent:
    time = moment_of(record.timestamp)
    group = None if record.group is None else servers.user_name(record.group)
    match record:
        case PubRecord():
            kind = record.kind.name.lower()
            outcome = f"stored, {kind}" if record.is_success else "failed"
            duration = timedelta(milliseconds=record.duration_ms)
            return TraceEvent("sent", time, group, outcome, duration, record.store_host)
        case SubBeforeRecord():
            return TraceEvent("delivered", time, group, None, retry_count=record.retry_count)
        case SubAfterRecord():
            outcome = record.outcome.name.lower()
            duration = timedelta(milliseconds=record.duration_ms)
            return TraceEvent("consumed", time, group, outcome, duration)
        case EndTransactionRecord():
            outcome = record.state + (", when asked" if record.is_answer else "")
            return TraceEvent(
                "transaction ended", time, group, outcome, store_host=record.store_host
            )
