"""An operator moves a group to another place in its queues (222).

4.9 tells the consumers (220), which drop what they have and commit the new place themselves; if
nobody is connected, its tools commit instead. 5.x moves the group here, connected or not, and
the next pull of each queue is sent to the new place. Each kind of tool gets what it expects.
"""

import logging
from collections.abc import Mapping
from typing import Final

from roquet.access.needs import reading
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownGroup, UnknownTopic
from roquet.broker.handlers.deferred import defer, saved
from roquet.broker.handlers.refusals import check_is_master, invalid
from roquet.broker.notices import tell
from roquet.net.errors import Refused
from roquet.net.router import Answer, Deferred, Reply, Request, on
from roquet.protocol.bodies.body import MessageQueue, QueueTable, write_body
from roquet.protocol.bodies.offsets import (
    ResetOffset,
    ResetOffsetList,
    ResetOffsets,
)
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import VERSION_5_0_0, Language, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.offsets import ResetOffsetHeader

log = logging.getLogger(__name__)

_CPP: Final = Language.CPP.name


def reset_offsets(broker: Broker, request: Request[ResetOffsetHeader]) -> Answer:
    check_is_master(broker)
    header = request.header
    topic = broker.topics.find(header.topic)
    if topic is None:
        raise UnknownTopic(header.topic)
    # Only tools that know what 5.x does name a queue, whatever version they say they are.
    if request.command.version >= VERSION_5_0_0 or header.queue_id is not None:
        return _reset_here(broker, request, topic)
    return _reset_at_clients(broker, request, topic)


def _reset_here(
    broker: Broker, request: Request[ResetOffsetHeader], topic: TopicConfig
) -> Deferred:
    header = request.header
    if header.group not in broker.groups:
        raise UnknownGroup(header.group)
    targets = _targets(broker, request, topic)
    for queue_id in targets:
        broker.offsets.check_room(header.group, header.topic, queue_id)
    for queue_id, offset in targets.items():
        broker.offsets.reset(header.group, header.topic, queue_id, offset)
        # Pulls that wait for messages need not wait any longer.
        broker.long_polls.announce(header.topic, queue_id)
    log.info("%s moved group %s in %s", request.connection.peer, header.group, header.topic)
    reply = Reply(body=write_body(_table(broker, header.topic, targets)))
    return defer(broker, request, lambda: saved(reply, broker.offset_saver))


def _reset_at_clients(
    broker: Broker, request: Request[ResetOffsetHeader], topic: TopicConfig
) -> Reply:
    header = request.header
    targets = {}
    for queue_id in range(topic.write_queue_nums):
        known = broker.offsets.find(header.group, header.topic, queue_id)
        if known is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"group {header.group!r} has no offset in queue {queue_id} of {header.topic!r}",
            )
        target = _offset_at(broker, header, queue_id)
        targets[queue_id] = target if header.is_force else min(target, known)
    group = broker.consumers.find(header.group)
    if group is None:
        raise Refused(
            ResponseCode.CONSUMER_NOT_ONLINE, f"nobody in group {header.group!r} is connected"
        )
    table = _table(broker, header.topic, targets)
    fields = fields_of(header)
    for connection, client in group.members.items():
        body = _listed(table) if client.language == _CPP else table
        command = Command(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=fields, body=write_body(body)
        )
        tell([connection], command)
    return Reply(body=write_body(table))


def _targets(
    broker: Broker, request: Request[ResetOffsetHeader], topic: TopicConfig
) -> dict[int, int]:
    header = request.header
    queue_id = -1 if header.queue_id is None else header.queue_id
    if queue_id < 0:
        return {each: _offset_at(broker, header, each) for each in range(topic.read_queue_nums)}
    if queue_id >= topic.read_queue_nums:
        raise invalid(request.command, f"topic {header.topic!r} has no queue {queue_id}")
    if header.offset is None or header.offset < 0:
        return {queue_id: _offset_at(broker, header, queue_id)}
    min_offset = broker.store.min_offset(header.topic, queue_id)
    max_offset = broker.store.max_offset(header.topic, queue_id)
    if not min_offset <= header.offset <= max_offset:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"queue {queue_id} of {header.topic!r} goes from {min_offset} to {max_offset}",
        )
    return {queue_id: header.offset}


def _offset_at(broker: Broker, header: ResetOffsetHeader, queue_id: int) -> int:
    if header.timestamp < 0:
        return broker.store.max_offset(header.topic, queue_id)
    return broker.store.offset_by_time(header.topic, queue_id, header.timestamp)


def _table(broker: Broker, topic: str, targets: Mapping[int, int]) -> ResetOffsets:
    name = broker.config.broker_name
    return ResetOffsets(
        offset_table=QueueTable(
            {
                MessageQueue(broker_name=name, queue_id=queue_id, topic=topic): offset
                for queue_id, offset in targets.items()
            }
        )
    )


def _listed(table: ResetOffsets) -> ResetOffsetList:
    return ResetOffsetList(
        offset_table=[
            ResetOffset(
                broker_name=queue.broker_name,
                offset=offset,
                queue_id=queue.queue_id,
                topic=queue.topic,
            )
            for queue, offset in table.offset_table.items()
        ]
    )


ROUTES = (
    on(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        ResetOffsetHeader,
        reset_offsets,
        needs=reading("topic", "group"),
    ),
)
