"""QueryRoute and QueryAssignment of one broker, and its topics."""

from typing import Final

from roquet.broker.broker import Broker
from roquet.grpc.names import group_name, missing_topic, topic_name
from roquet.grpc.route_form import BrokerQueues, accepted_types, assignment_answer, route_answer
from roquet.grpc.schema import Message
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission

_READ: Final = int(Permission.READ)
_WRITE: Final = int(Permission.WRITE)


def found_topic(broker: Broker, resource: Message) -> TopicConfig:
    """Raises RefusedCall."""
    name = topic_name(resource)
    topic = broker.tables.topics.find(name)
    if topic is None:
        raise missing_topic(name)
    return topic


def query_route(broker: Broker, request: Message) -> Message:
    topic = found_topic(broker, request.topic)
    types = accepted_types(topic.attributes)
    return route_answer(topic.topic_name, [_queues(broker, topic)], types, request.endpoints)


def query_assignment(broker: Broker, request: Message) -> Message:
    topic = found_topic(broker, request.topic)
    group = broker.tables.groups.find(group_name(request.group))
    return assignment_answer(
        topic.topic_name,
        [_queues(broker, topic)],
        accepted_types(topic.attributes),
        request.endpoints,
        is_ordered=group is not None and group.consume_message_orderly,
    )


def _queues(broker: Broker, topic: TopicConfig) -> BrokerQueues:
    perm = topic.perm & broker.config.permission
    return BrokerQueues(
        broker.config.broker_name,
        topic.read_queue_nums if perm & _READ else 0,
        topic.write_queue_nums if perm & _WRITE else 0,
    )
