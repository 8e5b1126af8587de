"""What servers keep, as operators inspect and clean it: settings of name servers, whole tables of
topics and groups, traffic counts, progress of all groups, queue entries, replication.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec

from roquet.client.admin.progress import GroupProgress, QueueProgress
from roquet.client.admin.servers import AdminServers, Master, ask_all
from roquet.client.arguments import moment_of
from roquet.client.cluster.brokers import reply_body
from roquet.client.errors import NoNameServer, RequestRefused
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies.body import MessageQueue
from roquet.protocol.bodies.brokers import BrokerStats, HaStatus
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.offsets import ConsumeOffsets, ConsumeStats, ConsumeStatsList
from roquet.protocol.bodies.topics import ConsumeQueueView, TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.brokers import BrokerStatsHeader
from roquet.protocol.headers.groups import AllGroupConfigsHeader, BrokerConsumeStatsHeader
from roquet.protocol.headers.topics import AllTopicConfigsHeader, QueryConsumeQueueHeader
from roquet.protocol.properties_text import read_properties_text, write_properties_text

# What brokers call the counts of `Traffic`.
_SENT: Final = "TOPIC_PUT_NUMS"
_TAKEN: Final = "GROUP_GET_NUMS"


class Cleaning(Enum):
    """Files of consume queues that brokers delete on request."""

    # Of messages that have expired.
    EXPIRED = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
    # Of topics that no longer exist.
    UNUSED = RequestCode.CLEAN_UNUSED_TOPIC


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages sent to a topic, or taken from it by a group."""

    # Messages a second, in the last minute.
    rate: float
    # Messages in the last day.
    day_count: int


@dataclass(frozen=True, slots=True)
class BrokerTables:
    """Topics and groups of a broker by name, each as a table under Apache's names."""

    topics: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of a consume queue: where the message is in the log, and the hash of its tag."""

    physical_offset: int
    size: int
    tags_code: int


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """A part of a consume queue, from the requested offset on."""

    min_offset: int
    max_offset: int
    entries: tuple[QueueEntry, ...]
    # The subscription of the group, if one was named; or why there is none.
    subscription: str | None = None
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class SlaveState:
    """A slave, as its master sees it."""

    address: str | None
    acknowledged_offset: int
    lag_bytes: int
    bytes_per_second: int
    is_in_sync: bool


@dataclass(frozen=True, slots=True)
class MasterState:
    """The master, as a slave sees it."""

    address: str | None
    replicated_offset: int
    bytes_per_second: int
    last_read: datetime | None


@dataclass(frozen=True, slots=True)
class ReplicationStatus:
    """Of a master its slaves, of a slave its master."""

    is_master: bool
    log_end: int
    in_sync_count: int
    slaves: tuple[SlaveState, ...]
    master: MasterState | None


async def name_server_config(servers: AdminServers) -> dict[str, dict[str, str]]:
    replies = await servers.call_each_name_server(RequestCode.GET_NAMESRV_CONFIG, NoFields())
    try:
        texts = [read_properties_text(each.body) for each in replies]
    except ProtocolError as error:
        raise NoNameServer([f"invalid response: {error}"]) from None
    return dict(zip(servers.name_servers.addresses, texts, strict=True))


async def update_name_server_config(servers: AdminServers, settings: Mapping[str, str]) -> None:
    code, body = RequestCode.UPDATE_NAMESRV_CONFIG, write_properties_text(settings)
    await servers.call_each_name_server(code, NoFields(), body)


async def clean(
    servers: AdminServers, what: Cleaning, cluster: str | None, broker: str | None
) -> list[str]:
    code = what.value
    masters = await servers.masters(cluster, broker)
    await ask_all(masters, lambda each: servers.brokers.ask(each.address, code, NoFields()))
    return [each.broker_name for each in masters]


async def broker_tables(servers: AdminServers, address: str) -> BrokerTables:
    ask = servers.brokers.ask
    topics = await ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, AllTopicConfigsHeader())
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    groups = await ask(address, code, AllGroupConfigsHeader())
    topic_table = reply_body(TopicConfigTable, topics, address).topic_config_table
    group_table = reply_body(GroupConfigTable, groups, address).subscription_group_table
    return BrokerTables(msgspec.to_builtins(topic_table), msgspec.to_builtins(group_table))


async def traffic(servers: AdminServers, topic: str, group: str | None) -> Traffic:
    name, key = (_SENT, topic) if group is None else (_TAKEN, f"{topic}@{group}")

    async def count(master: Master) -> Traffic:
        header = BrokerStatsHeader(stats_name=name, stats_key=key)
        code = RequestCode.VIEW_BROKER_STATS_DATA
        try:
            reply = await servers.brokers.ask(master.address, code, header)
        except RequestRefused as refused:
            # Nothing was counted yet; brokers have no code of its own for that.
            if refused.code == ResponseCode.SYSTEM_ERROR:
                return Traffic(0.0, 0)
            raise
        stats = reply_body(BrokerStats, reply, master.broker_name)
        # The longest span that is complete; a new broker has only the shorter ones.
        sums = (stats.stats_day.sum, stats.stats_hour.sum, stats.stats_minute.sum)
        return Traffic(stats.stats_minute.tps, next(filter(None, sums), 0))

    parts = (await servers.ask_each(await servers.replicas_of(topic), count)).values()
    return Traffic(sum(each.rate for each in parts), sum(each.day_count for each in parts))


async def all_progress(
    servers: AdminServers, broker: str | None, *, ordered_only: bool
) -> list[GroupProgress]:
    """Each broker is asked once."""
    header = BrokerConsumeStatsHeader(is_order=ordered_only)

    async def progress(master: Master) -> list[dict[str, list[ConsumeStats]]]:
        code = RequestCode.GET_BROKER_CONSUME_STATS
        reply = await servers.brokers.ask(master.address, code, header)
        return reply_body(ConsumeStatsList, reply, master.broker_name).consume_stats_list

    brokers = await (servers.replicas() if broker is None else servers.masters(broker=broker))
    by_group: defaultdict[str, list[ConsumeStats]] = defaultdict(list)
    for found in (await servers.ask_each(brokers, progress)).values():
        for group, parts in (item for each in found for item in each.items()):
            by_group[group] += parts
    return [
        _group_progress(servers, group, parts)
        for group, parts in sorted(by_group.items())
        if servers.is_ours(group)
    ]


def _group_progress(servers: AdminServers, group: str, parts: list[ConsumeStats]) -> GroupProgress:
    queues = [
        _queue_progress(servers, *each) for part in parts for each in part.offset_table.items()
    ]
    return GroupProgress(
        servers.user_name(group),
        tuple(sorted(queues, key=lambda each: each.queue)),
        sum(part.consume_tps for part in parts),
    )


def _queue_progress(
    servers: AdminServers, queue: MessageQueue, offsets: ConsumeOffsets
) -> QueueProgress:
    return QueueProgress(
        QueueRef(servers.user_name(queue.topic), queue.broker_name, queue.queue_id),
        offsets.broker_offset,
        offsets.consumer_offset,
        offsets.consumer_offset,
        moment_of(offsets.last_timestamp),
        None,
    )


async def queue_entries(
    servers: AdminServers, queue: QueueRef, offset: int, count: int, group: str | None
) -> QueueEntries:
    header = QueryConsumeQueueHeader(
        topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count, consumer_group=group
    )
    (master,) = await servers.masters(broker=queue.broker_name)
    code = RequestCode.QUERY_CONSUME_QUEUE
    reply = await servers.brokers.ask(master.address, code, header)
    view = reply_body(ConsumeQueueView, reply, queue.broker_name)
    wanted = view.subscription_data
    return QueueEntries(
        view.min_queue_index,
        view.max_queue_index,
        tuple(
            QueueEntry(each.physic_offset, each.physic_size, each.tags_code)
            for each in view.queue_data
        ),
        None if wanted is None else wanted.sub_string,
        view.filter_data,
    )


async def replication_status(servers: AdminServers, address: str) -> ReplicationStatus:
    reply = await servers.brokers.ask(address, RequestCode.GET_BROKER_HA_STATUS, NoFields())
    status = reply_body(HaStatus, reply, address)
    slaves = tuple(
        SlaveState(
            each.addr,
            each.slave_ack_offset,
            each.diff,
            each.transferred_byte_in_second,
            each.in_sync,
        )
        for each in status.ha_connection_info
    )
    link = status.ha_client_runtime_info
    master = None
    if not status.master:
        master = MasterState(
            link.master_addr,
            link.max_offset,
            link.transferred_byte_in_second,
            moment_of(link.last_read_timestamp),
        )
    return ReplicationStatus(
        status.master,
        status.master_commit_log_max_offset,
        status.in_sync_slave_nums,
        slaves,
        master,
    )
