"""A selection as a DataFrame, with all columns of messages, wherever they come from."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, functions as sql

from roquet.pipeline import register
from roquet.pipeline.errors import BadOption
from roquet.pipeline.jobs.selection import (
    Selection,
    chosen_topics,
    ends_text,
    lake_settings,
    lake_state,
    reading_options,
    tags_in,
)
from roquet.pipeline.lake.file_names import quarantine_of
from roquet.pipeline.options.kinds import moment_ms
from roquet.pipeline.queue_tables import flat_table
from roquet.pipeline.schema import message_schema
from roquet.protocol.messages.message import KEY_SEPARATOR

_HOUR_MS: Final = 3_600_000
_hour_in = re.compile(r"/dt=(\d{4}-\d{2}-\d{2})/hour=(\d{2})/").search


def selected(spark: SparkSession, selection: Selection) -> DataFrame:
    """Raises BadOption and BadLake. What is read when is Spark's business."""
    if selection.lake is None:
        return _chosen(_topic_frame(spark, selection), selection)
    lake = selection.lake.absolute()
    return _chosen(_lake_frame(spark, selection, lake, lake_state(lake).files), selection)


def quarantined(spark: SparkSession, selection: Selection) -> DataFrame:
    """What a lake has of it beside itself, because it could not be decoded.

    Raises as `selected`.
    """
    assert selection.lake is not None
    lake = selection.lake.absolute()
    files = lake_state(lake).quarantined_files
    return _chosen(_lake_frame(spark, selection, quarantine_of(lake), files), selection)


def _chosen(frame: DataFrame, selection: Selection) -> DataFrame:
    """By what is not asked of whoever has the messages."""
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
    """Of the files below `root` that the log lists now, not of what lies in the directory."""
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
    """The files of a lake that may have messages which were stored in that time."""
    found = []
    for path in paths:
        hour = _hour_in(f"/{path}")
        if hour is not None:
            begin = datetime.fromisoformat(f"{hour[1]}T{hour[2]}:00:00+00:00")
            begin_ms = round(begin.timestamp() * 1000)
            is_before = start_ms is not None and begin_ms + _HOUR_MS <= start_ms
            is_behind = end_ms is not None and begin_ms >= end_ms
            if is_before or is_behind:
                continue
        found.append(path)
    return found


def topic_of(path: str) -> str:
    """Of a file below a lake."""
    return unquote(path.partition("/")[0].removeprefix("topic="))


def _moment(name: str, text: str | None) -> int | None:
    try:
        moment: int | None = None if text is None else moment_ms.read(text)
    except ValueError as error:
        raise BadOption(name, f"{text!r} is not {error}") from None
    return moment


def _at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _queue_column() -> Column:
    """As `queue_key` has it."""
    return sql.concat_ws("@", "topic", "brokerName", sql.col("queueId").cast("string"))
