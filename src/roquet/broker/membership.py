"""Consumer groups at run time: settings created on demand, members that leave, groups too slow.

Which client is in which group is kept in `tables/clients.py`. Here it has consequences: the
remaining members are notified and rebalance.

Groups that are far behind read old messages from a disk that everyone needs. If the operator
enables it (Apache's `disableConsumeIfConsumerReadSlowly`), such a group may not consume until an
operator allows it again. The distance is measured in bytes of the log from the committed offsets; a
broadcasting group commits nothing and is not affected.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.errors import NoMoreGroups, TableNotWritten, UnknownGroup
from roquet.broker.tables.clients import SILENCE_S_MAX, ClientConnection
from roquet.broker.tables.topics import TopicFlag
from roquet.protocol.bodies.clients import ConsumerData
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.groups import ConsumersChangedHeader
from roquet.protocol.names import retry_topic
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)


def group_settings(broker: Broker, group: str) -> GroupConfig:
    """The settings of a group, created if that is allowed.

    Raises BadName, UnknownGroup and NoMoreGroups.
    """
    found = broker.tables.groups.find(group)
    if found is not None:
        return found
    # At a slave, too: a consumer may have to start while the master is away. The master's settings
    # replace them later.
    return broker.tables.groups.find_or_create(
        group,
        may_create=broker.config.create_groups,
        count_max=broker.config.created_group_count_max,
    )


def make_retry_topic(broker: Broker, consumer: ConsumerData) -> None:
    """Consumers subscribe to the topic of their retries from the start, so it has to exist."""
    if broker.config.is_slave:
        return  # It comes from the master.
    try:
        settings = group_settings(broker, consumer.group_name)
    except (UnknownGroup, NoMoreGroups):
        return  # It may not be created; its pulls are refused with the reason.
    topic = retry_topic(consumer.group_name)
    if broker.tables.topics.find(topic) is not None:
        return
    flags = TopicFlag.UNIT_SUBSCRIPTION if consumer.unit_mode else 0
    # While nothing can be stored, nothing is sent back; a later heartbeat makes the topic.
    with suppress(TableNotWritten):
        broker.tables.topics.find_or_create(topic, settings.retry_queue_nums, flags)


def connection_lost(broker: Broker, connection: ClientConnection) -> None:
    """Removes the clients of the connection; the remaining members rebalance at once."""
    broker.clients.producers.forget(connection)
    for group in broker.clients.consumers.forget(connection):
        notify_members_changed(broker, group)


def expire_clients(broker: Broker) -> None:
    """Closes the connections of clients that sent no heartbeat for too long."""
    now_s = broker.clock.monotonic_s()
    consumers = broker.clients.consumers.forget_silent(now_s)
    producers = broker.clients.producers.forget_silent(now_s)
    for group in consumers.groups:
        notify_members_changed(broker, group)
    for connection in {*consumers.connections, *producers.connections}:
        log.warning("closing %s: it sent no heartbeat", connection.peer)
        connection.close(f"no heartbeat for {SILENCE_S_MAX:g} s")


def notify(connections: Iterable[ClientConnection], command: Command) -> None:
    """Sends a one-way request to every connection that is still open."""
    for connection in connections:
        if connection.is_open:
            connection.send_oneway(command)


def notify_members_changed(broker: Broker, group: str) -> None:
    """Consumers rebalance when they receive this, instead of up to 20 seconds later."""
    members = broker.clients.consumers.find(group)
    settings = broker.tables.groups.find(group)
    is_wanted = settings is None or settings.notify_consumer_ids_changed_enable
    if members is None or not is_wanted or not broker.config.notify_consumers:
        return
    header = ConsumersChangedHeader(consumer_group=group)
    notify(
        members.members, Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields=fields_of(header))
    )


def disable_slow_groups(broker: Broker) -> None:
    """From now on, pulls of such groups are answered with "no permission"."""
    config = broker.config
    if not config.disable_slow_groups:
        return
    for settings in broker.tables.groups:
        group = settings.group_name
        if not settings.consume_enable or broker.clients.consumers.find(group) is None:
            continue
        size = size_behind(broker, group)
        if size > config.slow_group_size:
            log.warning("group %s is %d bytes behind: consumption is disabled", group, size)
            try:
                broker.tables.groups.update(replace(settings, consume_enable=False, attributes={}))
            except TableNotWritten as refused:
                log.warning("consumption of group %s stays enabled: %s", group, refused.remark)


def size_behind(broker: Broker, group: str) -> int:
    """From the oldest message the group has not consumed, in any queue, to the end of the log."""
    positions = [
        position
        for topic in broker.tables.offsets.topics_of(group)
        for queue_id, offset in broker.tables.offsets.queues(group, topic).items()
        if (position := _position(broker.store, topic, queue_id, offset)) is not None
    ]
    return broker.store.log_end - min(positions) if positions else 0


def _position(store: MessageStore, topic: str, queue_id: int, offset: int) -> int | None:
    """The physical offset of the next message of a group; None at the end of the queue."""
    offset = max(offset, store.min_offset(topic, queue_id))
    if offset >= store.max_offset(topic, queue_id):
        return None
    entries = store.entries(topic, queue_id, offset, 1)
    return entries[0].physical_offset if entries else None
