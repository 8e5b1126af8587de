"""Which queues are read, and where that begins and ends: by a word, by offsets, or by times."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.options.declaring import Kind
from roquet.pipeline.options.kinds import json_object
from roquet.pipeline.queue_tables import EARLIEST_OFFSET, read_nested_table, read_queue_lists


class Position(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    # Where the consumer group is; a queue it never read is read from its first message.
    GROUP = "group"


class QueueOffsets(NamedTuple):
    """Offsets for some queues: -2 is the earliest one, -1 the latest. The rest is left open."""

    by_queue: Mapping[QueueRef, int]


def _position_or_offsets(value: str) -> Position | QueueOffsets:
    if value.startswith("{"):
        return QueueOffsets(read_nested_table(json_object(value), EARLIEST_OFFSET))
    try:
        return Position(value.lower())
    except ValueError:
        raise ValueError(
            'earliest, latest, group, or JSON such as {"topic": {"broker": {"0": 23}}}'
        ) from None


def _times(value: str) -> dict[QueueRef, int]:
    return read_nested_table(json_object(value), 0)


def _queue_lists(value: str) -> frozenset[QueueRef]:
    return read_queue_lists(json_object(value))


queue_lists: Final = Kind('`{"topic": {"broker": [0, 1]}}`', _queue_lists)
position: Final = Kind("`earliest` \\| `latest` \\| `group` \\| JSON", _position_or_offsets)
times: Final = Kind("JSON, ms since 1970", _times)
