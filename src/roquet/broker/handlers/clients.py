"""Clients and consumer groups: heartbeats, members, queue locks, connections, group settings."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeVar

from roquet.access.needs import EVERYTHING, sub_group
from roquet.broker.broker import Broker
from roquet.broker.errors import BadName
from roquet.broker.handlers.answers import (
    answer_when_changed,
    check_is_master,
    defer,
    log_change,
    page,
)
from roquet.broker.handlers.needs import BEATING, LOCKING, SUBSCRIBING
from roquet.broker.membership import group_settings, make_retry_topic, notify_members_changed
from roquet.broker.messages.subscriptions import check_subscription
from roquet.broker.registration import Registrar
from roquet.broker.tables.clients import Client, check_client_id
from roquet.broker.tables.queue_locks import QueueKey
from roquet.broker.tables.topics import TopicTable
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies import clients as bodies
from roquet.protocol.bodies.body import MessageQueue, read_body, write_body
from roquet.protocol.bodies.clients import Heartbeat, SubscriptionCheck
from roquet.protocol.bodies.groups import (
    ConsumerIds,
    GroupConfig,
    GroupConfigList,
    LockedQueues,
    QueueLockRequest,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import AddressedHeader, NoFields
from roquet.protocol.headers.groups import (
    AllGroupConfigsHeader,
    AllGroupConfigsReplyHeader,
    ConsumerConnectionsHeader,
    ConsumerListHeader,
    DeleteGroupHeader,
    GetGroupConfigHeader,
    HeartbeatReplyHeader,
    ProducerConnectionsHeader,
    UnregisterClientHeader,
)
from roquet.protocol.names import is_name

log = logging.getLogger(__name__)

# The answer to a heartbeat of 5.x without subscriptions, because a broker before us knew them:
# the next one brings them.
_SEND_ALL: Final = HeartbeatReplyHeader(is_v2_supported=False, is_subscription_changed=True)
# A silent name server delays a heartbeat no longer than this: clients wait three seconds.
_TELL_TIMEOUT_S: Final = 2.0
# Bodies that are remembered, of each kind, and the largest of them.
_KEPT_COUNT: Final = 256
_KEPT_SIZE_MAX: Final = 4_096

T = TypeVar("T")


def heartbeat(broker: Broker, request: Request[AddressedHeader]) -> Reply | Deferred:
    """A consumer that has its answer finds the topic of its retries at the name servers."""
    command = request.command
    beat = _read_beat(request.body)
    if beat.without_sub:
        return Reply(header=_SEND_ALL)
    check_client_id(beat.client_id)
    clock = broker.clock
    client = Client(
        beat.client_id,
        request.connection.peer,
        command.language,
        command.version,
        clock.now_ms(),
        clock.monotonic_s(),
    )
    for consumer in beat.consumer_data_set:
        make_retry_topic(broker, consumer)
        if broker.clients.consumers.register(request.connection, client, consumer):
            notify_members_changed(broker, consumer.group_name)
    for producer in beat.producer_data_set:
        broker.clients.producers.register(producer.group_name, request.connection, client)
    # The topic may be news even if an earlier heartbeat, not answered yet, has made it.
    if beat.consumer_data_set and broker.registrar.has_news:
        return defer(broker.background, request, lambda: _reply_when_registered(broker.registrar))
    return Reply()


async def _reply_when_registered(registrar: Registrar) -> Reply:
    try:
        async with asyncio.timeout(_TELL_TIMEOUT_S):
            await registrar.until_registered()
    except TimeoutError:
        log.warning("name servers take more than %g s to learn of topics", _TELL_TIMEOUT_S)
        registrar.refresh_soon()
    return Reply()


def unregister_client(broker: Broker, request: Request[UnregisterClientHeader]) -> Reply:
    header = request.header
    if header.producer_group is not None:
        broker.clients.producers.unregister(header.producer_group, request.connection)
    group = header.consumer_group
    if group is not None and broker.clients.consumers.unregister(group, request.connection):
        notify_members_changed(broker, group)
    return Reply()


def get_consumer_ids(broker: Broker, request: Request[ConsumerListHeader]) -> Reply:
    group = broker.clients.consumers.find(request.header.consumer_group)
    if group is None:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"no member of group {request.header.consumer_group!r} is connected",
        )
    return Reply(body=write_body(ConsumerIds(consumer_id_list=group.client_ids)))


def check_client(broker: Broker, request: Request[NoFields]) -> Reply:
    check = read_body(SubscriptionCheck, request.body)
    check_subscription(check.subscription_data, broker.config)
    return Reply()


def lock_queues(broker: Broker, request: Request[AddressedHeader]) -> Reply:
    """Only existing queues: a lock of any other would cost memory for nothing."""
    lock = _read_lock_request(request.body)
    counts = _queue_counts(broker.tables.topics, lock.topics)
    there = [key for key in lock.keys if 0 <= key.queue_id < counts[key.topic]]
    owned = broker.clients.locks.lock(lock.client_id, there)
    if len(owned) == len(lock.keys):
        return Reply(body=lock.whole_reply)
    mine = frozenset(owned)
    queues = [queue for queue, key in zip(lock.queues, lock.keys, strict=True) if key in mine]
    return Reply(body=write_body(LockedQueues(queues=queues)))


class _LockRequest(NamedTuple):
    """A request to lock queues, and the body of its reply if it gets all of them."""

    client_id: str
    queues: Sequence[MessageQueue]
    keys: Sequence[QueueKey]
    topics: frozenset[str]
    whole_reply: bytes


def _lock_request(body: bytes) -> _LockRequest:
    """Raises BadBody, BadName and BadClientName."""
    asked = read_body(QueueLockRequest, body)
    if not is_name(asked.consumer_group):
        raise BadName(asked.consumer_group)
    check_client_id(asked.client_id)
    return _LockRequest(
        asked.client_id,
        asked.mq_set,
        _queue_keys(asked),
        frozenset(queue.topic for queue in asked.mq_set),
        write_body(LockedQueues(queues=asked.mq_set)),
    )


def _remembered(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Reads the same bytes only once: clients repeat heartbeats and locks word for word, each 20 or
    30 s. What is read is never changed, and large bodies are not kept."""
    kept = lru_cache(_KEPT_COUNT)(read)
    return lambda body: kept(body) if len(body) <= _KEPT_SIZE_MAX else read(body)


_read_beat: Final = _remembered(partial(read_body, Heartbeat))
_read_lock_request: Final = _remembered(_lock_request)


def unlock_queues(broker: Broker, request: Request[AddressedHeader]) -> Reply:
    body = read_body(QueueLockRequest, request.body)
    broker.clients.locks.unlock(body.client_id, _queue_keys(body))
    return Reply()


def _queue_counts(topics: TopicTable, names: Iterable[str]) -> dict[str, int]:
    """0 for a topic that is not there."""
    found = {name: topics.find(name) for name in names}
    return {name: topic.queue_count if topic else 0 for name, topic in found.items()}


def _queue_keys(body: QueueLockRequest) -> list[QueueKey]:
    group = body.consumer_group
    return [QueueKey(group, queue.topic, queue.queue_id) for queue in body.mq_set]


def get_consumers(broker: Broker, request: Request[ConsumerConnectionsHeader]) -> Reply:
    name = request.header.consumer_group
    group = broker.clients.consumers.find(name)
    if group is None:
        past = broker.clients.past_members.of(name)
        if past and request.header.with_past_members:
            return Reply(body=write_body(bodies.ConsumerConnections(past_members=past)))
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"no member of group {name!r} is connected")
    body = bodies.ConsumerConnections(
        connection_set=[_connection(member) for member in group.members.values()],
        consume_from_where=group.consume_from_where,
        consume_type=group.consume_type,
        message_model=group.message_model,
        subscription_table=group.subscriptions,
    )
    return Reply(body=write_body(body))


def get_producers(broker: Broker, request: Request[ProducerConnectionsHeader]) -> Reply:
    name = request.header.producer_group
    members = broker.clients.producers.members(name)
    if not members:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no producer of group {name!r} is connected")
    connections = [_connection(member) for member in members.values()]
    return Reply(body=write_body(bodies.ProducerConnections(connection_set=connections)))


def get_all_producers(broker: Broker, _request: Request[NoFields]) -> Reply:
    producers = broker.clients.producers
    table = {
        group: [_producer(member) for member in producers.members(group).values()]
        for group in producers.groups()
    }
    return Reply(body=write_body(bodies.ProducerTable(data=table)))


def _connection(client: Client) -> bodies.ConnectionInfo:
    return bodies.ConnectionInfo(
        client_id=client.client_id,
        client_addr=client.address,
        language=client.language,
        version=client.version,
    )


def _producer(client: Client) -> bodies.ProducerInfo:
    return bodies.ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{client.address}",  # The slash is Java's.
        language=client.language,
        version=client.version,
        last_update_timestamp=client.seen_ms,
    )


def update_group(broker: Broker, request: Request[AddressedHeader]) -> Deferred:
    return _update_groups(broker, request, [read_body(GroupConfig, request.body)])


def update_groups(broker: Broker, request: Request[AddressedHeader]) -> Deferred:
    body = read_body(GroupConfigList, request.body)
    return _update_groups(broker, request, body.group_config_list)


def delete_group(broker: Broker, request: Request[DeleteGroupHeader]) -> Deferred:
    check_is_master(broker.config)
    header = request.header
    if broker.tables.groups.delete(header.group_name):
        log.info("deleted group %s, as %s asked", header.group_name, request.sender)
    broker.clients.past_members.forget(header.group_name)
    savers = [broker.tables.savers.groups]
    if header.remove_offset or header.clean_offset:
        broker.waiting.pops.forget(group=header.group_name)
        broker.tables.offsets.forget_group(header.group_name)
        savers.append(broker.tables.savers.offsets)
    return answer_when_changed(broker, request, *savers)


def get_group(broker: Broker, request: Request[GetGroupConfigHeader]) -> Reply:
    return Reply(body=write_body(group_settings(broker, request.header.group)))


def get_all_groups(broker: Broker, request: Request[AllGroupConfigsHeader]) -> Reply:
    header = request.header
    table = broker.tables.groups.snapshot()
    total = len(table.subscription_group_table)
    table.subscription_group_table = page(
        table.subscription_group_table,
        table.data_version,
        header.group_seq,
        header.max_group_num,
        header.data_version,
    )
    return Reply(header=AllGroupConfigsReplyHeader(total_group_num=total), body=write_body(table))


def _update_groups(
    broker: Broker, request: Request[Any], groups: Iterable[GroupConfig]
) -> Deferred:
    check_is_master(broker.config)
    # If one of many is refused, those before it have changed all the same.
    for group in groups:
        name = group.group_name
        old = broker.tables.groups.find(name)
        broker.tables.groups.update(group)
        log_change(f"group {name}", request, old, broker.tables.groups.find(name))
    return answer_when_changed(broker, request, broker.tables.savers.groups)


ROUTES = (
    on(RequestCode.HEART_BEAT, AddressedHeader, heartbeat, needs=BEATING),
    on(
        RequestCode.UNREGISTER_CLIENT,
        UnregisterClientHeader,
        unregister_client,
        needs=sub_group("consumer_group"),
    ),
    on(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        ConsumerListHeader,
        get_consumer_ids,
        needs=sub_group("consumer_group"),
    ),
    on(RequestCode.CHECK_CLIENT_CONFIG, NoFields, check_client, needs=SUBSCRIBING),
    on(RequestCode.LOCK_BATCH_MQ, AddressedHeader, lock_queues, needs=LOCKING),
    on(RequestCode.UNLOCK_BATCH_MQ, AddressedHeader, unlock_queues, needs=LOCKING),
    on(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        ConsumerConnectionsHeader,
        get_consumers,
        needs=sub_group("consumer_group"),
    ),
    on(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerConnectionsHeader, get_producers),
    on(RequestCode.GET_ALL_PRODUCER_INFO, NoFields, get_all_producers),
    on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, AddressedHeader, update_group),
    on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, AddressedHeader, update_groups),
    on(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader, delete_group),
    on(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        GetGroupConfigHeader,
        get_group,
        needs=sub_group("group"),
    ),
    on(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        AllGroupConfigsHeader,
        get_all_groups,
        needs=EVERYTHING,
    ),
)
