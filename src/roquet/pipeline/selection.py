"""Which messages a job reads: of topics or of a lake; by time, tags and keys, and by SQL.

A pinned selection has an end offset for each queue, so it has the same messages whenever it is
read, however many are sent meanwhile: what a dry run shows is what is sent later. `selected` makes
a DataFrame of it, with all columns of messages, whether they come from brokers or from a lake.
"""

import re
from collections.abc import Iterable, Mapping
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
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.files import quarantine_of, topic_of
from roquet.pipeline.lake.metadata import LakeSettings, PublishLog, read_settings
from roquet.pipeline.lake.state import LakeState
from roquet.pipeline.options.declaring import json_object, read_options
from roquet.pipeline.options.reading import ReadOptions, TopicOptions
from roquet.pipeline.queue_offsets import flat_table, queue_key, read_nested_table
from roquet.pipeline.source.positions import batch_ranges
from roquet.pipeline.source.rows import pull_group
from roquet.protocol.messages.message import KEY_SEPARATOR
from roquet.settings.options import TIME_MS

_ID_SIZE: Final = 16
_SELECTING: Final = ("topic", "topics", "topicPattern")
# Of a subscription of tags alone; the topic does not matter.
_ANY_TOPIC: Final = "any"

_HOUR_MS: Final = 3_600_000
_hour_in = re.compile(r"/dt=(\d{4}-\d{2}-\d{2})/hour=(\d{2})/").search


@dataclass(frozen=True, kw_only=True)
class Selection:
    """`source` are options of format `rocketmq` by their names; of a lake, only those of topics.

    `start` and `end` are store times. `where` is Spark SQL over the columns of messages. `ends` are
    the end offsets that pin it.
    """

    source: Mapping[str, str]
    lake: Path | None = None
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


def lake_settings(lake: Path) -> LakeSettings:
    """Raises BadLake if there is none."""
    settings = read_settings(lake)
    if settings is None:
        raise BadLake(f"no lake in {lake}")
    return settings


def lake_state(lake: Path) -> LakeState:
    """The state by its log as it is now. Raises BadLake."""
    return PublishLog(lake).refresh()


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
    lake_settings(selection.lake)
    ends = lake_state(selection.lake).queue_ends()
    topics = chosen_topics(selection, {queue.topic for queue in ends})
    return {queue: end for queue, end in ends.items() if queue.topic in topics}


def selected(spark: SparkSession, selection: Selection) -> DataFrame:
    """Raises BadOption and BadLake."""
    if selection.lake is None:
        return _chosen(_topic_frame(spark, selection), selection)
    lake = selection.lake.absolute()
    return _chosen(_lake_frame(spark, selection, lake, lake_state(lake).files), selection)


def quarantined(spark: SparkSession, selection: Selection) -> DataFrame:
    """The selected messages in the quarantine of a lake, which could not be decoded.

    Raises as `selected`.
    """
    assert selection.lake is not None
    lake = selection.lake.absolute()
    files = lake_state(lake).quarantined_files
    return _chosen(_lake_frame(spark, selection, quarantine_of(lake), files), selection)


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
    return spark.read.format("rocketmq").options(**options).load()


def _lake_frame(
    spark: SparkSession, selection: Selection, root: Path, files: Iterable[str]
) -> DataFrame:
    """Of the files below `root` that the log lists now, whatever else is in the directory."""
    assert selection.lake is not None
    schema = message_schema(lake_settings(selection.lake).properties)
    start_ms, end_ms = _moment("start", selection.start), _moment("end", selection.end)
    there = {queue.topic for queue in lake_state(selection.lake).queue_ends()}
    topics = chosen_topics(selection, there)
    of_topics = [path for path in files if topic_of(path) in topics]
    paths = [str(root / path) for path in in_hours(of_topics, start_ms, end_ms)]
    if not paths:
        return spark.createDataFrame([], schema)
    frame = spark.read.schema(schema).option("basePath", str(root)).parquet(*paths)
    frame = frame.select(*schema.fieldNames())
    if start_ms is not None:
        frame = frame.where(sql.col("storeTimestamp") >= sql.lit(_at(start_ms)))
    if end_ms is not None:
        frame = frame.where(sql.col("storeTimestamp") < sql.lit(_at(end_ms)))
    tags = tags_in(selection.tags)
    return frame.where(sql.col("tags").isin(*tags)) if tags else frame


def in_hours(paths: Iterable[str], start_ms: int | None, end_ms: int | None) -> list[str]:
    """The files of a lake that may have messages stored in that time."""
    found = []
    for path in paths:
        hour = _hour_in(f"/{path}")
        if hour is not None:
            hour_start = datetime.fromisoformat(f"{hour[1]}T{hour[2]}:00:00+00:00")
            hour_start_ms = round(hour_start.timestamp() * 1000)
            is_before = start_ms is not None and hour_start_ms + _HOUR_MS <= start_ms
            is_after = end_ms is not None and hour_start_ms >= end_ms
            if is_before or is_after:
                continue
        found.append(path)
    return found


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
