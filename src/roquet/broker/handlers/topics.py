"""Topics as operators see them: settings, and their end."""

import logging
from collections.abc import Sequence
from typing import Any

from roquet.access.needs import ACCOUNT, EVERYTHING, any_topic
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownTopic
from roquet.broker.handlers.answers import (
    answer_when_changed,
    check_is_master,
    invalid,
    log_change,
    page,
)
from roquet.broker.tables.attributes import read_attribute_changes
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigList, TopicList
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import AddressedHeader, NoFields
from roquet.protocol.headers.topics import (
    AllTopicConfigsHeader,
    AllTopicConfigsReplyHeader,
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
)
from roquet.protocol.names import is_name
from roquet.state_file import StateNotSaved
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)


def update_topic(broker: Broker, request: Request[CreateTopicHeader]) -> Deferred:
    header = request.header
    topic = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
        attributes=read_attribute_changes(header.attributes),
    )
    return _update_topics(broker, request, [topic])


def update_topics(broker: Broker, request: Request[AddressedHeader]) -> Deferred:
    body = read_body(TopicConfigList, request.body)
    return _update_topics(broker, request, body.topic_config_list)


def refuse_static_topic(_broker: Broker, request: Request[CreateTopicHeader]) -> Reply:
    raise Refused(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f"topic {request.header.topic[:127]!r}: static topics, whose queues are mapped to brokers,"
        " are not supported; create the topic with updateTopic at each broker",
    )


def delete_topic(broker: Broker, request: Request[DeleteTopicHeader]) -> Deferred:
    """The messages stay in the log until they expire, but no queue leads to them any more."""
    topic = request.header.topic
    _check_may_change(broker, request, topic)
    broker.messages.acks.check_room(request)
    # Its queues go first, and must not be gone before a deletion that is refused.
    broker.replication.table_log.check(topic)
    broker.waiting.pops.forget(topic=topic)
    _delete_queues(broker.store, topic)
    broker.tables.topics.delete(topic)
    broker.tables.offsets.forget_topic(topic)
    log.info("deleted topic %s, as %s asked", topic, request.sender)
    return answer_when_changed(
        broker, request, broker.tables.savers.topics, broker.tables.savers.offsets
    )


def get_topic(broker: Broker, request: Request[GetTopicConfigHeader]) -> Reply:
    topic = broker.tables.topics.find(request.header.topic)
    if topic is None:
        raise UnknownTopic(request.header.topic)
    return Reply(body=write_body(topic))


def get_all_topics(broker: Broker, request: Request[AllTopicConfigsHeader]) -> Reply:
    header = request.header
    table = broker.tables.topics.snapshot()
    total = len(table.topic_config_table)
    table.topic_config_table = page(
        table.topic_config_table,
        table.data_version,
        header.topic_seq,
        header.max_topic_num,
        header.data_version,
    )
    return Reply(header=AllTopicConfigsReplyHeader(total_topic_num=total), body=write_body(table))


def get_system_topics(broker: Broker, _request: Request[NoFields]) -> Reply:
    return Reply(body=write_body(TopicList(topic_list=sorted(broker.tables.topics.system_topics))))


def clean_expired_queues(broker: Broker, request: Request[NoFields]) -> Reply:
    for topic, queue_id in broker.store.delete_expired_queues():
        log.info(
            "deleted queue %d of %s, as %s asked: its messages have expired",
            *(queue_id, topic, request.sender),
        )
    return Reply()


def clean_unused_topics(broker: Broker, request: Request[NoFields]) -> Reply:
    """Deletes queues without a topic: an Apache broker makes them from what it finds in the log."""
    for topic in broker.store.queues():
        if topic not in broker.tables.topics and not broker.tables.topics.is_system(topic):
            _delete_queues(broker.store, topic)
            log.info(
                "deleted the queues of %s, as %s asked: there is no such topic",
                *(topic, request.sender),
            )
    return Reply()


def _update_topics(
    broker: Broker, request: Request[Any], topics: Sequence[TopicConfig]
) -> Deferred:
    broker.messages.acks.check_room(request)
    for topic in topics:
        _check_may_change(broker, request, topic.topic_name)
    # If one of many is refused, those before it have changed all the same.
    for topic in topics:
        name = topic.topic_name
        old = broker.tables.topics.find(name)
        broker.tables.topics.update(topic)
        log_change(f"topic {name}", request, old, broker.tables.topics.find(name))
    # A client that learns of the topic must find it at every name server.
    registered = broker.registrar.until_registered
    return answer_when_changed(broker, request, broker.tables.savers.topics, then=registered)


def _delete_queues(store: MessageStore, topic: str) -> None:
    """Raises Refused; then they are still there."""
    try:
        store.delete_topic(topic)
    except StateNotSaved as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{topic} is not deleted: {error}") from None


def _check_may_change(broker: Broker, request: Request[Any], topic: str) -> None:
    check_is_master(broker.config)
    if not is_name(topic):
        raise invalid(request.command, f"no topic can be called {topic[:150]!r}")
    if broker.tables.topics.is_system(topic):
        raise invalid(request.command, f"topic {topic!r} belongs to the system")


ROUTES = (
    on(RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicHeader, update_topic),
    on(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, AddressedHeader, update_topics),
    on(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, CreateTopicHeader, refuse_static_topic),
    on(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader, delete_topic),
    on(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader, get_topic, needs=any_topic("topic")),
    on(RequestCode.GET_ALL_TOPIC_CONFIG, AllTopicConfigsHeader, get_all_topics, needs=EVERYTHING),
    on(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, NoFields, get_system_topics, needs=ACCOUNT),
    on(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, NoFields, clean_expired_queues),
    on(RequestCode.CLEAN_UNUSED_TOPIC, NoFields, clean_unused_topics),
)
