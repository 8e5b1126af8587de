"""Options that select what is read: topics, queues, and where reading starts and ends."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import option
from roquet.pipeline.options.kinds import NAMES, PATTERN, json_object
from roquet.pipeline.queue_offsets import EARLIEST_OFFSET, read_nested_table, read_queue_lists
from roquet.settings.options import TEXT, OptionKind


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


QUEUE_LISTS: Final = OptionKind('JSON such as `{"topic": {"broker": [0, 1]}}`', _queue_lists)
POSITION: Final = OptionKind(
    'earliest, latest, group, or JSON such as `{"topic": {"broker": {"0": 23}}}`',
    _position_or_offsets,
)
TIMES: Final = OptionKind(
    'JSON of ms since 1970, such as `{"topic": {"broker": {"0": 1700000000000}}}`', _times
)
