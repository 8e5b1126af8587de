"""`story`: the life of a message: sent, delivered, tried again, given up, as far as it left traces.

Copies in the topics of retries and dead letters keep the id of the message; trace records have it
among their keys. Topics are read, not asked: brokers find messages by hashes of keys, in an index
that may be gone before the messages are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, functions as sql

from roquet.client.errors import ClientError
from roquet.client.queue_ref import QueueRef
from roquet.client.trace.records import TraceRecord, parse_traces
from roquet.pipeline.errors import BadOption, PipelineError
from roquet.pipeline.jobs.admins import cluster_admin
from roquet.pipeline.jobs.batch_queries import run_query
from roquet.pipeline.jobs.message_frames import selected
from roquet.pipeline.jobs.selection import Selection, pinned
from roquet.pipeline.jobs.story_events import FoundMessage, StoryEvent, story_events
from roquet.protocol.messages.message import KEY_SEPARATOR, Property
from roquet.protocol.names import TRACE_TOPIC, dlq_topic, retry_topic

# A key that all messages have must not fill the memory.
_ROWS_MAX: Final = 10_000


class NoSuchMessage(PipelineError):
    """The topic has no message of that id or key, or not any more."""


@dataclass(frozen=True, kw_only=True)
class StoryPlan:
    """By the id that a producer got or that of a place, or by a key, which many may have.

    Retries and dead letters are looked for in all groups that read the topic if none is named.
    `brokers` are options of format `rocketmq` that reach them.
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
    """What a group did about a message, as far as its offset says."""

    id: str
    group: str
    state: str


class Story(NamedTuple):
    events: Sequence[StoryEvent]
    groups: Sequence[GroupState]


class StoryPlaces(NamedTuple):
    """Where to look. `others` may hold copies or traces."""

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
        raise NoSuchMessage(f"{plan.topic} has no message with {what}, or not any more")
    ids = sorted({each.id for each in found})
    copies: list[FoundMessage] = []
    traces: list[TraceRecord] = []
    if places.others:
        origins = sorted({*ids, *(each.offset_id for each in found)})
        for row in _read(spark, plan, places.others, _is_about(ids, origins)):
            if row.topic == plan.trace_topic:
                text = bytes(row.body).decode(errors="replace")
                traces += [each for each in parse_traces(text) if each.message_id in ids]
            else:
                copies.append(_found(row))
    return Story(
        story_events([*found, *copies], traces), list(_group_states(plan, places.groups, found))
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
        # Spark's times are those of this machine and do not say so.
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
                # The rest of the story is worth telling.
                yield from (GroupState(each.id, group, f"not known: {error}") for each in found)
                continue
            offsets = {each.queue: each.consumer_offset for each in progress.queues}
            for message in found:
                offset = offsets.get(QueueRef(message.topic, message.broker, message.queue))
                yield GroupState(message.id, group, _state(offset, message.offset))


def _state(committed: int | None, offset: int) -> str:
    if committed is None:
        return "never read this queue"
    return "has passed it" if committed > offset else f"is {offset - committed + 1} behind"
