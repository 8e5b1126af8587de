"""Which queue: the name by which all clients speak of one."""

from typing import NamedTuple


class QueueRef(NamedTuple):
    """One queue of a topic. Brokers are known by name; their addresses change."""

    topic: str
    broker_name: str
    queue_id: int
