"""`replay`: sends messages of a topic or a lake to a topic, each of them once.

The selection is pinned before, and messages are identified by their location: so an interrupted
replay is run again with the same selection and the same id, on any number of cores, and what
brokers have already is not sent again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession, functions as sql
from pyspark.sql.types import MapType

from roquet.client.producer.outgoing import RESERVED_NAMES
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.queries import run_query
from roquet.pipeline.selection import Selection, pinned, selected

PREVIEW_ROWS: Final = 5

# Few, so that a low rate does not come in bursts.
_MESSAGES_A_REQUEST: Final = 20
_TASKS_MAX: Final = 64
_GROUP: Final = "roquet-spark-replay"
_COUNTED: Final = "rows"
_ID: Final = "id"
_PLACE: Final = ("topic", "brokerName", "queueId", "queueOffset")


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """`target` are options of the cluster of `topic`. `write_id` identifies the replay.

    With `keeps_order` messages of one queue are sent to one queue, in order.
    """

    selection: Selection
    target: Mapping[str, str]
    topic: str
    rate: int | None = None
    write_id: str | None = None
    keeps_order: bool = False

    @property
    def id(self) -> str:
        """The same for the same messages to the same topic."""
        return self.write_id or f"{self.topic}-{self.selection.id}"


class Preview(NamedTuple):
    """What would be sent."""

    messages: int
    by_topic: list[Row]
    first_rows: list[Row]


class ReplayReport(NamedTuple):
    messages: int
    topic: str
    write_id: str


def check_replay(plan: ReplayPlan) -> ReplayPlan:
    """The plan with its selection pinned; the target topic exists.

    Raises BadOption and what the client raises.
    """
    cluster = read_options(ClusterOptions, plan.target)
    if not topic_reader(cluster, _GROUP).queues(plan.topic):
        raise BadOption("to", f"{plan.topic} has no readable queue")
    return replace(plan, selection=pinned(plan.selection))


def preview(spark: SparkSession, plan: ReplayPlan) -> Preview:
    """Sends nothing. Raises QueryFailed."""

    def look() -> Preview:
        frame = selected(spark, plan.selection)
        counts = (
            frame.groupBy("topic", "tags")
            .agg(
                sql.count(sql.lit(1)).alias("messages"),
                sql.min("storeTimestamp").alias("first_stored"),
                sql.max("storeTimestamp").alias("last_stored"),
            )
            .orderBy("topic", "tags")
            .collect()
        )
        first = frame.orderBy("storeTimestamp", *_PLACE).limit(PREVIEW_ROWS).collect()
        return Preview(sum(row.messages for row in counts), counts, first)

    return run_query(look)


def replay(spark: SparkSession, plan: ReplayPlan) -> ReplayReport:
    """Raises QueryFailed; run again, it sends only what is missing."""
    tasks = task_count(plan.selection)
    options = dict(plan.target) | {
        "topic": plan.topic,
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
        frame = selected(spark, plan.selection)
        frame = frame.repartition(tasks, *_PLACE[:3])
        frame = frame.sortWithinPartitions(*_PLACE, "storeTimestamp", "physicalOffset")
        observed = Observation()
        frame = sent_frame(frame, keeps_order=plan.keeps_order)
        frame = frame.observe(observed, sql.count(sql.lit(1)).alias(_COUNTED))
        frame.write.format("rocketmq").options(**options).mode("append").save()
        count: int = observed.get[_COUNTED]
        return count

    return ReplayReport(run_query(send), plan.topic, plan.id)


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
    columns = [sql.col("body"), sql.col("tags"), sql.col("keys"), sql.col("flag")]
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
