"""Queues that an orderly consumer locks and unlocks (41, 42)."""

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.queue_table import MessageQueue


class QueueLockRequest(Body, kw_only=True):
    """Requests 41 and 42."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = always([])
    only_this_broker: bool = False


class LockedQueues(Body, kw_only=True):
    """Reply to 41: those of the asked queues that the client now holds."""

    queues: list[MessageQueue] = always([], name="lockOKMQSet")
