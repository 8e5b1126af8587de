"""Routes and assignments as SDKs get them: the queues of a topic, and where to reach them.

Clients send everything else to the endpoints of a route. They get back the ones they asked at: an
endpoint behind a mapped port, a load balancer or a container knows no better address of itself.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from ipaddress import ip_address
from typing import Final, NamedTuple

from roquet.grpc.codes import Code, MessageType, Permission, RefusedCall, status_of
from roquet.grpc.message_form import resource_of
from roquet.grpc.schema import Message, pb
from roquet.protocol.host import Address

TYPE_ATTRIBUTE: Final = "message.type"
# Of an assignment: any queue of the broker.
ALL_QUEUES: Final = -1

_MASTER_ID: Final = 0
_IPV6: Final = 6
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


# Where the broker of this name is reached.
EndpointsOf = Callable[[str], Message]


class Scheme(IntEnum):
    """Of endpoints."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3


class BrokerQueues(NamedTuple):
    """How many queues of a topic one broker has, for reads and for writes."""

    broker_name: str
    read_count: int
    write_count: int


def endpoints_at(address: Address) -> Message:
    return pb.Endpoints(
        scheme=_scheme_of(address.ip), addresses=[pb.Address(host=address.ip, port=address.port)]
    )


def _scheme_of(host: str) -> Scheme:
    try:
        return Scheme.IPV6 if ip_address(host).version == _IPV6 else Scheme.IPV4
    except ValueError:
        return Scheme.DOMAIN_NAME


def accepted_types(attributes: Mapping[str, str]) -> tuple[MessageType, ...]:
    """What may be sent to a topic; one without the attribute takes normal messages."""
    return _TYPES.get(attributes.get(TYPE_ATTRIBUTE, "NORMAL"), _TYPES["NORMAL"])


def route_answer(
    topic: str,
    queues: Iterable[BrokerQueues],
    types: Iterable[MessageType],
    endpoints_of: EndpointsOf,
) -> Message:
    return pb.QueryRouteResponse(
        status=status_of(Code.OK),
        message_queues=[
            _queue(topic, queue_id, permission, each.broker_name, endpoints_of, types)
            for each in queues
            for queue_id, permission in enumerate(_permissions(each))
        ],
    )


def assignment_answer(
    topic: str,
    queues: Iterable[BrokerQueues],
    types: Iterable[MessageType],
    endpoints_of: EndpointsOf,
    *,
    is_ordered: bool,
) -> Message:
    """Every consumer pops every queue; of an ordered group, too, but it asks for each by itself.

    Raises RefusedCall if there is none.
    """
    readable = [each for each in queues if each.read_count]
    if not readable:
        raise RefusedCall(Code.FORBIDDEN, f"no queue of {topic!r} is readable")
    return pb.QueryAssignmentResponse(
        status=status_of(Code.OK),
        assignments=[
            pb.Assignment(
                message_queue=_queue(
                    topic, queue_id, Permission.READ_WRITE, each.broker_name, endpoints_of, types
                )
            )
            for each in readable
            for queue_id in (range(each.read_count) if is_ordered else (ALL_QUEUES,))
        ],
    )


def _permissions(queues: BrokerQueues) -> list[Permission]:
    """Of each queue. Those that can be used one way only come first, as at Apache's."""
    both = min(queues.read_count, queues.write_count)
    found = [
        *[Permission.READ] * (queues.read_count - both),
        *[Permission.WRITE] * (queues.write_count - both),
        *[Permission.READ_WRITE] * both,
    ]
    return found or [Permission.NONE]


def _queue(
    topic: str,
    queue_id: int,
    permission: Permission,
    broker_name: str,
    endpoints_of: EndpointsOf,
    types: Iterable[MessageType],
) -> Message:
    return pb.MessageQueue(
        topic=resource_of(topic),
        id=queue_id,
        permission=permission,
        broker=pb.Broker(name=broker_name, id=_MASTER_ID, endpoints=endpoints_of(broker_name)),
        accept_message_types=types,
    )
