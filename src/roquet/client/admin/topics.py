"""Topics as their operator sees them: settings, routes and statistics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from roquet.client.admin.cluster import (
    PERMISSION_KEY,
    list_brokers,
    runtime_info,
    update_broker_config,
)
from roquet.client.admin.servers import AdminServers, Master, change_each
from roquet.client.arguments import moment_of
from roquet.client.cluster.brokers import reply_body, reply_header
from roquet.client.errors import BadArgument, RequestRefused, TopicNotFound
from roquet.client.names import GROUP_PREFIXES, check_topic, is_system_name
from roquet.client.queue_ref import QueueRef, queue_ref
from roquet.protocol.bodies.groups import GroupList
from roquet.protocol.bodies.name_server import TopicRoute
from roquet.protocol.bodies.offsets import ConsumeTimeSpan, ConsumeTimeSpans
from roquet.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigTable,
    TopicFilterType,
    TopicList,
    TopicStats,
)
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.groups import ConsumeTimeSpanHeader
from roquet.protocol.headers.name_server import (
    AddWritePermissionHeader,
    AddWritePermissionReplyHeader,
    DeleteTopicFromNameServerHeader,
    GetRouteHeader,
    PutKvConfigHeader,
    TopicsByClusterHeader,
    WipeWritePermissionHeader,
    WipeWritePermissionReplyHeader,
)
from roquet.protocol.headers.topics import (
    AllTopicConfigsHeader,
    CreateTopicHeader,
    DeleteTopicHeader,
    TopicConsumersHeader,
    TopicStatsHeader,
)
from roquet.protocol.names import (
    ORDER_NAMESPACE,
    TEMPLATE_TOPIC,
    TOOLS_GROUP,
    reply_topic,
)

READ_WRITE: Final = Permission.READ | Permission.WRITE

_NAMES: Final = "name server"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Of a topic at one broker. To shrink it, write to fewer queues, and later read from fewer."""

    read_queue_count: int = 8
    write_queue_count: int = 8
    permission: Permission = READ_WRITE
    is_ordered: bool = False
    # Only brokers of 5.x and Roquet have them.
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises BadArgument."""
        if min(self.read_queue_count, self.write_queue_count) < 0:
            raise BadArgument(f"queue counts must be 0 or more: {self}")


DEFAULT_SETTINGS: Final = TopicSettings()


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """The part of a topic at one broker name; addresses are by broker id, 0 is the master."""

    broker_name: str
    cluster: str | None
    addresses: Mapping[int, str]
    read_queue_count: int
    write_queue_count: int
    permission: Permission


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Messages from `min_offset` up to but not including `max_offset`."""

    queue: QueueRef
    min_offset: int
    max_offset: int
    last_stored: datetime | None

    @property
    def message_count(self) -> int:
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """Statistics of each queue of a topic."""

    topic: str
    queues: tuple[QueueStatistics, ...]

    @property
    def message_count(self) -> int:
        return sum(each.message_count for each in self.queues)

    @property
    def last_stored(self) -> datetime | None:
        return max((each.last_stored for each in self.queues if each.last_stored), default=None)


async def list_topics(
    servers: AdminServers, cluster: str | None, *, with_internal: bool
) -> list[str]:
    if cluster is None:
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        answer = await servers.name_server_body(TopicList, code, NoFields())
    else:
        header = TopicsByClusterHeader(cluster=cluster)
        answer = await servers.name_server_body(
            TopicList, RequestCode.GET_TOPICS_BY_CLUSTER, header
        )
    topics = set(answer.topic_list)
    if with_internal:
        return sorted(topics)
    # Each cluster and each broker has a topic of its name.
    info = await servers.cluster_info()
    topics -= info.cluster_addr_table.keys() | info.broker_addr_table.keys()
    topics -= set(map(reply_topic, info.cluster_addr_table))
    return sorted(servers.user_name(each) for each in topics if _is_users(servers, each))


async def put_topic(
    servers: AdminServers,
    topic: str,
    settings: TopicSettings,
    cluster: str | None = None,
    broker: str | None = None,
) -> None:
    check_topic(topic)
    masters = await servers.masters(cluster, broker)

    async def put(master: Master) -> None:
        old = (await _configs(servers, master)).get(topic) or TopicConfig(topic_name=topic)
        header = _put_header(topic, settings, old)
        await servers.brokers.ask(master.address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def keep_order() -> None:
        if settings.is_ordered:
            await _keep_order(servers, topic, settings, masters)

    await change_each(masters, put, keep_order)


async def delete_topic(servers: AdminServers, topic: str, cluster: str | None) -> None:
    """At brokers first: a broker that still has it would register it at name servers again."""
    header = DeleteTopicHeader(topic=topic)
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    await change_each(
        await servers.masters(cluster),
        lambda master: servers.brokers.ask(master.address, code, header),
        lambda: servers.call_each_name_server(
            RequestCode.DELETE_TOPIC_IN_NAMESRV,
            DeleteTopicFromNameServerHeader(topic=topic, cluster_name=cluster),
        ),
    )


async def topic_settings(servers: AdminServers, topic: str) -> dict[str, TopicSettings]:
    async def settings(master: Master) -> TopicSettings | None:
        config = (await _configs(servers, master)).get(topic)
        return None if config is None else _settings_of(config)

    found = await servers.ask_each(await servers.replicas_of(topic), settings)
    return {name: each for name, each in found.items() if each is not None}


async def all_topic_settings(
    servers: AdminServers, *, with_internal: bool
) -> dict[str, dict[str, TopicSettings]]:
    wanted = set(await list_topics(servers, None, with_internal=with_internal))
    found = await servers.ask_each(await servers.replicas(), lambda each: _configs(servers, each))
    table: dict[str, dict[str, TopicSettings]] = {topic: {} for topic in sorted(wanted)}
    for broker_name, configs in found.items():
        for wire_topic, config in configs.items():
            topic = wire_topic if with_internal else servers.user_name(wire_topic)
            if topic in wanted and (with_internal or servers.is_ours(wire_topic)):
                table[topic][broker_name] = _settings_of(config)
    return table


async def topic_route(servers: AdminServers, topic: str) -> list[BrokerRoute]:
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    try:
        route = await servers.name_server_body(TopicRoute, code, GetRouteHeader(topic=topic))
    except RequestRefused as refused:
        if refused.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFound(topic, "no broker has it") from None
        raise
    brokers = {each.broker_name: each for each in route.broker_datas}
    return [
        BrokerRoute(
            each.broker_name,
            broker.cluster,
            dict(broker.broker_addrs),
            each.read_queue_nums,
            each.write_queue_nums,
            Permission(each.perm),
        )
        for each in sorted(route.queue_datas, key=lambda each: each.broker_name)
        if (broker := brokers.get(each.broker_name)) is not None
    ]


async def topic_statistics(servers: AdminServers, topic: str) -> TopicStatistics:
    async def statistics(master: Master) -> list[QueueStatistics]:
        header = TopicStatsHeader(topic=topic)
        code = RequestCode.GET_TOPIC_STATS_INFO
        reply = await servers.brokers.ask(master.address, code, header)
        table = reply_body(TopicStats, reply, master.broker_name).offset_table
        return [
            QueueStatistics(
                QueueRef(servers.user_name(queue.topic), queue.broker_name, queue.queue_id),
                each.min_offset,
                each.max_offset,
                moment_of(each.last_update_timestamp),
            )
            for queue, each in table.items()
        ]

    parts = await servers.ask_each(await servers.replicas_of(topic), statistics)
    queues = sorted((each for part in parts.values() for each in part), key=lambda each: each.queue)
    return TopicStatistics(servers.user_name(topic), tuple(queues))


async def first_stored(servers: AdminServers, topic: str) -> dict[QueueRef, datetime]:
    async def spans(master: Master) -> list[ConsumeTimeSpan]:
        # Brokers answer for a group; the times of the queue itself are the same for all.
        header = ConsumeTimeSpanHeader(topic=topic, group=TOOLS_GROUP)
        code = RequestCode.QUERY_CONSUME_TIME_SPAN
        reply = await servers.brokers.ask(master.address, code, header)
        return reply_body(ConsumeTimeSpans, reply, master.broker_name).consume_time_span_set

    parts = await servers.ask_each(await servers.replicas_of(topic), spans)
    return {
        queue_ref(each.message_queue)._replace(topic=servers.user_name(topic)): first
        for part in parts.values()
        for each in part
        if (first := moment_of(each.min_time_stamp)) is not None
    }


async def groups_of(servers: AdminServers, topic: str) -> list[str]:
    brokers = await servers.replicas_of(topic)
    found = await servers.ask_each(brokers, lambda broker: groups_at(servers, topic, broker))
    return sorted({servers.user_name(group) for part in found.values() for group in part})


async def groups_at(servers: AdminServers, topic: str, master: Master) -> list[str]:
    """The groups that read a topic at one broker, as brokers know them."""
    header = TopicConsumersHeader(topic=topic)
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    reply = await servers.brokers.ask(master.address, code, header)
    return reply_body(GroupList, reply, master.broker_name).group_list


async def forbid_writes(servers: AdminServers, broker_name: str) -> int:
    """Name servers forget it with the next change of a topic; Roquet brokers are changed, too."""
    header = WipeWritePermissionHeader(broker_name=broker_name)
    replies = await servers.call_each_name_server(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
    counts = (reply_header(WipeWritePermissionReplyHeader, reply, _NAMES) for reply in replies)
    await _set_writes(servers, broker_name, are_allowed=False)
    return max(each.wipe_topic_count for each in counts)


async def allow_writes(servers: AdminServers, broker_name: str) -> int:
    await _set_writes(servers, broker_name, are_allowed=True)
    header = AddWritePermissionHeader(broker_name=broker_name)
    replies = await servers.call_each_name_server(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
    counts = (reply_header(AddWritePermissionReplyHeader, reply, _NAMES) for reply in replies)
    return max(each.add_topic_count for each in counts)


async def _set_writes(servers: AdminServers, broker_name: str, *, are_allowed: bool) -> None:
    """Changes `brokerPermission`, which survives a restart. Apache's brokers do not report it.

    The master comes first, and then its slaves: each of them may be the next one.
    """
    for broker in await list_brokers(servers, with_state=False):
        if broker.broker_name != broker_name:
            continue
        before = (await runtime_info(servers, broker.address)).get(PERMISSION_KEY, "")
        if before.isdigit():
            old = Permission(int(before))
            new = old | Permission.WRITE if are_allowed else old & ~Permission.WRITE
            if new != old:
                settings = {PERMISSION_KEY: str(int(new))}
                await update_broker_config(servers, broker.address, settings)


async def set_permission(
    servers: AdminServers, topic: str, permission: Permission, broker: str | None
) -> None:
    """Changes nothing else of the topic."""
    masters = [
        each for each in await servers.masters_of(topic) if broker in (None, each.broker_name)
    ]
    if not masters:
        raise TopicNotFound(topic, f"broker {broker!r} does not have it")

    async def change(master: Master) -> None:
        old = (await _configs(servers, master)).get(topic)
        if old is None:
            raise TopicNotFound(topic, f"broker {master.broker_name!r} does not have it any more")
        old.perm = int(permission)
        header = _put_header(topic, _settings_of(old), old)
        await servers.brokers.ask(master.address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    await change_each(masters, change)


async def _configs(servers: AdminServers, master: Master) -> dict[str, TopicConfig]:
    # Asking for a single topic is possible in 5.x only.
    reply = await servers.brokers.ask(
        master.address, RequestCode.GET_ALL_TOPIC_CONFIG, AllTopicConfigsHeader()
    )
    return reply_body(TopicConfigTable, reply, master.broker_name).topic_config_table


def _settings_of(config: TopicConfig) -> TopicSettings:
    return TopicSettings(
        read_queue_count=config.read_queue_nums,
        write_queue_count=config.write_queue_nums,
        permission=Permission(config.perm),
        is_ordered=config.order,
        attributes=dict(config.attributes),
    )


def _put_header(topic: str, settings: TopicSettings, old: TopicConfig) -> CreateTopicHeader:
    """What `settings` does not cover stays as it is."""
    changed = settings.attributes.items() - old.attributes.items()
    return CreateTopicHeader(
        topic=topic,
        default_topic=TEMPLATE_TOPIC,
        read_queue_nums=settings.read_queue_count,
        write_queue_nums=settings.write_queue_count,
        perm=int(settings.permission),
        topic_filter_type=old.topic_filter_type or TopicFilterType.SINGLE_TAG,
        topic_sys_flag=old.topic_sys_flag,
        order=settings.is_ordered,
        attributes=",".join(f"+{name}={value}" for name, value in sorted(changed)) or None,
    )


async def _keep_order(
    servers: AdminServers, topic: str, settings: TopicSettings, masters: list[Master]
) -> None:
    """Routes of an ordered topic list its brokers and queues in a fixed order."""
    count = settings.write_queue_count
    value = ";".join(f"{master.broker_name}:{count}" for master in masters)
    header = PutKvConfigHeader(namespace=ORDER_NAMESPACE, key=topic, value=value)
    await servers.call_each_name_server(RequestCode.PUT_KV_CONFIG, header)


def _is_users(servers: AdminServers, topic: str) -> bool:
    return (
        not topic.startswith(GROUP_PREFIXES)
        and not is_system_name(topic)
        and servers.is_ours(topic)
    )
