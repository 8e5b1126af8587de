"""QueryRoute and QueryAssignment: the queues of a topic, and where to reach them.

Clients send everything else to the endpoints of a route. They get back the ones they asked at: an
endpoint behind a mapped port, a proxy or a container knows no better address of itself.
"""

from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.pop.assignment import ALL_QUEUES
from roquet.grpc.calls import Call
from roquet.grpc.codes import Code, MessageType, Permission, RefusedCall, status_of
from roquet.grpc.message_form import resource_of
from roquet.grpc.names import found_topic, group_name
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission as Permissions

TYPE_ATTRIBUTE: Final = "message.type"

_READ: Final = int(Permissions.READ)
_WRITE: Final = int(Permissions.WRITE)
_MASTER_ID: Final = 0
_TYPES: Final = {
    "NORMAL": (MessageType.NORMAL,),
    "FIFO": (MessageType.FIFO,),
    "DELAY": (MessageType.DELAY,),
    "TRANSACTION": (MessageType.TRANSACTION,),
    "PRIORITY": (MessageType.PRIORITY,),
    "MIXED": (
        MessageType.NORMAL,
        MessageType.FIFO,
        MessageType.DELAY,
        MessageType.TRANSACTION,
    ),
}


def accepted_types(topic: TopicConfig) -> tuple[MessageType, ...]:
    """What may be sent to a topic; one without the attribute takes normal messages."""
    return _TYPES.get(topic.attributes.get(TYPE_ATTRIBUTE, "NORMAL"), _TYPES["NORMAL"])


def query_route(broker: Broker, _call: Call, request: Message) -> Message:
    topic = found_topic(broker, request.topic)
    permissions = _permissions(topic, topic.perm & broker.config.permission)
    return pb.QueryRouteResponse(
        status=status_of(Code.OK),
        message_queues=[
            _queue(broker, topic, queue_id, permission, request.endpoints)
            for queue_id, permission in enumerate(permissions)
        ],
    )


def query_assignment(broker: Broker, _call: Call, request: Message) -> Message:
    """Every consumer pops every queue; of an ordered group, too, but it asks for each by itself."""
    topic = found_topic(broker, request.topic)
    group = broker.tables.groups.find(group_name(request.group))
    readable = topic.perm & broker.config.permission & _READ
    if not readable or not topic.read_queue_nums:
        raise RefusedCall(Code.FORBIDDEN, f"no queue of {topic.topic_name!r} is readable")
    is_ordered = group is not None and group.consume_message_orderly
    queue_ids = range(topic.read_queue_nums) if is_ordered else (ALL_QUEUES,)
    return pb.QueryAssignmentResponse(
        status=status_of(Code.OK),
        assignments=[
            pb.Assignment(
                message_queue=_queue(
                    broker, topic, queue_id, Permission.READ_WRITE, request.endpoints
                )
            )
            for queue_id in queue_ids
        ],
    )


def _permissions(topic: TopicConfig, perm: int) -> list[Permission]:
    """Of each queue. Those that can be used one way only come first, as at Apache's."""
    reads = topic.read_queue_nums if perm & _READ else 0
    writes = topic.write_queue_nums if perm & _WRITE else 0
    both = min(reads, writes)
    found = [
        *[Permission.READ] * (reads - both),
        *[Permission.WRITE] * (writes - both),
        *[Permission.READ_WRITE] * both,
    ]
    return found or [Permission.NONE]


def _queue(
    broker: Broker, topic: TopicConfig, queue_id: int, permission: Permission, endpoints: Message
) -> Message:
    return pb.MessageQueue(
        topic=resource_of(topic.topic_name),
        id=queue_id,
        permission=permission,
        broker=pb.Broker(name=broker.config.broker_name, id=_MASTER_ID, endpoints=endpoints),
        accept_message_types=accepted_types(topic),
    )
