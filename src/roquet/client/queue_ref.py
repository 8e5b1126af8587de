"""Which queue: the name by which all clients speak of one."""

from typing import NamedTuple, Protocol

from roquet.protocol.bodies.queue_table import MessageQueue


class QueueRef(NamedTuple):
    """One queue of a topic. Brokers are known by name; their addresses change."""

    topic: str
    broker_name: str
    queue_id: int


class _NamesQueue(Protocol):
    """A body, or a part of one, that says which queue it is about."""

    @property
    def topic(self) -> str: ...

    @property
    def broker_name(self) -> str: ...

    @property
    def queue_id(self) -> int: ...


def queue_ref(body: _NamesQueue) -> QueueRef:
    return QueueRef(body.topic, body.broker_name, body.queue_id)


def wire_queue(queue: QueueRef) -> MessageQueue:
    return MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
