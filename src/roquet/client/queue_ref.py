"""`QueueRef` identifies a queue in all clients."""

from typing import NamedTuple

from roquet.protocol.bodies.body import MessageQueue
from roquet.protocol.bodies.offsets import ResetOffset


class QueueRef(NamedTuple):
    """One queue of a topic. Brokers are known by name; their addresses change.

    For example:

        with Producer("127.0.0.1:9876", "shop") as producer:
            first = producer.queues("orders")[0]
            assert first == QueueRef("orders", first.broker_name, first.queue_id)
            producer.send(Message("orders", b"one coffee"), queue=first)
    """

    topic: str
    broker_name: str
    queue_id: int


def queue_ref(body: MessageQueue | ResetOffset) -> QueueRef:
    return QueueRef(body.topic, body.broker_name, body.queue_id)


def wire_queue(queue: QueueRef) -> MessageQueue:
    return MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
