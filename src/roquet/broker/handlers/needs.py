"""What requests need whose topics are not simply named by a field of their header."""

from collections.abc import Iterable
from typing import Final

from roquet.access.needs import AnyNeeds, group_need
from roquet.broker.broker import Broker
from roquet.broker.messages.appending import stored_record
from roquet.net.router import Need, Needs, Request
from roquet.protocol.acl import Right
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.clients import Heartbeat, SubscriptionCheck
from roquet.protocol.bodies.groups import QueueLockRequest
from roquet.protocol.bodies.pop import AssignmentQuery, BatchAckRequest
from roquet.protocol.fields import AddressedHeader, NoFields
from roquet.protocol.headers.messages import (
    EndTransactionHeader,
    SendBackHeader,
    SendMessageHeader,
    ViewMessageHeader,
)
from roquet.protocol.headers.pop import AckMessageHeader, ChangeInvisibleTimeHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import RETRY_PREFIX, is_closed_topic, reply_topic, retry_topic
from roquet.store.message_store import MessageStore


def _sending(_broker: Broker, request: Request[SendMessageHeader]) -> Iterable[Need]:
    topic = request.header.topic
    # Apache asks for SUB on the group that the sender claims, whatever group the retries belong to.
    return (Need(topic, Right.SUB if topic.startswith(RETRY_PREFIX) else Right.PUB),)


def _replying(broker: Broker, request: Request[SendMessageHeader]) -> Iterable[Need]:
    if request.header.topic == reply_topic(broker.config.cluster_name):
        return ()
    return _sending(broker, request)


def _beating(_broker: Broker, request: Request[AddressedHeader]) -> Iterable[Need]:
    for consumer in read_body(Heartbeat, request.body).consumer_data_set:
        yield group_need(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            yield Need(subscription.topic, Right.SUB)


def _locking(_broker: Broker, request: Request[AddressedHeader]) -> Iterable[Need]:
    body = read_body(QueueLockRequest, request.body)
    yield group_need(body.consumer_group)
    for topic in {queue.topic for queue in body.mq_set}:
        yield Need(topic, Right.SUB)


def _subscribing(_broker: Broker, request: Request[NoFields]) -> Iterable[Need]:
    check = read_body(SubscriptionCheck, request.body)
    if check.group is not None:
        yield group_need(check.group)
    yield Need(check.subscription_data.topic, Right.SUB)


def _viewing(broker: Broker, request: Request[ViewMessageHeader]) -> Iterable[Need]:
    return (Need(_topic_at(broker.store, request.header.offset), Right.SUB),)


def _sending_back(broker: Broker, request: Request[SendBackHeader]) -> Iterable[Need]:
    # Otherwise a group could have any message of the log sent back to itself, and read it.
    header = request.header
    return group_need(header.group), Need(_topic_at(broker.store, header.offset), Right.SUB)


def _ending(broker: Broker, request: Request[EndTransactionHeader]) -> Iterable[Need]:
    return (Need(_topic_at(broker.store, request.header.commit_log_offset), Right.PUB),)


def _acking(_broker: Broker, request: Request[AckMessageHeader]) -> Iterable[Need]:
    header = request.header
    return _popped(header.consumer_group, header.topic)


def _changing(_broker: Broker, request: Request[ChangeInvisibleTimeHeader]) -> Iterable[Need]:
    header = request.header
    return _popped(header.consumer_group, header.topic)


def _batch_acking(_broker: Broker, request: Request[NoFields]) -> Iterable[Need]:
    for ack in read_body(BatchAckRequest, request.body).acks:
        yield from _popped(ack.consumer_group, ack.topic)


def _popped(group: str, topic: str) -> Iterable[Need]:
    """The retry topics of a group are its own, whatever the topics of their messages are."""
    yield group_need(group)
    own = retry_topic(group)
    if not topic.startswith((f"{own}_", f"{own}+")):
        yield Need(topic, Right.SUB)


def _assigning(_broker: Broker, request: Request[NoFields]) -> Iterable[Need]:
    query = read_body(AssignmentQuery, request.body)
    return _popped(query.consumer_group, query.topic)


def _topic_at(store: MessageStore, physical_offset: int) -> str:
    """Where the message there belongs, also while it waits elsewhere. Raises Refused."""
    message = read_record(stored_record(store, physical_offset))
    if is_closed_topic(message.topic):
        return message.properties.get(Property.REAL_TOPIC, message.topic)
    return message.topic


ACKING: Final[AnyNeeds] = Needs(
    "SUB on the group and the topic", _acking, ("consumer_group", "topic")
)
CHANGING: Final[AnyNeeds] = Needs(
    "SUB on the group and the topic", _changing, ("consumer_group", "topic")
)
ASSIGNING: Final[AnyNeeds] = Needs("SUB on the group and the topic", _assigning)
BATCH_ACKING: Final[AnyNeeds] = Needs("SUB on each group and topic", _batch_acking)
SENDING: Final[AnyNeeds] = Needs(
    "PUB on the topic; of retries, SUB on their group", _sending, ("topic",)
)
REPLYING: Final[AnyNeeds] = Needs(
    "an account for replies; for other topics, as a send", _replying, ("topic",)
)
BEATING: Final[AnyNeeds] = Needs("SUB on each group and each of its topics", _beating)
LOCKING: Final[AnyNeeds] = Needs("SUB on the group and on each topic", _locking)
SUBSCRIBING: Final[AnyNeeds] = Needs("SUB on the group and the topic", _subscribing)
VIEWING: Final[AnyNeeds] = Needs("SUB on the topic of the message", _viewing, ("offset",))
SENDING_BACK: Final[AnyNeeds] = Needs(
    "SUB on the group and the topic of the message", _sending_back, ("group", "offset")
)
ENDING: Final[AnyNeeds] = Needs("PUB on the topic of the message", _ending, ("commit_log_offset",))
