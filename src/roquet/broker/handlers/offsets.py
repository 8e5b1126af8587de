"""Offsets in queues: their bounds, how far each group has come, and resets by an operator (222).

On a reset, 4.9 notifies the consumers (220), which drop what they have and commit the new offset
themselves; if none is connected, its tools commit instead. 5.x moves the group here, connected or
not, and the next pull of each queue is sent to the new offset. Each kind of tool gets what it
expects.
"""

import logging
from collections.abc import Mapping
from typing import Final

from roquet.access.needs import EVERYTHING, any_topic, reading
from roquet.broker.broker import Broker
from roquet.broker.errors import BadName, NoMoreGroups, UnknownGroup, UnknownTopic
from roquet.broker.handlers.answers import answer_when_saved, check_is_master, defer, invalid, saved
from roquet.broker.handlers.progress import is_read, store_time
from roquet.broker.membership import notify
from roquet.broker.pop.in_flight import QueueOfGroup
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.offsets import OffsetTable
from roquet.net.errors import Refused, TableFull
from roquet.net.router import Answer, Deferred, Reply, Request, on
from roquet.protocol.bodies.body import MessageQueue, QueueTable, write_body
from roquet.protocol.bodies.offsets import (
    CorrectionOffsets,
    ResetOffset,
    ResetOffsetList,
    ResetOffsets,
)
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import VERSION_5_0_0, Language, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.brokers import (
    AllOffsetsHeader,
    AllOffsetsReplyHeader,
)
from roquet.protocol.headers.groups import (
    CloneGroupOffsetHeader,
    CorrectionOffsetHeader,
    EarliestStoreTimeHeader,
    EarliestStoreTimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    ResetOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from roquet.protocol.names import is_name
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import Boundary

log = logging.getLogger(__name__)

# For a queue in which no group is as far behind as the one it is compared with.
_NOBODY_BEHIND: Final = 2**63 - 1


def query_consumer_offset(broker: Broker, request: Request[QueryConsumerOffsetHeader]) -> Reply:
    header = request.header
    offset = broker.tables.offsets.find(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        # A group that is new to a young topic gets everything, wherever it wants to start.
        if header.set_zero_if_not_found is False or _is_old(broker, header.topic, header.queue_id):
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                f"group {header.consumer_group!r} has no offset here yet",
            )
        offset = 0
    return Reply(header=OffsetReplyHeader(offset=offset))


def update_consumer_offset(broker: Broker, request: Request[UpdateConsumerOffsetHeader]) -> Reply:
    """Taken as it is, even from 4.9 tools for a group that is not there yet: it is being cloned.

    A topic has to be there. Consumers of a deleted one go on committing for a while, and a new
    topic of that name would begin where the old one ended.
    """
    header = request.header
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    if group not in broker.tables.groups:
        if request.command.version >= VERSION_5_0_0:
            raise UnknownGroup(group)
        _check_new_group(broker, group)
    found = broker.tables.topics.find(topic)
    if found is None:
        raise UnknownTopic(topic)
    # A topic may have had more queues when its consumers started with them.
    if queue_id >= found.queue_count and broker.tables.offsets.find(group, topic, queue_id) is None:
        raise invalid(request.command, f"topic {topic!r} has no queue {queue_id}")
    _check_room(broker.tables.offsets, request, queue_id)
    if 0 <= header.commit_offset < (broker.tables.offsets.find(group, topic, queue_id) or 0):
        broker.waiting.pops.note_move(QueueOfGroup(group, topic, queue_id), header.commit_offset)
    broker.tables.offsets.commit(group, topic, queue_id, header.commit_offset)
    return Reply()


def _check_new_group(broker: Broker, group: str) -> None:
    """A group that has nothing but offsets is one of those that clients make."""
    if not is_name(group):
        raise BadName(group)
    limit = broker.config.created_group_count_max
    if not broker.tables.offsets.knows(group) and broker.tables.offsets.group_count >= limit:
        raise NoMoreGroups(limit)


def _check_room(
    offsets: OffsetTable, request: Request[UpdateConsumerOffsetHeader], queue_id: int
) -> None:
    header = request.header
    try:
        offsets.check_room(header.consumer_group, header.topic, queue_id)
    except TableFull as error:
        # Consumers commit one-way: a refusal would go unnoticed.
        request.connection.warn(
            "refusing offsets",
            f"an offset of group {header.consumer_group} is not kept: {error.remark}",
        )
        raise


def get_max_offset(broker: Broker, request: Request[GetMaxOffsetHeader]) -> Reply:
    offset = broker.store.max_offset(request.header.topic, request.header.queue_id)
    return Reply(header=OffsetReplyHeader(offset=offset))


def get_min_offset(broker: Broker, request: Request[GetMinOffsetHeader]) -> Reply:
    offset = broker.store.min_offset(request.header.topic, request.header.queue_id)
    return Reply(header=OffsetReplyHeader(offset=offset))


def search_offset(broker: Broker, request: Request[SearchOffsetHeader]) -> Reply:
    header = request.header
    is_upper = (header.boundary_type or "").upper() == Boundary.UPPER.value
    boundary = Boundary.UPPER if is_upper else Boundary.LOWER
    offset = broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
    return Reply(header=OffsetReplyHeader(offset=offset))


def get_earliest_store_time(broker: Broker, request: Request[EarliestStoreTimeHeader]) -> Reply:
    topic, queue_id = request.header.topic, request.header.queue_id
    timestamp = store_time(broker.store, topic, queue_id, broker.store.min_offset(topic, queue_id))
    return Reply(header=EarliestStoreTimeReplyHeader(timestamp=timestamp))


def get_all_consumer_offsets(broker: Broker, request: Request[AllOffsetsHeader]) -> Reply:
    known_version = request.header.known_version
    if known_version is None:
        # Slaves of Apache use its progress of transactions as it is.
        return Reply(
            body=write_body(broker.tables.offsets.snapshot(broker.replication.replicas.apache_end))
        )
    version = broker.tables.offsets.version
    header = AllOffsetsReplyHeader(version=version)
    if known_version == version:
        return Reply(header=header)
    return Reply(header=header, body=write_body(broker.tables.offsets.snapshot()))


def clone_group_offsets(broker: Broker, request: Request[CloneGroupOffsetHeader]) -> Deferred:
    check_is_master(broker.config)
    header = request.header
    if not is_name(header.dest_group):
        raise BadName(header.dest_group)
    source = header.src_group
    for topic in [header.topic] if header.topic else broker.tables.offsets.topics_of(source):
        if topic in broker.tables.topics and (
            header.offline or is_read(broker.clients.consumers, source, topic)
        ):
            for queue_id in broker.tables.offsets.queues(source, topic):
                broker.tables.offsets.check_room(header.dest_group, topic, queue_id)
            broker.tables.offsets.clone(source, header.dest_group, topic)
    return answer_when_saved(broker.background, request, broker.tables.savers.offsets)


def query_correction_offsets(broker: Broker, request: Request[CorrectionOffsetHeader]) -> Reply:
    """For each queue the offset of the group that is furthest behind."""
    header = request.header
    lowest = broker.tables.offsets.lowest(
        header.topic,
        lambda queue_id: broker.store.min_offset(header.topic, queue_id),
        ignored=(header.filter_groups or "").split(","),
    )
    for queue_id, offset in broker.tables.offsets.queues(
        header.compare_group, header.topic
    ).items():
        if lowest.get(queue_id, 0) > offset:
            lowest[queue_id] = _NOBODY_BEHIND
    return Reply(body=write_body(CorrectionOffsets(correction_offsets=lowest)))


def _is_old(broker: Broker, topic: str, queue_id: int) -> bool:
    """Whether the first messages are gone, or so far behind that they have left the memory."""
    store = broker.store
    if store.min_offset(topic, queue_id) > 0:
        return True
    first = store.entries(topic, queue_id, 0, 1)
    in_memory_size = broker.config.store.in_memory_size
    return bool(first) and store.log_end - first[0].physical_offset > in_memory_size


_PROGRESS: Final = reading("topic", "consumer_group")
_QUEUES: Final = any_topic("topic")


_CPP: Final = Language.CPP.name


def reset_offsets(broker: Broker, request: Request[ResetOffsetHeader]) -> Answer:
    check_is_master(broker.config)
    header = request.header
    topic = broker.tables.topics.find(header.topic)
    if topic is None:
        raise UnknownTopic(header.topic)
    # Only tools that know what 5.x does name a queue, whatever version they declare.
    if request.command.version >= VERSION_5_0_0 or header.queue_id is not None:
        return _reset_here(broker, request, topic)
    return _reset_at_clients(broker, request, topic)


def _reset_here(
    broker: Broker, request: Request[ResetOffsetHeader], topic: TopicConfig
) -> Deferred:
    header = request.header
    if header.group not in broker.tables.groups:
        raise UnknownGroup(header.group)
    targets = _targets(broker.store, request, topic)
    for queue_id in targets:
        broker.tables.offsets.check_room(header.group, header.topic, queue_id)
    before = broker.tables.offsets.queues(header.group, header.topic)
    moves = {
        queue_id: f"{before.get(queue_id)} -> {offset}" for queue_id, offset in targets.items()
    }
    for queue_id, offset in targets.items():
        broker.waiting.pops.note_move(QueueOfGroup(header.group, header.topic, queue_id), offset)
        broker.tables.offsets.reset(header.group, header.topic, queue_id, offset)
        # Pulls that wait for messages need not wait any longer.
        broker.messages.long_polls.announce(header.topic, queue_id)
    log.info(
        "moved group %s in %s, as %s asked: %s",
        *(header.group, header.topic, request.sender, moves),
    )
    reply = Reply(body=write_body(_table(broker.config, header.topic, targets)))
    return defer(broker.background, request, lambda: saved(reply, broker.tables.savers.offsets))


def _reset_at_clients(
    broker: Broker, request: Request[ResetOffsetHeader], topic: TopicConfig
) -> Reply:
    header = request.header
    targets = {}
    for queue_id in range(topic.write_queue_nums):
        known = broker.tables.offsets.find(header.group, header.topic, queue_id)
        if known is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"group {header.group!r} has no offset in queue {queue_id} of {header.topic!r}",
            )
        target = _offset_at(broker.store, header, queue_id)
        targets[queue_id] = target if header.is_force else min(target, known)
    group = broker.clients.consumers.find(header.group)
    if group is None:
        raise Refused(
            ResponseCode.CONSUMER_NOT_ONLINE, f"no member of group {header.group!r} is connected"
        )
    table = _table(broker.config, header.topic, targets)
    fields = fields_of(header)
    for connection, client in group.members.items():
        body = _listed(table) if client.language == _CPP else table
        command = Command(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=fields, body=write_body(body)
        )
        notify([connection], command)
    return Reply(body=write_body(table))


def _targets(
    store: MessageStore, request: Request[ResetOffsetHeader], topic: TopicConfig
) -> dict[int, int]:
    header = request.header
    queue_id = -1 if header.queue_id is None else header.queue_id
    if queue_id < 0:
        return {each: _offset_at(store, header, each) for each in range(topic.read_queue_nums)}
    if queue_id >= topic.read_queue_nums:
        raise invalid(request.command, f"topic {header.topic!r} has no queue {queue_id}")
    if header.offset is None or header.offset < 0:
        return {queue_id: _offset_at(store, header, queue_id)}
    min_offset = store.min_offset(header.topic, queue_id)
    max_offset = store.max_offset(header.topic, queue_id)
    if not min_offset <= header.offset <= max_offset:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"queue {queue_id} of {header.topic!r} goes from {min_offset} to {max_offset}",
        )
    return {queue_id: header.offset}


def _offset_at(store: MessageStore, header: ResetOffsetHeader, queue_id: int) -> int:
    if header.timestamp < 0:
        return store.max_offset(header.topic, queue_id)
    return store.offset_by_time(header.topic, queue_id, header.timestamp)


def _table(config: BrokerConfig, topic: str, targets: Mapping[int, int]) -> ResetOffsets:
    name = config.broker_name
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
        RequestCode.QUERY_CONSUMER_OFFSET,
        QueryConsumerOffsetHeader,
        query_consumer_offset,
        needs=_PROGRESS,
    ),
    on(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        UpdateConsumerOffsetHeader,
        update_consumer_offset,
        needs=_PROGRESS,
    ),
    on(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader, get_max_offset, needs=_QUEUES),
    on(RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader, get_min_offset, needs=_QUEUES),
    on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetHeader, search_offset, needs=_QUEUES),
    on(
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        EarliestStoreTimeHeader,
        get_earliest_store_time,
        needs=_QUEUES,
    ),
    on(
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        AllOffsetsHeader,
        get_all_consumer_offsets,
        needs=EVERYTHING,
    ),
    on(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetHeader, clone_group_offsets),
    on(
        RequestCode.QUERY_CORRECTION_OFFSET,
        CorrectionOffsetHeader,
        query_correction_offsets,
        needs=reading("topic", "compare_group"),
    ),
    on(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        ResetOffsetHeader,
        reset_offsets,
        needs=reading("topic", "group"),
    ),
)
