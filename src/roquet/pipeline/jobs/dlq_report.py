"""`dlq-report`: the dead letters of consumer groups, with reasons as far as they are recorded.

A dead letter has its origin in its properties. The reason is recorded by some clients, Roquet's
among them; brokers record none.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, functions as sql

from roquet.notebook_html import report_html
from roquet.pipeline.connections import cluster_admin, topic_reader
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.queries import run_query
from roquet.pipeline.selection import Selection, pinned, selected
from roquet.protocol.messages.message import KEY_SEPARATOR, Property
from roquet.protocol.names import DLQ_PREFIX

log = logging.getLogger(__name__)

TOP_DEFAULT: Final = 10

_GROUP: Final = "roquet-spark-dlq-report"

# The first one that is set counts.
_ORIGINS: Final = (Property.DLQ_ORIGIN_TOPIC, Property.RETRY_TOPIC, Property.REAL_TOPIC)
_ORIGIN_IDS: Final = (Property.ORIGIN_MESSAGE_ID, Property.DLQ_ORIGIN_MESSAGE_ID)
_REASON: Final = "DEAD_LETTER_REASON"
_ERROR: Final = "DEAD_LETTER_ERROR"
_TRIES: Final = "DEAD_LETTER_TRIES"


@dataclass(frozen=True, kw_only=True)
class DlqPlan:
    """`brokers` are options of format `rocketmq`.

    Without `groups`, all that have dead letters; `top` is the number of rows of each table.
    """

    brokers: Mapping[str, str]
    groups: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    top: int = TOP_DEFAULT


class DlqReport(NamedTuple):
    """Rows have the names that the command shows."""

    messages: int
    groups: list[Row]
    reasons: list[Row]
    topics: list[Row]
    keys: list[Row]
    last: list[Row]

    def _repr_html_(self) -> str:
        return report_html(self)


def dead_letter_topics(plan: DlqPlan) -> list[str]:
    """The readable ones. Raises BadOption for a group without dead letters, and what the client
    raises.
    """
    with cluster_admin(plan.brokers) as admin:
        topics = admin.topics(with_internal=True)
    there = {topic for topic in topics if topic.startswith(DLQ_PREFIX)}
    wanted = [DLQ_PREFIX + group for group in plan.groups] or sorted(there)
    for topic in wanted:
        if topic not in there:
            group = topic.removeprefix(DLQ_PREFIX)
            raise BadOption("group", f"{group!r} has no dead letters")
    reader = topic_reader(read_options(ClusterOptions, plan.brokers), _GROUP)
    readable = [topic for topic in wanted if reader.queues(topic)]
    for topic in wanted:
        if topic not in readable:
            log.warning("%s is skipped: its brokers do not allow reading it", topic)
    return readable


def dlq_report(spark: SparkSession, plan: DlqPlan, topics: Sequence[str]) -> DlqReport:
    """Raises QueryFailed, and what the client raises."""
    selection = pinned(
        Selection(
            source={**plan.brokers, "topics": ",".join(topics)},
            start=plan.start,
            end=plan.end,
        )
    )

    def look() -> DlqReport:
        letters = dead_letters(selected(spark, selection)).cache()
        try:
            return _summed_up(letters, plan.top)
        finally:
            letters.unpersist()

    return run_query(look)


def dead_letters(messages: DataFrame) -> DataFrame:
    """One row each, with the values of its properties."""
    return messages.select(
        sql.substring(sql.col("topic"), len(DLQ_PREFIX) + 1, 1 << 20).alias("group"),
        origin_topic().alias("topic"),
        _first_of(_ORIGIN_IDS).alias("origin_id"),
        sql.col("msgId").alias("id"),
        "tags",
        "keys",
        sql.coalesce(_property(_REASON), sql.lit("not recorded")).alias("reason"),
        _property(_ERROR).alias("error"),
        sql.coalesce(_property(_TRIES).try_cast("int"), sql.col("reconsumeTimes")).alias("tries"),
        sql.col("bornTimestamp").alias("sent"),
        sql.col("storeTimestamp").alias("given_up"),
    )


def origin_topic() -> Column:
    """The topic that a dead letter was sent to; null if its properties do not have it."""
    return _first_of(_ORIGINS)


def _summed_up(letters: DataFrame, top: int) -> DlqReport:
    count = sql.count(sql.lit(1)).alias("messages")
    groups = (
        letters.groupBy("group")
        .agg(
            count,
            sql.min("given_up").alias("first"),
            sql.max("given_up").alias("last"),
            sql.max("tries").alias("tries_max"),
            sql.count_distinct("topic").alias("topics"),
        )
        .orderBy(sql.desc("messages"), "group")
        .collect()
    )
    keys = letters.select(
        "group", sql.explode(sql.split("keys", KEY_SEPARATOR)).alias("key")
    ).where("key != ''")
    newest = letters.orderBy(sql.desc("given_up"), "id").limit(top)
    return DlqReport(
        sum(row.messages for row in groups),
        groups,
        _top(letters, ("group", "reason", "error"), top),
        _top(letters, ("group", "topic"), top),
        _top(keys, ("group", "key"), top),
        newest.select(
            "given_up", "group", "topic", "id", "origin_id", "tags", "keys", "tries", "reason"
        ).collect(),
    )


def _top(frame: DataFrame, names: Sequence[str], top: int) -> list[Row]:
    """The most frequent ones."""
    counted = frame.groupBy(*names).agg(
        sql.count(sql.lit(1)).alias("messages"),
    )
    return counted.orderBy(sql.desc("messages"), *names).limit(top).collect()


def _property(name: str) -> Column:
    return sql.col("properties")[name]


def _first_of(names: Sequence[str]) -> Column:
    return sql.coalesce(*(_property(name) for name in names))
