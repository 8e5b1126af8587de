"""`replay`: sends messages of a topic or a lake again, each of them once.

They go to one topic; dead letters and the messages in the quarantine of a lake may go to the topics
that they came from.
The selection is pinned before, and messages are identified by their location: so an interrupted
replay is run again with the same selection and the same id, on any number of cores, and what
brokers have already is not sent again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession, functions as sql
from pyspark.sql.types import MapType

from roquet.client.errors import TopicNotFound
from roquet.client.producer.outgoing import RESERVED_NAMES
from roquet.notebook_html import report_html
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.errors import BadOption, PipelineError
from roquet.pipeline.jobs.dlq_report import origin_topic
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.queries import run_query
from roquet.pipeline.selection import Selection, pinned, quarantined, selected

PREVIEW_ROWS: Final = 5

# Few, so that a low rate does not come in bursts.
_MESSAGES_A_REQUEST: Final = 20
_TASKS_MAX: Final = 64
_GROUP: Final = "roquet-spark-replay"
_COUNTED: Final = "rows"
_ID: Final = "id"
_TARGET: Final = "target"
# In the id of a replay without one target.
_OWN_TOPICS: Final = "origin"
_PLACE: Final = ("topic", "brokerName", "queueId", "queueOffset")


class Origin(Enum):
    """What is selected, and so what the topics of messages were."""

    MESSAGES = auto()
    DEAD_LETTERS = auto()
    QUARANTINE = auto()


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """`target` are options of the cluster of `topic`. `write_id` identifies the replay.

    Without `topic`, each message goes to the one that it was sent to before. With `keeps_order`
    messages of one queue are sent to one queue, in order.
    """

    selection: Selection
    target: Mapping[str, str]
    topic: str | None = None
    origin: Origin = Origin.MESSAGES
    rate: int | None = None
    write_id: str | None = None
    keeps_order: bool = False

    @property
    def id(self) -> str:
        """The same for the same messages to the same topic."""
        return self.write_id or f"{self.topic or _OWN_TOPICS}-{self.selection.id}"


class Preview(NamedTuple):
    """What would be sent, and what would not: messages whose topic is unknown."""

    messages: int
    without_topic: int
    by_topic: list[Row]
    first_rows: list[Row]

    def _repr_html_(self) -> str:
        return report_html(self)


class ReplayReport(NamedTuple):
    messages: int
    without_topic: int
    topic: str | None
    write_id: str

    def _repr_html_(self) -> str:
        return report_html(self)


class MissingTopics(PipelineError):
    """Topics that messages would be sent to do not exist, or cannot be written. Nothing is sent."""

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__(
            f"nothing is sent: no such topic, or none to write to: {', '.join(topics)}. Create"
            " it, leave its messages out with --where, or name another topic with --to"
        )
        self.topics = tuple(topics)


def check_replay(plan: ReplayPlan) -> ReplayPlan:
    """The plan with its selection pinned; the target topic, if it is named, exists.

    Raises BadOption and what the client raises.
    """
    if plan.topic is not None:
        cluster = read_options(ClusterOptions, plan.target)
        if not topic_reader(cluster, _GROUP).queues(plan.topic):
            raise BadOption("to", f"{plan.topic} has no readable queue")
    return replace(plan, selection=pinned(plan.selection))


def check_targets(plan: ReplayPlan, topics: Sequence[str]) -> None:
    """Raises MissingTopics, and what the client raises."""
    reader = topic_reader(read_options(ClusterOptions, plan.target), _GROUP)
    missing = []
    for topic in topics:
        try:
            found = reader.queues(topic)
        except TopicNotFound:
            found = []
        if not found:
            missing.append(topic)
    if missing:
        raise MissingTopics(missing)


def preview(spark: SparkSession, plan: ReplayPlan) -> Preview:
    """Sends nothing. Raises QueryFailed."""

    def look() -> Preview:
        frame = _selected(spark, plan)
        counts = (
            frame.groupBy(_TARGET, "topic", "tags")
            .agg(
                sql.count(sql.lit(1)).alias("messages"),
                sql.min("storeTimestamp").alias("first_stored"),
                sql.max("storeTimestamp").alias("last_stored"),
            )
            .orderBy(_TARGET, "topic", "tags")
            .collect()
        )
        sent = frame.where(sql.col(_TARGET).isNotNull())
        first = sent.orderBy("storeTimestamp", *_PLACE).limit(PREVIEW_ROWS).collect()
        without_topic = sum(row.messages for row in counts if row[_TARGET] is None)
        total = sum(row.messages for row in counts)
        return Preview(total - without_topic, without_topic, counts, first)

    return run_query(look)


def replay(spark: SparkSession, plan: ReplayPlan) -> ReplayReport:
    """Raises MissingTopics before anything is sent, and QueryFailed.

    Run again, it sends only what is missing.
    """
    counts = _counts(spark, plan)
    check_targets(plan, [topic for topic in counts if topic is not None])
    tasks = task_count(plan.selection)
    options = dict(plan.target) | {
        "deliveryMode": "idempotent",
        "writeId": plan.id,
        "groupId": _GROUP,
        "idColumn": _ID,
    }
    if plan.rate is not None:
        at_once = min(tasks, spark.sparkContext.defaultParallelism)
        options["batchCount"] = str(_MESSAGES_A_REQUEST)
        options["maxMessagesPerSecond"] = str(rate_of_task(plan.rate, at_once))

    def send() -> int:
        frame = _selected(spark, plan).where(sql.col(_TARGET).isNotNull())
        frame = frame.repartition(tasks, *_PLACE[:3])
        frame = frame.sortWithinPartitions(*_PLACE, "storeTimestamp", "physicalOffset")
        observed = Observation()
        frame = sent_frame(frame, keeps_order=plan.keeps_order)
        frame = frame.observe(observed, sql.count(sql.lit(1)).alias(_COUNTED))
        frame.write.format("rocketmq").options(**options).mode("append").save()
        count: int = observed.get[_COUNTED]
        return count

    return ReplayReport(run_query(send), counts.get(None, 0), plan.topic, plan.id)


def _counts(spark: SparkSession, plan: ReplayPlan) -> dict[str | None, int]:
    """The messages for each topic; those without one are left out."""
    if plan.topic is not None:
        return {plan.topic: 0}
    counted = run_query(lambda: _selected(spark, plan).groupBy(_TARGET).count().collect())
    return {row[_TARGET]: row["count"] for row in counted}


def _selected(spark: SparkSession, plan: ReplayPlan) -> DataFrame:
    """With the topic that each message is sent to."""
    if plan.origin is Origin.QUARANTINE:
        frame = quarantined(spark, plan.selection)
    else:
        frame = selected(spark, plan.selection)
    if plan.topic is not None:
        return frame.withColumn(_TARGET, sql.lit(plan.topic))
    is_dead = plan.origin is Origin.DEAD_LETTERS
    return frame.withColumn(_TARGET, origin_topic() if is_dead else sql.col("topic"))


def task_count(selection: Selection) -> int:
    """One for each queue, up to a limit: it must not depend on cores."""
    return max(1, min(_TASKS_MAX, len(selection.ends or ())))


def rate_of_task(rate: int, at_once: int) -> int:
    """The rate of each of the concurrent tasks; together not more than `rate`."""
    if rate < at_once:
        raise BadOption(
            "rate",
            f"{at_once} tasks run at once, so the minimum is {at_once} a second; with --master"
            " local[1] it is 1",
        )
    return rate // at_once


def sent_frame(frame: DataFrame, *, keeps_order: bool) -> DataFrame:
    """The columns that are sent, without properties that clients and brokers set."""
    columns = [
        sql.col(_TARGET).alias("topic"),
        sql.col("body"),
        sql.col("tags"),
        sql.col("keys"),
        sql.col("flag"),
    ]
    # A lake may have two messages of one location, if the topic was created again.
    columns.append(
        sql.concat_ws("@", *_PLACE, sql.unix_millis("storeTimestamp"), "physicalOffset").alias(_ID)
    )
    if "properties" in frame.columns:
        is_map = isinstance(frame.schema["properties"].dataType, MapType)
        kept = _without_reserved if is_map else _text_without_reserved
        columns.append(kept(sql.col("properties")).alias("properties"))
    if keeps_order:
        columns.append(sql.concat_ws("@", *_PLACE[:3]).alias("orderKey"))
    return frame.select(*columns)


def _without_reserved(properties: Column) -> Column:
    return sql.map_filter(properties, lambda name, _: ~name.isin(*sorted(RESERVED_NAMES)))


def _text_without_reserved(properties: Column) -> Column:
    """The same for properties as one text, as stored."""
    kept = sql.filter(
        sql.split(properties, "\x02"),
        lambda each: ~sql.substring_index(each, "\x01", 1).isin("", *sorted(RESERVED_NAMES)),
    )
    return sql.array_join(kept, "\x02")
