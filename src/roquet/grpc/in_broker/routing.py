"""QueryRoute and QueryAssignment: the queues of a topic, at this broker and at others.

What clients get of other brokers is what name servers have: their queues, and where their endpoints
are, which every broker registers. A broker that has none is left out, and that is logged. The
broker that was asked is at the address that the client used, unless that names several: then each
broker is at the address that it has registered, so that a client of several endpoints can
distinguish them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from roquet.broker.broker import Broker
from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.names import group_name, missing_topic, topic_name
from roquet.grpc.route_form import (
    BrokerQueues,
    accepted_types,
    assignment_answer,
    endpoints_at,
    route_answer,
)
from roquet.grpc.schema import Message
from roquet.protocol.bodies.name_server import TopicRoute, endpoints_in
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission
from roquet.protocol.host import Address

_READ: Final = int(Permission.READ)
_WRITE: Final = int(Permission.WRITE)
_MASTER_ID: Final = 0
_NOTHING: Final = TopicRoute()


class RemoteTopic(NamedTuple):
    """A topic as name servers know it. `config` is that of another broker, if this has none."""

    route: TopicRoute = _NOTHING
    config: TopicConfig | None = None


NO_REMOTE_TOPIC: Final = RemoteTopic()


class Masters(NamedTuple):
    """Masters of a topic, by name: those that clients can reach, and the names of the others."""

    endpoints: Mapping[str, Address]
    missing: tuple[str, ...]
    # With those of slaves.
    endpoint_count: int


def masters_in(route: TopicRoute) -> Masters:
    endpoints = endpoints_in(route)
    masters = {
        each.broker_name: each.broker_addrs[_MASTER_ID]
        for each in route.broker_datas
        if _MASTER_ID in each.broker_addrs
    }
    return Masters(
        {name: endpoints[each] for name, each in masters.items() if each in endpoints},
        tuple(sorted(name for name, each in masters.items() if each not in endpoints)),
        len(endpoints),
    )


def found_topic(broker: Broker, resource: Message) -> TopicConfig:
    """Of this broker. Raises RefusedCall."""
    name = topic_name(resource)
    topic = broker.tables.topics.find(name)
    if topic is None:
        raise missing_topic(name)
    return topic


def query_route(broker: Broker, request: Message, remote: RemoteTopic) -> Message:
    """Raises RefusedCall."""
    found = _found(broker, request, remote)
    types = accepted_types(found.topic.attributes)
    return route_answer(
        found.topic.topic_name, found.queues, types, lambda name: found.endpoints[name]
    )


def query_assignment(broker: Broker, request: Message, remote: RemoteTopic) -> Message:
    """Raises RefusedCall."""
    group = broker.tables.groups.find(group_name(request.group))
    found = _found(broker, request, remote)
    return assignment_answer(
        found.topic.topic_name,
        found.queues,
        accepted_types(found.topic.attributes),
        lambda name: found.endpoints[name],
        is_ordered=group is not None and group.consume_message_orderly,
    )


class _Found(NamedTuple):
    topic: TopicConfig
    queues: list[BrokerQueues]
    # By the name of the broker.
    endpoints: dict[str, Message]


def _found(broker: Broker, request: Message, remote: RemoteTopic) -> _Found:
    """Raises RefusedCall."""
    name, own_name = topic_name(request.topic), broker.config.broker_name
    masters = masters_in(remote.route)
    places = {each: endpoints_at(place) for each, place in masters.endpoints.items()}
    queues = {
        each.broker_name: _counts(
            each.broker_name, each.read_queue_nums, each.write_queue_nums, each.perm
        )
        for each in remote.route.queue_datas
        if each.broker_name in places
    }
    own = broker.tables.topics.find(name)
    if broker.config.is_slave:
        if not queues:
            text = f"this broker is a slave, and no master of {name!r} has a gRPC endpoint"
            raise RefusedCall(Code.HA_NOT_AVAILABLE, text)
    elif own is not None:
        queues[own_name] = _own_counts(broker, own)
        places[own_name] = _own_endpoints(broker, request, masters)
    topic = own or remote.config
    if topic is None or not queues:
        raise missing_topic(name)
    return _Found(topic, [queues[each] for each in sorted(queues)], places)


def _own_endpoints(broker: Broker, request: Message, masters: Masters) -> Message:
    registered = broker.registrar.endpoint
    is_one_of_many = masters.endpoint_count > 1 and len(request.endpoints.addresses) > 1
    if registered is not None and is_one_of_many:
        return endpoints_at(registered)
    return request.endpoints


def _own_counts(broker: Broker, topic: TopicConfig) -> BrokerQueues:
    perm = topic.perm & broker.config.permission
    name = broker.config.broker_name
    return _counts(name, topic.read_queue_nums, topic.write_queue_nums, perm)


def _counts(name: str, read_count: int, write_count: int, perm: int) -> BrokerQueues:
    return BrokerQueues(
        name, read_count if perm & _READ else 0, write_count if perm & _WRITE else 0
    )
