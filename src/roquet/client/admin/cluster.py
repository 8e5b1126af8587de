"""The cluster as a whole: its brokers, their state, settings and accounts; KV settings.

Each broker with access control, master or slave, keeps its own accounts (requests 50, 51 and 54).
Secrets that brokers return go no further.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.servers import AdminServers
from roquet.client.arguments import moment_of, utc
from roquet.client.cluster.brokers import reply_body, reply_header
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.errors import ClientError, NotTheLongestLog, RequestRefused, Unreachable
from roquet.protocol.bodies.brokers import AccountConfig, AccountConfigs
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.brokers import (
    DeleteAccountHeader,
    DemoteBrokerHeader,
    PromoteBrokerHeader,
    PromoteBrokerReplyHeader,
    PutAccountHeader,
)
from roquet.protocol.headers.name_server import (
    DeleteKvConfigHeader,
    GetKvConfigHeader,
    GetKvConfigReplyHeader,
    ListKvConfigHeader,
    PutKvConfigHeader,
)
from roquet.protocol.properties_text import read_properties_text, write_properties_text

_NAMES: Final = "name server"
# Only Roquet brokers have it in their runtime values.
PERMISSION_KEY: Final = "brokerPermission"
_PROBLEM_KEYS: Final = ("replicationProblem", "registrationConflict")
# The format of a broker's uptime.
_running = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]").fullmatch


@dataclass(frozen=True, slots=True)
class Displacement:
    """A broker was the master of `epoch`, until the one at `by` was, in the epoch `by_epoch`."""

    epoch: int
    by: str
    by_epoch: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class DivergentMessages:
    """What only a displaced master had, kept in files; `roquet store divergent` sends it again."""

    file_count: int
    message_count: int
    not_resent_count: int
    # The store directory, on the machine of the broker.
    directory: str


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker of the cluster. What it does not report, or cannot be asked for, is None."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    version: str | None = None
    # Messages a second, lately.
    put_rate: float | None = None
    get_rate: float | None = None
    # How full the disk of its log is, from 0 to 1.
    disk_used_ratio: float | None = None
    started: datetime | None = None
    # The time of its clock, to the second.
    clock: datetime | None = None
    # The epoch of its last writer, its lag (of a master: the lag of its best slave), and the ids
    # of the brokers in sync. Only Roquet brokers report these.
    epoch: int | None = None
    lag_bytes: int | None = None
    lag_s: float | None = None
    in_sync: tuple[int, ...] | None = None
    # How many slaves are linked to a master, and when a send is acknowledged: "async", "one" or
    # "quorum". Only Roquet brokers report these, too.
    slave_count: int | None = None
    acknowledge: str | None = None
    # "allowed" or "forbidden", by its `brokerPermission`. Only Roquet brokers report it.
    writes: str | None = None
    # What switches left behind.
    displaced: Displacement | None = None
    divergent: DivergentMessages | None = None
    # Why messages are at risk although it answers: two masters, a log that cannot be replicated.
    problem: str | None = None
    error: str | None = None
    # How far its clock is ahead of the local one.
    clock_difference: timedelta | None = None
    # Of its TLS files. Only Roquet brokers report it.
    certificate_expires: datetime | None = None
    # Of its endpoint for clients of 5.x. Only Roquet brokers report it, and have it.
    grpc_port: int | None = None

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    @property
    def role(self) -> str:
        return "master" if self.is_master else f"slave {self.broker_id}"


async def list_brokers(servers: AdminServers, *, with_state: bool) -> list[BrokerInfo]:
    info = await servers.cluster_info()
    known = [
        BrokerInfo(cluster, name, broker_id, address)
        for cluster, names in sorted(info.cluster_addr_table.items())
        for name in sorted(names)
        if name in info.broker_addr_table
        for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]
    if not with_state:
        return known
    return list(await asyncio.gather(*(_described(servers, each) for each in known)))


async def name_server_errors(servers: AdminServers) -> dict[str, str | None]:
    """The error of each name server, by address; None if it works."""

    async def error(address: str) -> str | None:
        try:
            await servers.brokers.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO, NoFields())
        except Unreachable as unreachable:
            return unreachable.reason
        except RequestRefused as refused:
            return refused.remark or f"response code {refused.code}"
        return None

    addresses = sorted(servers.name_servers.addresses)
    return dict(zip(addresses, await asyncio.gather(*map(error, addresses)), strict=True))


async def runtime_info(servers: AdminServers, address: str) -> dict[str, str]:
    reply = await servers.brokers.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, NoFields())
    return reply_body(KvTable, reply, address).table


async def broker_config(servers: AdminServers, address: str) -> dict[str, str]:
    reply = await servers.brokers.ask(address, RequestCode.GET_BROKER_CONFIG, NoFields())
    try:
        return read_properties_text(reply.body)
    except ProtocolError as error:
        raise Unreachable(address, f"invalid response: {error}") from None


async def update_broker_config(
    servers: AdminServers, address: str, settings: Mapping[str, str]
) -> None:
    body = write_properties_text(settings)
    await servers.brokers.ask(address, RequestCode.UPDATE_BROKER_CONFIG, NoFields(), body)


@dataclass(frozen=True, slots=True)
class Promotion:
    """When the new master acknowledges a send, and its epoch; None from older brokers."""

    acknowledge: str | None
    epoch: int | None


async def promote_broker(servers: AdminServers, address: str, *, force: bool) -> Promotion:
    """Raises NotTheLongestLog unless `force`."""
    if not force:
        await _check_longest_log(servers, address)
    header = PromoteBrokerHeader(force=force)
    reply = await servers.brokers.ask(address, RequestCode.PROMOTE_BROKER, header)
    if not reply.fields:
        return Promotion(None, None)
    answer = reply_header(PromoteBrokerReplyHeader, reply, address)
    return Promotion(answer.acknowledge, answer.epoch)


async def _check_longest_log(servers: AdminServers, address: str) -> None:
    """A master may have acknowledged what only one of its slaves has received.

    Raises NotTheLongestLog.
    """
    tables = (await servers.cluster_info()).broker_addr_table.values()
    own = next((each for each in tables if address in each.broker_addrs.values()), None)
    if own is None:
        return
    slaves = [each for number, each in own.broker_addrs.items() if number != MASTER_ID]
    others = [each for each in slaves if each != address]
    asked = (address, *others)
    place, *places = await asyncio.gather(*(_log_place(servers, each) for each in asked))
    if place is None:
        return  # The promotion itself finds that out, and says why.
    for other, its_place in zip(others, places, strict=True):
        if its_place is None:
            raise NotTheLongestLog(address, other, None)
        if its_place > place:
            raise NotTheLongestLog(address, other, its_place[1] - place[1])


async def _log_place(servers: AdminServers, address: str) -> tuple[int, int] | None:
    """The epoch of its last writer, and where the log ends; None if it does not answer."""
    try:
        table = await runtime_info(servers, address)
    except ClientError:
        return None
    return (
        _whole_number(table.get("replicationEpoch")) or 0,
        _whole_number(table.get("commitLogMaxOffset")) or 0,
    )


async def demote_broker(
    servers: AdminServers, address: str, broker_id: int, *, force: bool
) -> None:
    header = DemoteBrokerHeader(broker_id=broker_id, force=force)
    await servers.brokers.ask(address, RequestCode.DEMOTE_BROKER, header)


async def kv_table(servers: AdminServers, namespace: str) -> dict[str, str]:
    header = ListKvConfigHeader(namespace=namespace)
    try:
        code = RequestCode.GET_KVLIST_BY_NAMESPACE
        return (await servers.name_server_body(KvTable, code, header)).table
    except RequestRefused as refused:
        if refused.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        raise


async def kv_value(servers: AdminServers, namespace: str, key: str) -> str | None:
    header = GetKvConfigHeader(namespace=namespace, key=key)
    try:
        reply = await servers.call_name_server(RequestCode.GET_KV_CONFIG, header)
    except RequestRefused as refused:
        if refused.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
    return reply_header(GetKvConfigReplyHeader, reply, _NAMES).value


async def put_kv(servers: AdminServers, namespace: str, key: str, value: str) -> None:
    header = PutKvConfigHeader(namespace=namespace, key=key, value=value)
    await servers.call_each_name_server(RequestCode.PUT_KV_CONFIG, header)


async def delete_kv(servers: AdminServers, namespace: str, key: str) -> None:
    header = DeleteKvConfigHeader(namespace=namespace, key=key)
    await servers.call_each_name_server(RequestCode.DELETE_KV_CONFIG, header)


async def _described(servers: AdminServers, broker: BrokerInfo) -> BrokerInfo:
    where = (broker.cluster, broker.broker_name, broker.broker_id, broker.address)
    asked_ms = servers.clock.now_ms()
    try:
        table = await runtime_info(servers, broker.address)
    except ClientError as error:
        return BrokerInfo(*where, error=str(error))
    # Other brokers may take longer, so the time is that of this answer.
    local = utc((asked_ms + servers.clock.now_ms()) // 2)
    started, its_clock = _start_and_clock(table)
    return BrokerInfo(
        *where,
        table.get("brokerVersionDesc"),
        _first_number(table.get("putTps")),
        # Misspelt by 4.9.
        _first_number(table.get("getTransferedTps") or table.get("getTransferredTps")),
        _first_number(table.get("commitLogDiskRatio")),
        started,
        its_clock,
        epoch=_whole_number(table.get("replicationEpoch")),
        lag_bytes=_whole_number(table.get("replicationLagBytes")),
        lag_s=_first_number(table.get("replicationLagSeconds")),
        in_sync=_members(table.get("inSyncSet")),
        slave_count=_whole_number(table.get("slaveCount")),
        acknowledge=table.get("replicationAcknowledge"),
        writes=_writes(table.get(PERMISSION_KEY, "")),
        displaced=_displacement(table),
        divergent=_divergent(table),
        problem="; ".join(filter(None, map(table.get, _PROBLEM_KEYS))) or None,
        clock_difference=None if its_clock is None else its_clock - local,
        certificate_expires=certificate_expiry(table),
        grpc_port=_whole_number(table.get("grpcPort")),
    )


def certificate_expiry(table: Mapping[str, str]) -> datetime | None:
    """From the runtime values of a broker, or the settings of a name server."""
    return moment_of(_whole_number(table.get("certificateExpires")) or 0)


def _writes(permission: str) -> str | None:
    if not permission.isdigit():
        return None
    return "allowed" if int(permission) & Permission.WRITE else "forbidden"


def _displacement(table: Mapping[str, str]) -> Displacement | None:
    by = table.get("displacedBy")
    numbers = [
        _whole_number(table.get(key))
        for key in ("displacedEpoch", "displacedByEpoch", "displacedSince")
    ]
    epoch, by_epoch, since_ms = numbers
    if by is None or epoch is None or by_epoch is None or since_ms is None:
        return None
    return Displacement(epoch, by, by_epoch, moment_of(since_ms))


def _divergent(table: Mapping[str, str]) -> DivergentMessages | None:
    numbers = [
        _whole_number(table.get(key))
        for key in ("divergentFiles", "divergentMessages", "divergentNotResent")
    ]
    file_count, message_count, not_resent_count = numbers
    if file_count is None or message_count is None or not_resent_count is None:
        return None
    directory = table.get("divergentStore", "")
    return DivergentMessages(file_count, message_count, not_resent_count, directory)


def _start_and_clock(table: Mapping[str, str]) -> tuple[datetime | None, datetime | None]:
    """A broker reports its start time and its uptime; the sum is its clock."""
    start_ms = _first_number(table.get("bootTimestamp"))
    parts = _running(table.get("runtime") or "")
    if start_ms is None or parts is None:
        return None, None
    started = moment_of(int(start_ms))
    if started is None:
        return None, None
    days, hours, minutes, seconds = map(int, parts.groups())
    return started, started + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _whole_number(text: str | None) -> int | None:
    number = _first_number(text)
    return None if number is None else int(number)


def _members(text: str | None) -> tuple[int, ...] | None:
    ids = [word for word in (text or "").split(",") if word.isdigit()]
    return tuple(map(int, ids)) or None


def _first_number(text: str | None) -> float | None:
    """Of "10s 60s 600s" the first, which is the newest."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


_NO_RIGHT = "DENY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettings:
    """What an account may do. Rights are "DENY", "PUB", "SUB" or "PUB|SUB"."""

    is_admin: bool = False
    # For all topics and groups that are not named.
    topic_right: str = _NO_RIGHT
    group_right: str = _NO_RIGHT
    # By name.
    topic_rights: Mapping[str, str] = field(default_factory=dict)
    group_rights: Mapping[str, str] = field(default_factory=dict)
    # Requests from there need no signature: a pattern such as "10.0.0.*"; blank is none.
    trusted_addresses: str = ""


@dataclass(frozen=True, slots=True)
class BrokerAccounts:
    """Of one broker, by access key."""

    accounts: Mapping[str, AccountSettings]
    # Requests from there may do everything, unsigned.
    trusted_addresses: tuple[str, ...] = ()


async def accounts_at(servers: AdminServers, address: str) -> BrokerAccounts:
    body = await _account_bodies(servers, address)
    return BrokerAccounts(
        {each.access_key: settings_of(each) for each in body.plain_access_configs},
        tuple(body.global_white_addrs),
    )


async def put_account(
    servers: AdminServers,
    address: str,
    access_key: str,
    settings: AccountSettings,
    secret_key: str | None,
) -> None:
    existing = (await _account_bodies(servers, address)).plain_access_configs
    before = next(
        (each for each in existing if each.access_key == access_key), AccountConfig(access_key="")
    )
    was = settings_of(before)
    header = PutAccountHeader(
        access_key=access_key,
        # Apache's brokers return secrets, and require them with each change.
        secret_key=secret_key or before.secret_key,
        white_remote_address=settings.trusted_addresses,
        admin=settings.is_admin,
        default_topic_perm=settings.topic_right,
        default_group_perm=settings.group_right,
        topic_perms=_rights_text(settings.topic_rights, was.topic_rights),
        group_perms=_rights_text(settings.group_rights, was.group_rights),
    )
    await servers.brokers.ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)


async def delete_account(servers: AdminServers, address: str, access_key: str) -> None:
    header = DeleteAccountHeader(access_key=access_key)
    await servers.brokers.ask(address, RequestCode.DELETE_ACL_CONFIG, header)


async def _account_bodies(servers: AdminServers, address: str) -> AccountConfigs:
    code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
    reply = await servers.brokers.ask(address, code, NoFields())
    return reply_body(AccountConfigs, reply, address)


def settings_of(account: AccountConfig) -> AccountSettings:
    return AccountSettings(
        is_admin=account.admin,
        topic_right=account.default_topic_perm or _NO_RIGHT,
        group_right=account.default_group_perm or _NO_RIGHT,
        topic_rights=_rights(account.topic_perms),
        group_rights=_rights(account.group_perms),
        trusted_addresses=account.white_remote_address or "",
    )


def plain_account(
    access_key: str, settings: AccountSettings, secret_key: str | None
) -> AccountConfig:
    """An account as in files. Without `secret_key` the existing secret stays."""
    return AccountConfig(
        access_key=access_key,
        admin=settings.is_admin,
        default_group_perm=settings.group_right,
        default_topic_perm=settings.topic_right,
        group_perms=list(_pairs(settings.group_rights)),
        secret_key=secret_key,
        topic_perms=list(_pairs(settings.topic_rights)),
        white_remote_address=settings.trusted_addresses,
    )


def _rights(texts: Iterable[str] | None) -> dict[str, str]:
    pairs = (text.partition("=") for text in texts or ())
    return {name.strip(): right.strip() for name, _, right in pairs}


def _rights_text(rights: Mapping[str, str], before: Mapping[str, str]) -> str | None:
    """A blank removes the last right; Apache's brokers refuse it, so it is sent only if needed."""
    return ",".join(_pairs(rights)) if rights or before else None


def _pairs(rights: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}={right}" for name, right in rights.items())
