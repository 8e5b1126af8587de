"""Numbers by queue, as options and offsets carry them in JSON.

options   {"orders": {"broker-a": {"0": 23, "1": -2}}}     Kafka's form, with a broker in it
          {"orders": {"broker-a": [0, 1]}}                 the queues alone
offsets   {"orders@broker-a@0": 23}                        flat, so that Spark can compare texts
"""

from collections.abc import Mapping
from typing import Any, Final

from roquet.client.queue_ref import QueueRef

# As Spark's Kafka source has it.
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2

_SEPARATOR: Final = "@"


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
    """What a person wrote, one queue at least. Raises ValueError with what is expected."""
    expected = '{"topic": {"broker": [0, 1]}}'
    found: set[QueueRef] = set()
    for topic, brokers in table.items():
        if not isinstance(brokers, dict):
            raise ValueError(expected)  # noqa: TRY004  Every kind says so by ValueError.
        for broker_name, queue_ids in brokers.items():
            if not isinstance(queue_ids, list) or not all(map(_is_queue_id, queue_ids)):
                raise ValueError(f"{expected}, with whole numbers from 0 on")
            found |= {QueueRef(topic, broker_name, queue_id) for queue_id in queue_ids}
    if not found:
        raise ValueError(expected)
    return frozenset(found)


def read_nested_table(table: Mapping[str, Any], least: int) -> dict[QueueRef, int]:
    """What a person wrote. Raises ValueError with what is expected."""
    expected = '{"topic": {"broker": {"0": 23}}}'
    found: dict[QueueRef, int] = {}
    for topic, brokers in table.items():
        if not isinstance(brokers, dict):
            raise ValueError(expected)  # noqa: TRY004  Every kind says so by ValueError.
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
