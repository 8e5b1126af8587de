"""Which messages a job reads: of topics or of a lake; by time, tags and keys, and by SQL.

A pinned selection has an end offset for each queue, so it has the same messages whenever it is
read, however many are sent meanwhile: what a dry run shows is what is sent later. `selected` makes
a DataFrame of it, with all columns of messages, whether they come from brokers or from a lake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, functions as sql

from roquet.client.errors import BadArgument
from roquet.client.group.subscriptions import subscription_of
from roquet.client.queue_ref import QueueRef
from roquet.pipeline import register
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.data_sources import message_schema
from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake.files import in_hours, quarantine_of, topic_of
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import existing_settings, state_of_lake
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.options.declaring import json_object, read_options
from roquet.pipeline.options.reading import ReadOptions, TopicOptions
from roquet.pipeline.queue_offsets import flat_table, queue_key, read_nested_table
from roquet.pipeline.session import FILTER_PUSHDOWN
from roquet.pipeline.source.lake_files import SOURCE_NAME, LakeFilesSource, request_of
from roquet.pipeline.source.positions import batch_ranges
from roquet.pipeline.source.rows import pull_group
from roquet.protocol.messages.message import KEY_SEPARATOR
from roquet.settings.options import TIME_MS

_ID_SIZE: Final = 16
_SELECTING: Final = ("topic", "topics", "topicPattern")
# Of a subscription of tags alone; the topic does not matter.
_ANY_TOPIC: Final = "any"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """`source` are options of format `rocketmq` by their names; of a lake, only those of topics.

    `start` and `end` are store times. `where` is Spark SQL over the columns of messages. `ends` are
    the end offsets that pin it.
    """

    source: Mapping[str, str]
    lake: LakePlace | None = None
    start: str | None = None
    end: str | None = None
    tags: str | None = None
    keys: tuple[str, ...] = ()
    where: str | None = None
    ends: Mapping[QueueRef, int] | None = None

    @property
    def id(self) -> str:
        """The same for the same messages, whichever name server is asked, and how."""
        parts = [
            {name: self.source[name] for name in _SELECTING if name in self.source},
            str(self.lake and self.lake.absolute()),
            [self.start, self.end, self.tags, self.where],
            sorted(self.keys),
            sorted((*queue, end) for queue, end in (self.ends or {}).items()),
        ]
        return sha256(msgspec.json.encode(parts)).hexdigest()[:_ID_SIZE]


def pinned(selection: Selection) -> Selection:
    """The selection with an end offset for each queue, not after one that it has already.

    Asks brokers, or reads the log of the lake. Raises BadOption, BadLake, DataLoss, and what the
    client raises.
    """
    tags_in(selection.tags)
    ends = _topic_ends(selection) if selection.lake is None else _lake_ends(selection)
    if selection.ends is not None:
        unknown = selection.ends.keys() - ends.keys()
        if unknown:
            raise BadOption("endingOffsets", f"no such queue: {queue_key(min(unknown))}")
        ends = {queue: min(end, ends[queue]) for queue, end in selection.ends.items()}
    return replace(selection, ends=ends)


def reading_options(selection: Selection) -> dict[str, str]:
    """Options of format `rocketmq` for a selection of topics, all but its end."""
    options = dict(selection.source)
    if selection.start is not None:
        options["startingTimestamp"] = selection.start
    if selection.tags is not None:
        options["tagExpression"] = selection.tags
    return options


def chosen_topics(selection: Selection, there: set[str]) -> set[str]:
    """The selected topics of a lake; all of them if none is named. Raises BadOption."""
    named = {name: selection.source[name] for name in _SELECTING if name in selection.source}
    if not named:
        return there
    options = read_options(TopicOptions, named)
    if options.named is None:
        return set(options.chosen(there))
    unknown = set(options.named) - there
    if unknown:
        has = ", ".join(sorted(there)) or "none"
        raise BadOption("topic", f"the lake has no topic {min(unknown)!r}; it has: {has}")
    return set(options.named)


def tags_in(expression: str | None) -> tuple[str, ...]:
    """The tags of `new || paid`; none if all are selected. Raises BadOption."""
    try:
        return tuple(sorted(subscription_of(_ANY_TOPIC, expression).tags))
    except BadArgument as error:
        raise BadOption("tagExpression", str(error)) from None


def ends_text(ends: Mapping[QueueRef, int]) -> str:
    """As a value of the option `endingOffsets`."""
    table: dict[str, dict[str, dict[str, int]]] = {}
    for queue, end in sorted(ends.items()):
        brokers = table.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = end
    return msgspec.json.encode(table).decode()


def read_ends(text: str) -> dict[QueueRef, int]:
    """Raises BadOption."""
    try:
        return read_nested_table(json_object(text), 0)
    except ValueError as error:
        raise BadOption("endingOffsets", f"{text!r}: expected {error}") from None


def _topic_ends(selection: Selection) -> dict[QueueRef, int]:
    options = reading_options(selection)
    if selection.end is not None:
        options["endingTimestamp"] = selection.end
    reading = read_options(ReadOptions, options)
    reader = topic_reader(reading.cluster, pull_group(reading))
    return {each.queue: each.end for each in batch_ranges(reader, reading)}


def _lake_ends(selection: Selection) -> dict[QueueRef, int]:
    assert selection.lake is not None
    existing_settings(selection.lake)
    ends = state_of_lake(selection.lake).queue_ends()
    topics = chosen_topics(selection, {queue.topic for queue in ends})
    return {queue: end for queue, end in ends.items() if queue.topic in topics}


def selected(spark: SparkSession, selection: Selection) -> DataFrame:
    """Raises BadOption and BadLake."""
    if selection.lake is None:
        return _chosen(_topic_frame(spark, selection), selection)
    return _chosen(_lake_frame(spark, selection), selection)


def quarantined(spark: SparkSession, selection: Selection) -> DataFrame:
    """The selected messages in the quarantine of a lake, which could not be decoded.

    Raises as `selected`.
    """
    assert selection.lake is not None
    return _chosen(_lake_frame(spark, selection, is_quarantine=True), selection)


def _chosen(frame: DataFrame, selection: Selection) -> DataFrame:
    """Applies the conditions that neither brokers nor the lake have applied."""
    if selection.ends is not None:
        ends = sql.from_json(
            sql.lit(msgspec.json.encode(flat_table(selection.ends)).decode()), "map<string,bigint>"
        )
        frame = frame.where(sql.col("queueOffset") < ends[_queue_column()])
    if selection.keys:
        wanted = sql.array(*(sql.lit(key) for key in selection.keys))
        frame = frame.where(sql.arrays_overlap(sql.split("keys", KEY_SEPARATOR), wanted))
    return frame if selection.where is None else frame.where(sql.expr(selection.where))


def _topic_frame(spark: SparkSession, selection: Selection) -> DataFrame:
    register(spark)
    options = reading_options(selection)
    if selection.ends is not None:
        options["endingOffsets"] = ends_text(selection.ends)
    elif selection.end is not None:
        options["endingTimestamp"] = selection.end
    if selection.where is not None and spark.conf.get(FILTER_PUSHDOWN, "false") == "true":
        # Its caller has this condition in all queries of the frame.
        options["filterPushdown"] = "true"
    return spark.read.format("rocketmq").options(**options).load()


def _lake_frame(
    spark: SparkSession, selection: Selection, *, is_quarantine: bool = False
) -> DataFrame:
    """Of the files that the lake, or its quarantine, lists now, whatever else is there."""
    assert selection.lake is not None
    settings = existing_settings(selection.lake)
    start_ms, end_ms = _moment("start", selection.start), _moment("end", selection.end)
    there = {queue.topic for queue in state_of_lake(selection.lake).queue_ends()}
    topics = chosen_topics(selection, there)
    if settings.format is LakeFormat.PARQUET:
        frame = _parquet_frame(
            spark, selection.lake.absolute(), topics, (start_ms, end_ms), is_quarantine
        )
    else:
        spark.dataSource.register(LakeFilesSource)
        request = request_of(
            selection.lake,
            sorted(topics),
            is_quarantine=is_quarantine,
            start_ms=start_ms,
            end_ms=end_ms,
        )
        frame = spark.read.format(SOURCE_NAME).options(**request.as_options()).load()
    if start_ms is not None:
        frame = frame.where(sql.col("storeTimestamp") >= sql.lit(_at(start_ms)))
    if end_ms is not None:
        frame = frame.where(sql.col("storeTimestamp") < sql.lit(_at(end_ms)))
    tags = tags_in(selection.tags)
    return frame.where(sql.col("tags").isin(*tags)) if tags else frame


def _parquet_frame(
    spark: SparkSession,
    lake: LakePlace,
    topics: set[str],
    times_ms: tuple[int | None, int | None],
    is_quarantine: bool,
) -> DataFrame:
    assert isinstance(lake, Path)
    schema = message_schema(existing_settings(lake).properties)
    state = state_of_lake(lake)
    root = quarantine_of(lake) if is_quarantine else lake
    files = state.quarantined_files if is_quarantine else state.files
    of_topics = [path for path in files if topic_of(path) in topics]
    paths = [str(root / path) for path in in_hours(of_topics, *times_ms)]
    if not paths:
        return spark.createDataFrame([], schema)
    frame = spark.read.schema(schema).option("basePath", str(root)).parquet(*paths)
    return frame.select(*schema.fieldNames())


def _moment(name: str, text: str | None) -> int | None:
    try:
        moment: int | None = None if text is None else TIME_MS.parse(text)
    except ValueError:
        raise BadOption(name, f"{text!r}: expected {TIME_MS.expected}") from None
    return moment


def _at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _queue_column() -> Column:
    """The same text as `queue_key`."""
    return sql.concat_ws("@", "topic", "brokerName", sql.col("queueId").cast("string"))
