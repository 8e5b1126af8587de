"""Consumer groups as their operator sees them: settings, members, and what members report."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from msgspec.structs import replace

from roquet.client.admin.servers import AdminServers, Master, change_each
from roquet.client.admin.topics import delete_topic
from roquet.client.arguments import moment_of, utc
from roquet.client.cluster.brokers import reply_body
from roquet.client.errors import BadArgument, NotConnected, RequestRefused, Unreachable
from roquet.client.names import check_group
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies import clients as bodies
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import (
    ConnectionInfo,
    ConsumerConnections,
    ConsumerRunningInfo,
    ConsumeStatus,
    HeldMessage,
    ProcessQueueInfo,
)
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import AddressedHeader
from roquet.protocol.headers.groups import (
    AllGroupConfigsHeader,
    ConsumerConnectionsHeader,
    DeleteGroupHeader,
    RunningInfoHeader,
)
from roquet.protocol.names import BUILT_IN_GROUPS, RETRY_PREFIX, SYSTEM_GROUP_PREFIX

# A broker gives the client ten seconds.
_RELAY_TIMEOUT_S: Final = 12.0
# Each is a request to a client, through a broker.
ASKED_MEMBERS_MAX: Final = 32
# Groups that every broker has, or that belong to its own parts.
_INTERNAL_GROUPS: Final = frozenset({*BUILT_IN_GROUPS, "SCHEDULE_CONSUMER"})
_INTERNAL_PREFIXES: Final = (SYSTEM_GROUP_PREFIX, "CID_ONS", "%LITE_", "CID_DEFAULT_RMQ_SYS_")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Of a group at one broker."""

    # If False, no member gets messages.
    is_enabled: bool = True
    may_broadcast: bool = True
    # How often a message is retried before it becomes a dead letter.
    retry_count_max: int = 16
    retry_queue_count: int = 1
    # Whether brokers notify members at once when one of them joins or leaves.
    tells_members: bool = True

    def __post_init__(self) -> None:
        """Raises BadArgument."""
        if self.retry_queue_count < 0:
            raise BadArgument(f"`retry_queue_count` must be 0 or more: {self}", "retry_queue_count")


DEFAULT_SETTINGS: Final = GroupSettings()


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """A client that is connected to a broker, as it registered."""

    client_id: str
    address: str | None
    language: str | None
    version: int


@dataclass(frozen=True, slots=True)
class PastMember:
    """A member that has left, and when."""

    client_id: str
    address: str | None
    left: datetime


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The connected members of a group, and what they registered; None without members."""

    connections: tuple[ClientConnection, ...]
    consume_type: str | None = None
    message_model: str | None = None
    # The subscription expression of each topic.
    subscriptions: Mapping[str, str] | None = None
    # Of a group without members: the last ones, if its brokers are Roquet's and they left within a
    # day. The last one to leave comes first.
    past: tuple[PastMember, ...] = ()

    @property
    def without_since(self) -> datetime | None:
        """Since when the group has no members; None if it has some, or if that is not known."""
        return self.past[0].left if self.past else None

    @property
    def client_ids(self) -> list[str]:
        return [each.client_id for each in self.connections]


@dataclass(frozen=True, slots=True)
class MemberQueue:
    """One queue that it reads. Java's consumers report the epoch for what has not happened yet."""

    committed_offset: int
    cached_count: int
    is_locked: bool
    last_pull: datetime | None
    last_consumed: datetime | None


@dataclass(frozen=True, slots=True)
class MemberRates:
    """Of one topic: messages a second, and how long an average pull and call take."""

    pulled: float
    done: float
    failed: float
    failed_count: int
    pull_duration: timedelta
    call_duration: timedelta


@dataclass(frozen=True, slots=True)
class MessageInHand:
    """The message of a listener that has not returned."""

    queue: QueueRef
    offset: int
    message_id: str
    keys: str | None
    # How long ago the listener was called.
    held: timedelta


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """`properties` are under Java's names."""

    properties: Mapping[str, str]
    # By topic.
    subscriptions: Mapping[str, str]
    queues: Mapping[QueueRef, MemberQueue]
    rates: Mapping[str, MemberRates]
    # Of each running listener, the oldest first; None from clients that do not report it.
    in_hand: tuple[MessageInHand, ...] | None = None
    # Where its threads and tasks are, if it was asked for.
    stacks: str | None = None

    @property
    def done_rate(self) -> float:
        """Messages a second that its listeners finished, of all topics."""
        return sum(each.done for each in self.rates.values())


@dataclass(frozen=True, slots=True)
class MemberSilent:
    """Why a member did not report its state."""

    reason: str


async def list_groups(servers: AdminServers, *, with_internal: bool) -> list[str]:
    found = await servers.ask_each(await servers.replicas(), lambda each: _configs(servers, each))
    groups = {group for part in found.values() for group in part}
    if not with_internal:
        groups = {group for group in groups if not _is_internal(group) and servers.is_ours(group)}
    return sorted(map(servers.user_name, groups))


async def all_group_settings(servers: AdminServers) -> dict[str, dict[str, GroupSettings]]:
    found = await servers.ask_each(await servers.replicas(), lambda each: _configs(servers, each))
    settings: defaultdict[str, dict[str, GroupSettings]] = defaultdict(dict)
    for broker, configs in found.items():
        for group, config in configs.items():
            settings[servers.user_name(group)][broker] = _settings_of(config)
    return dict(settings)


async def group_settings(servers: AdminServers, group: str) -> dict[str, GroupSettings]:
    found = await servers.ask_each(await servers.replicas(), lambda each: _configs(servers, each))
    return {name: _settings_of(part[group]) for name, part in found.items() if group in part}


async def put_group(
    servers: AdminServers,
    group: str,
    settings: GroupSettings,
    cluster: str | None = None,
    broker: str | None = None,
) -> None:
    check_group(group)

    async def put(master: Master) -> None:
        # What `settings` does not cover stays as it is.
        old = (await _configs(servers, master)).get(group) or GroupConfig(group_name=group)
        config = replace(
            old,
            consume_enable=settings.is_enabled,
            consume_broadcast_enable=settings.may_broadcast,
            retry_max_times=settings.retry_count_max,
            retry_queue_nums=settings.retry_queue_count,
            notify_consumer_ids_changed_enable=settings.tells_members,
        )
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await servers.brokers.ask(master.address, code, AddressedHeader(), write_body(config))

    await change_each(await servers.masters(cluster, broker), put)


async def delete_group(
    servers: AdminServers,
    group: str,
    cluster: str | None,
    broker: str | None,
    *,
    keep_offsets: bool,
) -> None:
    """Its dead letters stay: they are messages that were not consumed."""
    # 4.9 and 5.x name this field differently.
    header = DeleteGroupHeader(
        group_name=group, remove_offset=not keep_offsets, clean_offset=not keep_offsets
    )
    code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    retry_topic = RETRY_PREFIX + group

    async def delete_retries() -> None:
        # At one broker they stay: other brokers still have the group.
        if broker is None and await servers.routes.newest(retry_topic, servers.config.timeout_s):
            await delete_topic(servers, retry_topic, cluster)

    await change_each(
        await servers.masters(cluster, broker),
        lambda master: servers.brokers.ask(master.address, code, header),
        delete_retries,
    )


async def group_members(servers: AdminServers, group: str) -> GroupMembers:
    found = await servers.ask_each(
        await servers.replicas(),
        lambda broker: members_at(servers, group, broker, with_past_members=True),
    )
    known = [each for each in found.values() if each is not None]
    answers = [each for each in known if each.connection_set]
    if not answers:
        return GroupMembers((), past=_past_members(each.past_members or () for each in known))
    subscriptions = {
        servers.user_name(topic): wanted.sub_string or ""
        for answer in answers
        for topic, wanted in answer.subscription_table.items()
    }
    return GroupMembers(
        _connections(part.connection_set for part in answers),
        answers[0].consume_type,
        answers[0].message_model,
        subscriptions,
    )


def _past_members(parts: Iterable[Iterable[bodies.PastMember]]) -> tuple[PastMember, ...]:
    """Each once, when it left its last broker."""
    by_id: dict[str, PastMember] = {}
    for each in sorted(chain.from_iterable(parts), key=lambda each: each.left, reverse=True):
        member = PastMember(each.client_id, each.client_addr, utc(each.left))
        by_id.setdefault(each.client_id, member)
    return tuple(by_id.values())


async def members_at(
    servers: AdminServers, group: str, master: Master, *, with_past_members: bool | None = None
) -> ConsumerConnections | None:
    """The members connected to one broker; None if there are none, and none that left."""
    header = ConsumerConnectionsHeader(consumer_group=group, with_past_members=with_past_members)
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    try:
        reply = await servers.brokers.ask(master.address, code, header)
    except RequestRefused as refused:
        if refused.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        raise
    return reply_body(ConsumerConnections, reply, master.broker_name)


async def running_info(
    servers: AdminServers, group: str, client_id: str, *, with_stacks: bool
) -> MemberInfo:
    """Any broker that the client is connected to forwards the request to it."""
    brokers = (await _brokers_by_member(servers, group)).get(client_id)
    if brokers is None:
        raise NotConnected(servers.user_name(group), client_id)
    header = RunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    return await _info_at(servers, header, brokers, _RELAY_TIMEOUT_S)


async def running_infos(
    servers: AdminServers, group: str, *, with_stacks: bool
) -> dict[str, MemberInfo | MemberSilent]:
    """All members are asked at the same time; one that hangs does not hold up the others."""
    members = sorted((await _brokers_by_member(servers, group)).items())

    async def info(client_id: str, brokers: list[Master]) -> MemberInfo | MemberSilent:
        header = RunningInfoHeader(
            consumer_group=group, client_id=client_id, jstack_enable=with_stacks
        )
        try:
            return await _info_at(servers, header, brokers, servers.config.timeout_s)
        except (RequestRefused, Unreachable) as error:
            return MemberSilent(str(error))

    asked, others = members[:ASKED_MEMBERS_MAX], members[ASKED_MEMBERS_MAX:]
    answers = await asyncio.gather(*(info(*each) for each in asked))
    not_asked = MemberSilent(f"not asked: the group has more than {ASKED_MEMBERS_MAX} members")
    return {client_id: answer for (client_id, _), answer in zip(asked, answers, strict=True)} | {
        client_id: not_asked for client_id, _ in others
    }


async def _brokers_by_member(servers: AdminServers, group: str) -> dict[str, list[Master]]:
    """Where each member of a group is connected, by client id."""
    brokers = await servers.replicas()
    found = await servers.ask_each(brokers, lambda broker: members_at(servers, group, broker))
    by_member: defaultdict[str, list[Master]] = defaultdict(list)
    for broker in brokers:
        members = found.get(broker.broker_name)
        for each in () if members is None else members.connection_set:
            by_member[each.client_id].append(broker)
    return by_member


async def _info_at(
    servers: AdminServers, header: RunningInfoHeader, brokers: Iterable[Master], timeout_s: float
) -> MemberInfo:
    """Raises what the last broker answered."""
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    for name, address in brokers:
        try:
            reply = await servers.brokers.ask(address, code, header, timeout_s=timeout_s)
        except RequestRefused as refused:
            last = refused
            continue
        return member_info(servers, reply_body(ConsumerRunningInfo, reply, name))
    raise last


async def _configs(servers: AdminServers, master: Master) -> dict[str, GroupConfig]:
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    reply = await servers.brokers.ask(master.address, code, AllGroupConfigsHeader())
    return reply_body(GroupConfigTable, reply, master.broker_name).subscription_group_table


def _settings_of(config: GroupConfig) -> GroupSettings:
    return GroupSettings(
        is_enabled=config.consume_enable,
        may_broadcast=config.consume_broadcast_enable,
        retry_count_max=config.retry_max_times,
        retry_queue_count=config.retry_queue_nums,
        tells_members=config.notify_consumer_ids_changed_enable,
    )


def _connections(parts: Iterable[Iterable[ConnectionInfo]]) -> tuple[ClientConnection, ...]:
    """A client that is connected to several brokers is one client."""
    by_id = {
        each.client_id: ClientConnection(
            each.client_id, each.client_addr, each.language, each.version
        )
        for part in parts
        for each in part
    }
    return tuple(by_id[client_id] for client_id in sorted(by_id))


def _is_internal(group: str) -> bool:
    return group in _INTERNAL_GROUPS or group.startswith(_INTERNAL_PREFIXES)


def member_info(servers: AdminServers, reported: ConsumerRunningInfo) -> MemberInfo:
    name = servers.user_name
    return MemberInfo(
        dict(reported.properties),
        {name(each.topic): each.sub_string or "" for each in reported.subscription_set},
        {
            QueueRef(name(queue.topic), queue.broker_name, queue.queue_id): _queue(each)
            for queue, each in reported.mq_table.items()
        },
        {name(topic): _rates(each) for topic, each in reported.status_table.items()},
        _in_hand(servers, reported.held_messages),
        reported.jstack,
    )


def _in_hand(
    servers: AdminServers, reported: list[HeldMessage] | None
) -> tuple[MessageInHand, ...] | None:
    if reported is None:
        return None
    return tuple(
        MessageInHand(
            QueueRef(servers.user_name(each.topic), each.broker_name, each.queue_id),
            each.queue_offset,
            each.message_id,
            each.keys,
            timedelta(milliseconds=each.held_ms),
        )
        for each in reported
    )


def _queue(reported: ProcessQueueInfo) -> MemberQueue:
    return MemberQueue(
        reported.commit_offset,
        reported.cached_msg_count,
        reported.locked,
        moment_of(reported.last_pull_timestamp),
        moment_of(reported.last_consume_timestamp),
    )


def _rates(reported: ConsumeStatus) -> MemberRates:
    return MemberRates(
        reported.pull_tps,
        reported.consume_ok_tps,
        reported.consume_failed_tps,
        reported.consume_failed_msgs,
        timedelta(milliseconds=reported.pull_rt),
        timedelta(milliseconds=reported.consume_rt),
    )
