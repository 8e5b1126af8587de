"""Offsets by queue as JSON: in options, and in the checkpoint of a stream.

options   {"orders": {"broker-a": {"0": 23, "1": -2}}}     Kafka's form, with a broker in it
          {"orders": {"broker-a": [0, 1]}}                 the queues alone
offsets   {"orders@broker-a@0": 23}                        flat, so that Spark can compare texts

A checkpoint has for each batch:

    {"v": 1,
     "q": {"orders@broker-a@0": 123},             the next offset
     "init": {"orders@broker-a@0": 7},            where the batch that ends here started, if not
                                                  where the one before it ended
     "first": {"orders@broker-a@0": 0},           the queue as it was seen last: its first offset,
     "born": {"orders@broker-a@0": 1700000000000}}   and when that message was stored

`init` exists for three reasons. Spark asks for the initial offset more than once, and again after
a restart when the first batch was not finished; the first answer is not known then, so the first
batch carries it. A queue that appears later starts at its first message. And a queue that lost
messages, or was deleted and created again, resumes where it can.

A queue that was deleted and created again has a younger first message, at the same offset.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.planning import QueueRange

# As Spark's Kafka source has it.
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2

_SEPARATOR: Final = "@"

_VERSION: Final = 1


def queue_key(queue: QueueRef) -> str:
    return f"{queue.topic}{_SEPARATOR}{queue.broker_name}{_SEPARATOR}{queue.queue_id}"


def queue_of_key(key: str) -> QueueRef:
    """Raises ValueError."""
    topic, _, rest = key.partition(_SEPARATOR)
    broker_name, _, queue_id = rest.rpartition(_SEPARATOR)
    if not topic or not broker_name or not (queue_id.isascii() and queue_id.isdigit()):
        raise ValueError(f"topic@broker@queue: {key!r}")
    return QueueRef(topic, broker_name, int(queue_id))


def flat_table(numbers: Mapping[QueueRef, int]) -> dict[str, int]:
    """In the order of the keys: Spark compares offsets as texts."""
    return dict(sorted((queue_key(queue), number) for queue, number in numbers.items()))


def read_flat_table(table: Mapping[str, Any]) -> dict[QueueRef, int]:
    """Raises ValueError."""
    return {queue_of_key(key): int(number) for key, number in table.items()}


def read_queue_lists(table: Mapping[str, Any]) -> frozenset[QueueRef]:
    """From an option, at least one queue. Raises ValueError with what is expected."""
    expected = '{"topic": {"broker": [0, 1]}}'
    found: set[QueueRef] = set()
    for topic, brokers in table.items():
        if not isinstance(brokers, dict):
            raise ValueError(expected)  # noqa: TRY004  Every kind raises ValueError.
        for broker_name, queue_ids in brokers.items():
            if not isinstance(queue_ids, list) or not all(map(_is_queue_id, queue_ids)):
                raise ValueError(f"{expected}, with whole numbers from 0 on")
            found |= {QueueRef(topic, broker_name, queue_id) for queue_id in queue_ids}
    if not found:
        raise ValueError(expected)
    return frozenset(found)


def read_nested_table(table: Mapping[str, Any], least: int) -> dict[QueueRef, int]:
    """From an option. Raises ValueError with what is expected."""
    expected = '{"topic": {"broker": {"0": 23}}}'
    found: dict[QueueRef, int] = {}
    for topic, brokers in table.items():
        if not isinstance(brokers, dict):
            raise ValueError(expected)  # noqa: TRY004  Every kind raises ValueError.
        for broker_name, queues in brokers.items():
            if not isinstance(queues, dict):
                raise ValueError(expected)  # noqa: TRY004
            for queue_id, number in queues.items():
                is_id = queue_id.isascii() and queue_id.isdigit()
                if not is_id or not isinstance(number, int) or number < least:
                    raise ValueError(f"{expected}, with whole numbers from {least} on")
                found[QueueRef(topic, broker_name, int(queue_id))] = number
    return found


def _is_queue_id(value: object) -> bool:
    # True and False are numbers to Python.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class StreamOffset(NamedTuple):
    positions: Mapping[QueueRef, int]
    starts: Mapping[QueueRef, int] = {}
    first_offsets: Mapping[QueueRef, int] = {}
    born_ms: Mapping[QueueRef, int] = {}

    def to_json(self) -> dict[str, Any]:
        """Keys in order: Spark compares offsets by their texts."""
        return {
            "born": flat_table(self.born_ms),
            "first": flat_table(self.first_offsets),
            "init": flat_table(self.starts),
            "q": flat_table(self.positions),
            "v": _VERSION,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises PipelineError for an offset of another format or version."""
        if value.get("v") != _VERSION:
            raise PipelineError(
                f"the checkpoint has offsets of version {value.get('v')!r}, not {_VERSION}: another"
                " format or a newer Roquet wrote it"
            )
        try:
            return cls(
                read_flat_table(value["q"]),
                read_flat_table(value["init"]),
                read_flat_table(value.get("first", {})),
                read_flat_table(value.get("born", {})),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise PipelineError(f"damaged offset in the checkpoint: {error}") from None


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[QueueRange]:
    """What the batch from `start` to `end` reads."""
    if start == end:
        return []
    ranges = []
    for queue, position in end.positions.items():
        start_offset = end.starts.get(queue)
        if start_offset is None:
            start_offset = start.positions[queue]
        if start_offset < position:
            ranges.append(QueueRange(queue, start_offset, position))
    return ranges
