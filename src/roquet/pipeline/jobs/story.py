"""`story`: the history of a message: sent, delivered, retried, dead-lettered, as far as recorded.

Messages in retry and dead-letter topics keep the id of the original; trace records have it among
their keys. Topics are read, not queried by key: brokers find messages by hashes of keys, in an
index that may expire before the messages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, functions as sql

from roquet.client.errors import ClientError
from roquet.client.hooks import ConsumeOutcome
from roquet.client.queue_ref import QueueRef
from roquet.client.trace.tracing import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
    parse_traces,
)
from roquet.pipeline.connections import cluster_admin
from roquet.pipeline.errors import BadOption, PipelineError
from roquet.pipeline.queries import run_query
from roquet.pipeline.selection import Selection, pinned, selected
from roquet.protocol.messages.message import KEY_SEPARATOR, Property
from roquet.protocol.names import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC, dlq_topic, retry_topic

# A key of all messages must not fill the memory.
_ROWS_MAX: Final = 10_000

_REASON: Final = "DEAD_LETTER_REASON"


class NoSuchMessage(PipelineError):
    """The topic has no message with that id or key, or it has expired."""


@dataclass(frozen=True, kw_only=True)
class StoryPlan:
    """By message id or offset message id, or by a key, which many messages may have.

    Without `groups`, retries and dead letters of all groups of the topic are searched. `brokers`
    are options of format `rocketmq`.
    """

    brokers: Mapping[str, str]
    topic: str
    id: str | None = None
    key: str | None = None
    groups: tuple[str, ...] = ()
    trace_topic: str = TRACE_TOPIC
    start: str | None = None

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if (self.id is None) == (self.key is None):
            raise BadOption("id", "give an id or a key")


class GroupState(NamedTuple):
    """Whether a group has consumed a message, by its offset."""

    id: str
    group: str
    state: str


class FoundMessage(NamedTuple):
    """A message, or its retry or dead letter of a group."""

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
    """`source` is the message itself, or a trace record."""

    time: datetime
    id: str
    what: str
    group: str | None
    place: str | None
    details: str
    source: str


class Story(NamedTuple):
    events: Sequence[StoryEvent]
    groups: Sequence[GroupState]


class StoryPlaces(NamedTuple):
    """Where to search. `others` may have retries, dead letters or traces."""

    groups: Sequence[str]
    others: Sequence[str]


def story_places(plan: StoryPlan) -> StoryPlaces:
    """Raises what the client raises, such as TopicNotFound."""
    with cluster_admin(plan.brokers) as admin:
        groups = list(plan.groups) or admin.topic_groups(plan.topic)
        there = set(admin.topics(with_internal=True))
    wanted = [retry_topic(group) for group in groups] + [dlq_topic(group) for group in groups]
    return StoryPlaces(groups, [each for each in (*wanted, plan.trace_topic) if each in there])


def story(spark: SparkSession, plan: StoryPlan, places: StoryPlaces) -> Story:
    """Raises NoSuchMessage, QueryFailed, and what the client raises."""
    wanted = (
        sql.arrays_overlap(sql.split("keys", KEY_SEPARATOR), sql.array(sql.lit(plan.key)))
        if plan.key is not None
        else sql.lit(plan.id).isin(sql.col("msgId"), sql.col("offsetMsgId"))
    )
    found = [_found(row) for row in _read(spark, plan, [plan.topic], wanted)]
    if not found:
        what = f"the key {plan.key}" if plan.key is not None else f"the id {plan.id}"
        raise NoSuchMessage(f"{plan.topic} has no message with {what}, or it has expired")
    ids = sorted({each.id for each in found})
    retries: list[FoundMessage] = []
    traces: list[TraceRecord] = []
    if places.others:
        origins = sorted({*ids, *(each.offset_id for each in found)})
        for row in _read(spark, plan, places.others, _is_about(ids, origins)):
            if row.topic == plan.trace_topic:
                text = bytes(row.body).decode(errors="replace")
                traces += [each for each in parse_traces(text) if each.message_id in ids]
            else:
                retries.append(_found(row))
    return Story(
        story_events([*found, *retries], traces), list(_group_states(plan, places.groups, found))
    )


def _read(spark: SparkSession, plan: StoryPlan, topics: Sequence[str], wanted: Column) -> list[Row]:
    source = {**plan.brokers, "topics": ",".join(topics)}
    selection = pinned(Selection(source=source, start=plan.start))

    def read() -> list[Row]:
        frame: DataFrame = selected(spark, selection).where(wanted)
        return frame.orderBy("storeTimestamp", "queueOffset").limit(_ROWS_MAX).collect()

    return run_query(read)


def _is_about(ids: Sequence[str], origins: Sequence[str]) -> Column:
    keys = sql.array(*(sql.lit(each) for each in ids))
    return (
        sql.col("msgId").isin(*ids)
        | sql.col("properties")[Property.ORIGIN_MESSAGE_ID].isin(*origins)
        | sql.arrays_overlap(sql.split(sql.coalesce("keys", sql.lit("")), KEY_SEPARATOR), keys)
    )


def _found(row: Row) -> FoundMessage:
    return FoundMessage(
        row.topic,
        row.brokerName,
        row.queueId,
        row.queueOffset,
        row.msgId or row.offsetMsgId,
        row.offsetMsgId,
        # Spark's times are local times without a zone.
        row.bornTimestamp.astimezone(UTC),
        row.storeTimestamp.astimezone(UTC),
        row.bornHost,
        row.tags,
        row["keys"],
        row.reconsumeTimes,
        len(row.body),
        row.properties,
    )


def _group_states(
    plan: StoryPlan, groups: Sequence[str], found: Sequence[FoundMessage]
) -> Iterator[GroupState]:
    with cluster_admin(plan.brokers) as admin:
        for group in groups:
            try:
                progress = admin.progress(group, topic=plan.topic)
            except ClientError as error:
                # The rest of the history is still useful.
                yield from (GroupState(each.id, group, f"unknown: {error}") for each in found)
                continue
            offsets = {each.queue: each.consumer_offset for each in progress.queues}
            for message in found:
                offset = offsets.get(QueueRef(message.topic, message.broker, message.queue))
                yield GroupState(message.id, group, _state(offset, message.offset))


def _state(committed: int | None, offset: int) -> str:
    if committed is None:
        return "has no offset in this queue"
    return "has passed it" if committed > offset else f"is {offset - committed + 1} behind"


def story_events(
    messages: Iterable[FoundMessage], traces: Iterable[TraceRecord]
) -> list[StoryEvent]:
    """Oldest first; at the same time, in the order in which such events happen."""
    messages, traces = list(messages), list(traces)
    born = {each.id: each.born for each in messages}
    groups = {each.request_id: each.group for each in traces if isinstance(each, SubBeforeRecord)}
    events = [event for message in messages for event in _events_of(message)]
    events += [
        # Producers look at the clock before they stamp a message with its time.
        event._replace(time=max(event.time, born.get(event.id, event.time)))
        for trace in traces
        for event in _traced(trace, groups)
    ]
    # The sort is stable, and messages come before trace records.
    return sorted(events, key=lambda event: event.time)


def _events_of(message: FoundMessage) -> Iterator[StoryEvent]:
    retried, dead = RETRY_PREFIX, DLQ_PREFIX
    if message.topic.startswith(retried):
        group = message.topic.removeprefix(retried)
        yield _stored(message, "ready for retry", group, f"retry {message.retry_count}")
    elif message.topic.startswith(dead):
        group = message.topic.removeprefix(dead)
        reason = message.properties.get(_REASON, "no reason recorded")
        details = f"{reason}, after {message.retry_count} retries"
        yield _stored(message, "moved to the dead-letter queue", group, details)
    else:
        details = f"by {message.born_host}, {message.body_size} bytes"
        yield StoryEvent(message.born, message.id, "created", None, None, details, "message")
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
                return  # Old clients do not record the time.
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
