"""Options for reading: of format `rocketmq`, in batch and as a stream, and of `rocketmq-store`.

Which topics and queues are read, and where reading starts and ends, is declared first: selections
are shared.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.cluster import ClusterOptions, check_group_option
from roquet.pipeline.options.declaring import (
    COUNT,
    DURATION,
    NAMES,
    NUMBERS,
    PATTERN,
    SIZE,
    SQL,
    TAGS,
    group,
    json_object,
    option,
)
from roquet.pipeline.queue_offsets import EARLIEST_OFFSET, read_nested_table, read_queue_lists
from roquet.protocol.record_columns import PropertiesForm
from roquet.settings.options import STRICT_BOOLEAN, TEXT, TIME_MS, OptionKind, one_of


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    topic: str | None = option("topic", TEXT, "the topic", None)
    topics: tuple[str, ...] | None = option("topics", NAMES, "several topics", None)
    topic_pattern: str | None = option(
        "topicPattern",
        PATTERN,
        "all topics whose full name matches; new ones are found later",
        None,
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        given = [each for each in (self.topic, self.topics, self.topic_pattern) if each is not None]
        if len(given) != 1:
            raise BadOption("topic", "give exactly one of 'topic', 'topics' and 'topicPattern'")

    @property
    def named(self) -> tuple[str, ...] | None:
        """The topics, None for a pattern."""
        return (self.topic,) if self.topic is not None else self.topics

    def chosen(self, there: Iterable[str]) -> list[str]:
        """The existing topics that match the pattern."""
        assert self.topic_pattern is not None
        matches = re.compile(self.topic_pattern).fullmatch
        return sorted(topic for topic in there if matches(topic))


class Position(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    # The committed offset of the group; a queue without one is read from its first message.
    GROUP = "group"


class QueueOffsets(NamedTuple):
    """Offsets of some queues: -2 is the earliest one, -1 the latest."""

    by_queue: Mapping[QueueRef, int]


def _position_or_offsets(value: str) -> Position | QueueOffsets:
    if value.startswith("{"):
        return QueueOffsets(read_nested_table(json_object(value), EARLIEST_OFFSET))
    try:
        return Position(value.lower())
    except ValueError:
        raise ValueError from None


def _times(value: str) -> dict[QueueRef, int]:
    return read_nested_table(json_object(value), 0)


def _queue_lists(value: str) -> frozenset[QueueRef]:
    return read_queue_lists(json_object(value))


_PUSHDOWN_MEANING: Final = (
    "filters of the query limit what is read; for a DataFrame that one query uses, see below"
)


QUEUE_LISTS: Final = OptionKind('JSON such as `{"topic": {"broker": [0, 1]}}`', _queue_lists)
POSITION: Final = OptionKind(
    'earliest, latest, group, or JSON such as `{"topic": {"broker": {"0": 23}}}`',
    _position_or_offsets,
)
TIMES: Final = OptionKind(
    'JSON of ms since 1970, such as `{"topic": {"broker": {"0": 1700000000000}}}`', _times
)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    cluster: ClusterOptions = group(ClusterOptions)
    topics: TopicOptions = group(TopicOptions)
    queues: frozenset[QueueRef] | None = option(
        "queues",
        QUEUE_LISTS,
        "only these queues of the topics; default: all, also later ones",
        None,
    )
    starting_offsets: Position | QueueOffsets | None = option(
        "startingOffsets",
        POSITION,
        "where to start; -2 in JSON is the earliest, -1 the latest; queues that are not named"
        " start at the earliest",
        None,
        shown="`earliest` in batch, `latest` for a stream",
    )
    ending_offsets: Position | QueueOffsets | None = option(
        "endingOffsets", POSITION, "where a batch ends", None, shown="`latest`"
    )
    starting_timestamp: int | None = option(
        "startingTimestamp",
        TIME_MS,
        "start at the first message stored at or after this time",
        None,
    )
    ending_timestamp: int | None = option(
        "endingTimestamp",
        TIME_MS,
        "end before the first message stored at or after this time",
        None,
    )
    starting_offsets_by_timestamp: Mapping[QueueRef, int] | None = option(
        "startingOffsetsByTimestamp", TIMES, "start time of each queue", None
    )
    ending_offsets_by_timestamp: Mapping[QueueRef, int] | None = option(
        "endingOffsetsByTimestamp", TIMES, "end time of each queue", None
    )
    tag_expression: str | None = option(
        "tagExpression", TAGS, "only messages with these tags, `new || paid`", None
    )
    sql_expression: str | None = option(
        "sqlExpression",
        SQL,
        "only messages whose properties match this SQL92 expression; the broker must allow it",
        None,
    )
    properties: PropertiesForm = option(
        "properties",
        one_of(PropertiesForm, ignore_case=True),
        "the column `properties`: none, the text as stored, or a map (which costs most)",
        PropertiesForm.MAP,
    )
    group_id: str | None = option(
        "groupId",
        TEXT,
        "consumer group whose offsets the query commits, for `startingOffsets=group` and for"
        " tools that show lag",
        None,
    )
    group_id_prefix: str = option(
        "groupIdPrefix",
        TEXT,
        "the group of pulls if `groupId` is not set",
        "roquet-spark",
    )
    commit_offsets: bool | None = option(
        "commitOffsets",
        STRICT_BOOLEAN,
        "whether a stream commits the offsets of `groupId`",
        None,
        shown="`true` with `groupId`",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger", COUNT, "maximum number of messages of a micro-batch", None
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger", COUNT, "a micro-batch waits for this many messages", None
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger",
        SIZE,
        "maximum number of bytes of a micro-batch, by the average size of messages",
        None,
    )
    max_trigger_delay: timedelta = option(
        "maxTriggerDelay",
        DURATION,
        "how long `minOffsetsPerTrigger` may delay a micro-batch",
        timedelta(minutes=15),
        shown="15m",
    )
    min_partitions: int | None = option(
        "minPartitions", COUNT, "minimum number of tasks, if there are as many messages", None
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition", COUNT, "maximum number of messages of one task", None
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        STRICT_BOOLEAN,
        "fail when messages that the query still needed are gone; else warn and continue",
        default=True,
    )
    filter_pushdown: bool = option(
        "filterPushdown", STRICT_BOOLEAN, _PUSHDOWN_MEANING, default=False
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if self.tag_expression is not None and self.sql_expression is not None:
            raise BadOption("tagExpression", "give either this or 'sqlExpression'")
        check_group_option("groupId", self.group_id)
        check_group_option("groupIdPrefix", self.group_id_prefix)
        _check_one("starting", self)
        _check_one("ending", self)
        if self.ending_offsets is Position.EARLIEST:
            raise BadOption("endingOffsets", "nothing would be read; did you mean 'latest'?")
        if Position.GROUP in (self.starting_offsets, self.ending_offsets) and not self.group_id:
            raise BadOption("groupId", "required for the offset 'group'")
        if self.commit_offsets and not self.group_id:
            raise BadOption("commitOffsets", "requires 'groupId'")
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise BadOption(
                "minOffsetsPerTrigger", f"{least} is more than 'maxOffsetsPerTrigger', {most}"
            )

    def check_stream(self) -> None:
        """Raises BadOption for options of a batch."""
        for name, value in _ways("ending", self).items():
            if value is not None:
                raise BadOption(name, "a stream has no end; use a batch, 'spark.read'")
        if self.filter_pushdown:
            raise BadOption("filterPushdown", "Spark pushes no filters down to a stream")

    @property
    def commits_offsets(self) -> bool:
        return self.group_id is not None and self.commit_offsets is not False


def _check_one(side: str, options: ReadOptions) -> None:
    """A bound is given in one way."""
    given = [name for name, value in _ways(side, options).items() if value is not None]
    if len(given) > 1:
        raise BadOption(given[0], f"it contradicts {given[1]!r}: give one of them")


def _ways(side: str, options: ReadOptions) -> dict[str, object]:
    """The ways in which a bound can be given."""
    return {
        f"{side}Offsets": getattr(options, f"{side}_offsets"),
        f"{side}Timestamp": getattr(options, f"{side}_timestamp"),
        f"{side}OffsetsByTimestamp": getattr(options, f"{side}_offsets_by_timestamp"),
    }


@dataclass(frozen=True, kw_only=True)
class StagingOptions:
    reading: ReadOptions = group(ReadOptions)
    lake: str = option("lake", TEXT, "the directory or the URI of the lake")
    storage_options: str | None = option(
        "storageOptions", TEXT, "a file with keys and endpoint of its object store", None
    )
    run: str = option("run", TEXT, "the directory for staged files of this writer", "")
    file_rows_max: int = option("fileRowsMax", COUNT, "no file crosses a multiple of it")
    body_schema: str | None = option(
        "bodySchema", TEXT, "how bodies are decoded into columns", None
    )


class Include(StrEnum):
    # What a consumer can read: no deleted topics, no half messages, nothing rolled back.
    READABLE = "readable"
    ALL = "all"


class OnDamage(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    path: str = option("path", TEXT, "the store directory, the argument of `load`")
    topics: TopicOptions = group(TopicOptions)
    queue_ids: tuple[int, ...] | None = option(
        "queueIds", NUMBERS, "only these queues of the topics, such as `0,3`", None
    )
    starting_timestamp: int | None = option(
        "startingTimestamp", TIME_MS, "only messages stored at or after this time", None
    )
    ending_timestamp: int | None = option(
        "endingTimestamp", TIME_MS, "only messages stored before this time", None
    )
    broker_name: str | None = option(
        "brokerName", TEXT, "value of the column `brokerName`, which a store does not have", None
    )
    properties: PropertiesForm = option(
        "properties",
        one_of(PropertiesForm, ignore_case=True),
        "the column `properties`: none, the text as stored, or a map (which costs most)",
        PropertiesForm.MAP,
    )
    split_size: int | None = option(
        "splitSize",
        SIZE,
        "bytes of the log that one task reads",
        None,
        shown="`128m`, less to use all cores",
    )
    include: Include = option(
        "include",
        one_of(Include, ignore_case=True),
        "what a consumer can read, or every record of the topics in the log, including those of"
        " deleted queues",
        Include.READABLE,
    )
    on_damage: OnDamage = option(
        "onDamage",
        one_of(OnDamage, ignore_case=True),
        "damaged parts of the log fail the query, or are skipped and counted in the log of tasks",
        OnDamage.FAIL,
    )
    filter_pushdown: bool = option(
        "filterPushdown", STRICT_BOOLEAN, _PUSHDOWN_MEANING, default=False
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        start, end = self.starting_timestamp, self.ending_timestamp
        if start is not None and end is not None and start > end:
            raise BadOption("startingTimestamp", "it is after 'endingTimestamp'")
