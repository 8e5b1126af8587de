"""What happened to a message, in the order of time: from its copies and trace records. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from roquet.client.hooks import ConsumeOutcome
from roquet.client.trace.records import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
)
from roquet.protocol.messages.message import Property
from roquet.protocol.names import DLQ_PREFIX, RETRY_PREFIX

_REASON: Final = "DEAD_LETTER_REASON"


class FoundMessage(NamedTuple):
    """A message, or the copy of it that a group wanted again or gave up."""

    topic: str
    broker: str
    queue: int
    offset: int
    id: str
    offset_id: str
    born: datetime
    stored: datetime
    born_host: str
    tags: str | None
    keys: str | None
    retry_count: int
    body_size: int
    properties: Mapping[str, str]

    @property
    def place(self) -> str:
        return f"{self.topic}@{self.broker}@{self.queue}:{self.offset}"


class StoryEvent(NamedTuple):
    """`group` is who did it. `told_by` is where it is known from."""

    time: datetime
    id: str
    what: str
    group: str | None
    place: str | None
    details: str
    told_by: str


def story_events(
    messages: Iterable[FoundMessage], traces: Iterable[TraceRecord]
) -> list[StoryEvent]:
    """Oldest first; of one moment, in the order in which such things happen."""
    messages, traces = list(messages), list(traces)
    born = {each.id: each.born for each in messages}
    groups = {each.request_id: each.group for each in traces if isinstance(each, SubBeforeRecord)}
    told = [event for message in messages for event in _events_of(message)]
    told += [
        # Producers look at the clock before they stamp a message with its time.
        event._replace(time=max(event.time, born.get(event.id, event.time)))
        for trace in traces
        for event in _traced(trace, groups)
    ]
    # The sort is stable, and what brokers have comes before what clients say of it.
    return sorted(told, key=lambda event: event.time)


def _events_of(message: FoundMessage) -> Iterator[StoryEvent]:
    retried, dead = RETRY_PREFIX, DLQ_PREFIX
    if message.topic.startswith(retried):
        group = message.topic.removeprefix(retried)
        yield _stored(message, "ready to be tried again", group, f"retry {message.retry_count}")
    elif message.topic.startswith(dead):
        group = message.topic.removeprefix(dead)
        reason = message.properties.get(_REASON, "no reason said")
        details = f"{reason}, after {message.retry_count} retries"
        yield _stored(message, "given up as a dead letter", group, details)
    else:
        details = f"by {message.born_host}, {message.body_size} bytes"
        yield StoryEvent(message.born, message.id, "made", None, None, details, "message")
        named = [
            f"{name} {value}"
            for name, value in (("tags", message.tags), ("keys", message.keys))
            if value
        ]
        prepared = message.properties.get(Property.TRANSACTION_PREPARED)
        what = "stored, its transaction committed" if prepared == "true" else "stored"
        yield _stored(message, what, None, ", ".join(named))


def _stored(message: FoundMessage, what: str, group: str | None, details: str) -> StoryEvent:
    return StoryEvent(message.stored, message.id, what, group, message.place, details, "message")


def _traced(trace: TraceRecord, groups: Mapping[str, str]) -> Iterator[StoryEvent]:
    match trace:
        case PubRecord():
            what = "sent" if trace.is_success else "not sent"
            details = f"to {trace.topic} at {trace.store_host}, {trace.duration_ms} ms"
            time_ms, group = trace.timestamp, trace.group
        case SubBeforeRecord():
            what, details = "delivered to a listener", f"retry {trace.retry_count}"
            time_ms, group = trace.timestamp, trace.group
        case SubAfterRecord():
            if not trace.timestamp:
                return  # Old clients do not say when.
            is_done = trace.is_success and trace.outcome is ConsumeOutcome.SUCCESS
            what = "done" if is_done else "not done"
            details = f"{trace.outcome.name.lower().replace('_', ' ')}, {trace.duration_ms} ms"
            time_ms = trace.timestamp
            group = trace.group or groups.get(trace.request_id, "")
        case EndTransactionRecord():
            what, details = "transaction ended", trace.state
            time_ms, group = trace.timestamp, trace.group
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    yield StoryEvent(moment, trace.message_id, what, group or None, None, details, "trace")
