"""What became of messages, as clients that trace wrote it down: each in a message of its own."""

from roquet.client.admin.messages import messages_by_key
from roquet.client.admin.servers import AdminServers
from roquet.client.errors import TopicNotFound
from roquet.client.trace.records import SubAfterRecord, TraceRecord, parse_traces
from roquet.protocol.names import TRACE_TOPIC

_COUNT_MAX = 64


async def trace_of(servers: AdminServers, message_id: str, topic: str | None) -> list[TraceRecord]:
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
    return sorted(records, key=_order)


def _order(record: TraceRecord) -> tuple[int, bool]:
    return record.timestamp, isinstance(record, SubAfterRecord)
