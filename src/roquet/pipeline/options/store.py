"""Options of format `rocketmq-store`: reading the directories of brokers, without the brokers."""

from dataclasses import dataclass
from enum import StrEnum

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import group, option
from roquet.pipeline.options.kinds import NUMBERS, SIZE
from roquet.pipeline.options.selection import TopicOptions
from roquet.protocol.record_columns import PropertiesForm
from roquet.settings.options import TEXT, TIME_MS, one_of


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

    def __post_init__(self) -> None:
        """Raises BadOption."""
        start, end = self.starting_timestamp, self.ending_timestamp
        if start is not None and end is not None and start > end:
            raise BadOption("startingTimestamp", "it is after 'endingTimestamp'")
