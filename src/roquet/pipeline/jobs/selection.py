"""Which messages a job is about: of topics, or of a lake; by time, tags and keys, and by SQL.

A selection that is pinned says for each queue where it ends, so it has the same messages whenever
it is read, however many are sent meanwhile: what a dry run has shown is what is sent later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from roquet.client.errors import BadArgument
from roquet.client.group.subscriptions import subscription_of
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.publish_log import PublishLog
from roquet.pipeline.lake.settings import LakeSettings, read_settings
from roquet.pipeline.lake.state import LakeState
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.kinds import json_object
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.options.topics import TopicOptions
from roquet.pipeline.queue_tables import read_nested_table
from roquet.pipeline.source.positions import batch_ranges
from roquet.pipeline.source.rows import pull_group

_ID_SIZE: Final = 16
_SELECTING: Final = ("topic", "topics", "topicPattern")
# Of a subscription of tags alone; the topic does not matter.
_ANY_TOPIC: Final = "any"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """`source` are options of format `rocketmq` by their names; of a lake, only those of topics.

    `start` and `end` are about when messages were stored. `where` is Spark's SQL over the columns
    of messages. `ends` pins it.
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
        """The same for the same messages. Who is asked for them, and how, does not matter."""
        said = [
            {name: self.source[name] for name in _SELECTING if name in self.source},
            str(self.lake and self.lake.absolute()),
            [self.start, self.end, self.tags, self.where],
            sorted(self.keys),
            sorted((*queue, end) for queue, end in (self.ends or {}).items()),
        ]
        return sha256(msgspec.json.encode(said)).hexdigest()[:_ID_SIZE]


def pinned(selection: Selection) -> Selection:
    """The selection with an end for each queue, not behind one that it has already.

    Asks brokers, or reads the log of the lake. Raises BadOption, BadLake, DataLoss, and what the
    client raises.
    """
    tags_in(selection.tags)
    ends = _topic_ends(selection) if selection.lake is None else _lake_ends(selection)
    if selection.ends is not None:
        unknown = selection.ends.keys() - ends.keys()
        if unknown:
            raise BadOption("endingOffsets", f"there is no queue {min(unknown)}")
        ends = {queue: min(end, ends[queue]) for queue, end in selection.ends.items()}
    return replace(selection, ends=ends)


def reading_options(selection: Selection) -> dict[str, str]:
    """Options of format `rocketmq` for a selection of topics, all but where it ends."""
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
        raise BadLake(f"there is no lake in {lake}")
    return settings


def lake_state(lake: Path) -> LakeState:
    """What its log says now. Raises BadLake."""
    return PublishLog(lake).refresh()


def chosen_topics(selection: Selection, there: set[str]) -> set[str]:
    """Those of a lake that are meant; all of them if none is named. Raises BadOption."""
    named = {name: selection.source[name] for name in _SELECTING if name in selection.source}
    if not named:
        return there
    options = read_options(TopicOptions, named)
    if options.named is None:
        return set(options.chosen(there))
    unknown = set(options.named) - there
    if unknown:
        has = ", ".join(sorted(there)) or "none"
        raise BadOption("topic", f"the lake has no {min(unknown)!r}; there are: {has}")
    return set(options.named)


def tags_in(expression: str | None) -> tuple[str, ...]:
    """Of `new || paid`; none if all are meant. Raises BadOption."""
    try:
        return tuple(sorted(subscription_of(_ANY_TOPIC, expression).tags))
    except BadArgument as error:
        raise BadOption("tagExpression", str(error)) from None


def ends_text(ends: Mapping[QueueRef, int]) -> str:
    """As the option `endingOffsets` takes it."""
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
        raise BadOption("endingOffsets", f"{text!r} is not {error}") from None


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
