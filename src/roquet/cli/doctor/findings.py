"""Findings and remedies: pure decisions about what the cluster answered."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple

from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.groups import GroupMembers, GroupSettings, MemberInfo
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.topics import BrokerRoute, TopicSettings
from roquet.protocol.codes import Permission

# Disk usage at which brokers delete old files early, and at which they reject messages.
_DISK_FULL_SOON: Final = 0.75
_DISK_FULL: Final = 0.90
# Clocks are reported in seconds, and a response takes time.
_CLOCK_DIFFERENCE_MAX: Final = timedelta(seconds=5)
_LAG_MAX: Final = timedelta(minutes=5)


class Severity(Enum):
    PROBLEM = "problem"
    WARNING = "warning"
    FINE = "fine"


class Finding(NamedTuple):
    severity: Severity
    subject: str
    text: str
    remedy: str | None = None


def of_name_servers(errors: Mapping[str, str | None]) -> Iterator[Finding]:
    """Without any, nothing else can be checked; without some, clients time out first."""
    is_any_there = any(error is None for error in errors.values())
    for address, error in errors.items():
        subject = f"name server {address}"
        if error is None:
            yield Finding(Severity.FINE, subject, "reachable")
            continue
        severity = Severity.WARNING if is_any_there else Severity.PROBLEM
        remedy = "start it (roquet namesrv), or correct -n, NAMESRV_ADDR or the config file"
        yield Finding(severity, subject, f"unreachable: {error}", remedy)


def of_brokers(
    brokers: Sequence[BrokerInfo], name_servers: Sequence[str], now: datetime
) -> Iterator[Finding]:
    if not brokers:
        remedy = "start one with: roquet broker -n ADDRESS; check its log for registration errors"
        yield Finding(Severity.PROBLEM, "brokers", "no broker is registered", remedy)
    with_masters = {each.broker_name for each in brokers if each.is_master}
    for name in sorted({each.broker_name for each in brokers} - with_masters):
        yield Finding(
            Severity.PROBLEM,
            f"broker {name}",
            "has no master: it delivers messages but accepts none",
            "restart its master",
        )
    for broker in brokers:
        yield from _of_broker(broker, name_servers, now)


def _of_broker(broker: BrokerInfo, name_servers: Sequence[str], now: datetime) -> Iterator[Finding]:
    subject = f"broker {broker.broker_name}"
    is_local = is_loopback(broker.address)
    if broker.error is not None:
        advertised = "advertise a reachable address (--advertise, brokerIP1)"
        remedy = f"start it, or {advertised}, or allow connections to {broker.address}"
        yield Finding(Severity.PROBLEM, subject, broker.error, remedy)
        return
    if is_local and not any(map(is_loopback, name_servers)):
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"advertises {broker.address}, a loopback address: clients elsewhere cannot connect",
            "start it with --advertise HOST, or set brokerIP1",
        )
    if broker.problem is not None:
        remedy = "compare all brokers: roquet cluster; see docs/replication.md"
        yield Finding(Severity.PROBLEM, subject, broker.problem, remedy)
    yield from _of_disk(subject, broker.disk_used_ratio)
    if broker.clock is not None and abs(broker.clock - now) > _CLOCK_DIFFERENCE_MAX:
        seconds = round((broker.clock - now).total_seconds())
        yield Finding(
            Severity.WARNING,
            subject,
            f"its clock is {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} the local"
            " one: delays and resets by time are off by as much",
            "synchronize clocks (NTP)",
        )
    yield Finding(Severity.FINE, subject, f"reachable at {broker.address}")


def _of_disk(subject: str, used_ratio: float | None) -> Iterator[Finding]:
    if used_ratio is None or used_ratio < _DISK_FULL_SOON:
        return
    if used_ratio >= _DISK_FULL:
        text = f"its disk is {used_ratio:.0%} full: it rejects messages"
        severity = Severity.PROBLEM
    else:
        text = f"its disk is {used_ratio:.0%} full: old messages are deleted early"
        severity = Severity.WARNING
    yield Finding(severity, subject, text, "free disk space, add a disk, or lower fileReservedTime")


def of_settings(broker_name: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Permission of a broker as a whole."""
    permission = settings.get("brokerPermission", "6")
    if permission.isdigit() and Permission(int(permission)) != Permission.READ | Permission.WRITE:
        yield Finding(
            Severity.WARNING,
            f"broker {broker_name}",
            f"brokerPermission is {permission}: reads or writes are forbidden",
            f"roquet broker config set {broker_name} brokerPermission=6",
        )


def of_topic_routes(
    topic: str, routes: Sequence[BrokerRoute], settings: Mapping[str, TopicSettings]
) -> Iterator[Finding]:
    subject = f"topic {topic}"
    if not any(each.permission & Permission.WRITE and each.write_queue_count for each in routes):
        yield Finding(
            Severity.PROBLEM,
            subject,
            "no broker accepts messages for it",
            f"roquet topic change {topic} --permission rw, or roquet broker writes allow BROKER",
        )
    for route in routes:
        own = settings.get(route.broker_name)
        where = f"at {route.broker_name}"
        if own is not None and own.permission & ~route.permission & Permission.WRITE:
            remedy = f"roquet broker writes allow {route.broker_name}"
            text = f"writes are forbidden {where}"
            yield Finding(Severity.WARNING, subject, text, remedy)
        if not route.permission & Permission.READ:
            remedy = f"roquet topic change {topic} --permission rw"
            yield Finding(Severity.PROBLEM, subject, f"reads are forbidden {where}", remedy)
        if route.write_queue_count > route.read_queue_count:
            yield Finding(
                Severity.PROBLEM,
                subject,
                f"{route.write_queue_count} write queues but only {route.read_queue_count} read"
                f" queues {where}: messages of the others are not delivered",
                f"roquet topic change {topic} --read-queues {route.write_queue_count}",
            )


def missing_topic(topic: str, *, is_made_by_sends: bool) -> Finding:
    remedy = f"roquet topic create {topic}"
    if is_made_by_sends:
        text = "does not exist yet; the first message creates it, with four queues"
        return Finding(Severity.WARNING, f"topic {topic}", text, remedy)
    text = "does not exist, and automatic creation is off (autoCreateTopicEnable)"
    return Finding(Severity.PROBLEM, f"topic {topic}", text, remedy)


def of_group_settings(group: str, settings: Mapping[str, GroupSettings]) -> Iterator[Finding]:
    for broker, each in settings.items():
        if not each.is_enabled:
            yield Finding(
                Severity.PROBLEM,
                f"group {group}",
                f"is disabled at {broker}: its members receive no messages",
                f"roquet group create {group} --enabled --broker {broker}",
            )


def of_progress(group: str, progress: GroupProgress, members: GroupMembers) -> Iterator[Finding]:
    subject = f"group {group}"
    is_away = not members.connections
    if is_away and progress.lag:
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"no member is connected; {progress.lag:,} messages are waiting",
            f"start its consumers; or if it is unused: roquet group delete {group}",
        )
    elif not is_away and progress.lag and (progress.time_lag or timedelta()) > _LAG_MAX:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{progress.lag:,} messages are waiting, the oldest for {progress.time_lag}",
            "add members up to the number of queues, or inspect a slow one: roquet group"
            f" members {group} --member CLIENT",
        )
    topics = {each.queue.topic for each in progress.queues}
    queue_count = max(
        (sum(each.queue.topic == topic for each in progress.queues) for topic in topics), default=0
    )
    is_shared = members.message_model in (None, "CLUSTERING")
    if is_shared and queue_count and len(members.connections) > queue_count:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{len(members.connections)} members share {queue_count} queues: some are idle",
            "add queues: roquet topic change TOPIC --queues N",
        )


def of_members(group: str, infos: Mapping[str, MemberInfo]) -> Iterator[Finding]:
    """Members of a group need the same subscriptions, or messages are lost to some."""
    wanted = {client: _subscriptions(info) for client, info in infos.items()}
    if len(set(wanted.values())) > 1:
        parts = "; ".join(f"{client} has {_text(topics)}" for client, topics in wanted.items())
        yield Finding(
            Severity.PROBLEM,
            f"group {group}",
            f"its members have different subscriptions, so some miss messages: {parts}",
            "give all members the same subscriptions, or use separate groups",
        )


def _subscriptions(info: MemberInfo) -> tuple[tuple[str, str], ...]:
    """Without the retry topic, which is the group's own."""
    return tuple(sorted(each for each in info.subscriptions.items() if not each[0].startswith("%")))


def _text(subscriptions: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{topic} [{expression}]" for topic, expression in subscriptions) or "none"


def of_dead_letters(group: str, count: int) -> Finding:
    return Finding(
        Severity.WARNING,
        f"group {group}",
        f"has {count:,} dead letters",
        f"see the errors: roquet dlq show {group}; then: roquet dlq resend {group}",
    )


def is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # A name.
