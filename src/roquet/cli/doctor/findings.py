"""What is wrong, and what helps: decisions about answers, nothing else."""

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

# From here on brokers delete old files early, and from here on they refuse to take messages.
_DISK_FULL_SOON: Final = 0.75
_DISK_FULL: Final = 0.90
# Clocks are told in seconds, and an answer takes its time.
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
    """Without any, nothing else can be found out; without some, their clients wait longer."""
    is_any_there = any(error is None for error in errors.values())
    for address, error in errors.items():
        subject = f"name server {address}"
        if error is None:
            yield Finding(Severity.FINE, subject, "answers")
            continue
        severity = Severity.WARNING if is_any_there else Severity.PROBLEM
        remedy = "start it (roquet namesrv), or correct -n, NAMESRV_ADDR or the file of settings"
        yield Finding(severity, subject, f"does not answer: {error}", remedy)


def of_brokers(
    brokers: Sequence[BrokerInfo], name_servers: Sequence[str], now: datetime
) -> Iterator[Finding]:
    if not brokers:
        remedy = "start one with: roquet broker -n ADDRESS; see in its log whether it registers"
        yield Finding(Severity.PROBLEM, "brokers", "no broker is registered", remedy)
    with_masters = {each.broker_name for each in brokers if each.is_master}
    for name in sorted({each.broker_name for each in brokers} - with_masters):
        yield Finding(
            Severity.PROBLEM,
            f"broker {name}",
            "has no master now: it gives messages but takes none",
            "start its master again",
        )
    for broker in brokers:
        yield from _of_broker(broker, name_servers, now)


def _of_broker(broker: BrokerInfo, name_servers: Sequence[str], now: datetime) -> Iterator[Finding]:
    subject = f"broker {broker.broker_name}"
    is_local = is_loopback(broker.address)
    if broker.error is not None:
        advertised = "advertise an address that leads to it (--advertise, brokerIP1)"
        remedy = f"start it, or {advertised}, or open the way to {broker.address}"
        yield Finding(Severity.PROBLEM, subject, broker.error, remedy)
        return
    if is_local and not any(map(is_loopback, name_servers)):
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"advertises {broker.address}, which every client takes for its own machine",
            "start it with --advertise HOST, or set brokerIP1",
        )
    if broker.problem is not None:
        remedy = "roquet cluster shows all brokers; docs/replication.md says what to do"
        yield Finding(Severity.PROBLEM, subject, broker.problem, remedy)
    yield from _of_disk(subject, broker.disk_used_ratio)
    if broker.clock is not None and abs(broker.clock - now) > _CLOCK_DIFFERENCE_MAX:
        seconds = round((broker.clock - now).total_seconds())
        yield Finding(
            Severity.WARNING,
            subject,
            f"its clock is {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} ours: delays"
            " and resets by time are off by as much",
            "synchronise clocks (NTP)",
        )
    yield Finding(Severity.FINE, subject, f"answers at {broker.address}")


def _of_disk(subject: str, used_ratio: float | None) -> Iterator[Finding]:
    if used_ratio is None or used_ratio < _DISK_FULL_SOON:
        return
    if used_ratio >= _DISK_FULL:
        text = f"its disk is {used_ratio:.0%} full: it refuses messages"
        severity = Severity.PROBLEM
    else:
        text = f"its disk is {used_ratio:.0%} full: old messages go early"
        severity = Severity.WARNING
    yield Finding(severity, subject, text, "make room, add disk, or lower fileReservedTime")


def of_settings(broker_name: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """What a broker as a whole may do."""
    permission = settings.get("brokerPermission", "6")
    if permission.isdigit() and Permission(int(permission)) != Permission.READ | Permission.WRITE:
        yield Finding(
            Severity.WARNING,
            f"broker {broker_name}",
            f"brokerPermission is {permission}, so it does not both take and give messages",
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
            "no broker takes messages of it",
            f"roquet topic change {topic} --permission rw, or roquet broker writes allow BROKER",
        )
    for route in routes:
        own = settings.get(route.broker_name)
        where = f"at {route.broker_name}"
        if own is not None and own.permission & ~route.permission & Permission.WRITE:
            remedy = f"roquet broker writes allow {route.broker_name}"
            text = f"writes were forbidden {where}"
            yield Finding(Severity.WARNING, subject, text, remedy)
        if not route.permission & Permission.READ:
            remedy = f"roquet topic change {topic} --permission rw"
            yield Finding(Severity.PROBLEM, subject, f"nobody may read it {where}", remedy)
        if route.write_queue_count > route.read_queue_count:
            yield Finding(
                Severity.PROBLEM,
                subject,
                f"{route.write_queue_count} queues are written {where}, and only"
                f" {route.read_queue_count} read: nobody gets the messages of the others",
                f"roquet topic change {topic} --read-queues {route.write_queue_count}",
            )


def missing_topic(topic: str, *, is_made_by_sends: bool) -> Finding:
    remedy = f"roquet topic create {topic}"
    if is_made_by_sends:
        text = "is not there yet; the first message makes it, with four queues"
        return Finding(Severity.WARNING, f"topic {topic}", text, remedy)
    text = "is not there, and brokers make none by themselves"
    return Finding(Severity.PROBLEM, f"topic {topic}", text, remedy)


def of_group_settings(group: str, settings: Mapping[str, GroupSettings]) -> Iterator[Finding]:
    for broker, each in settings.items():
        if not each.is_enabled:
            yield Finding(
                Severity.PROBLEM,
                f"group {group}",
                f"is disabled at {broker}: nobody of it gets messages",
                f"roquet group create {group} --enabled --broker {broker}",
            )


def of_progress(group: str, progress: GroupProgress, members: GroupMembers) -> Iterator[Finding]:
    subject = f"group {group}"
    is_away = not members.connections
    if is_away and progress.lag:
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"nobody is connected, and {progress.lag:,} messages wait",
            f"start its consumers; or if it is not needed: roquet group delete {group}",
        )
    elif not is_away and progress.lag and (progress.time_lag or timedelta()) > _LAG_MAX:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{progress.lag:,} messages wait, the oldest for {progress.time_lag}",
            "add members up to the number of queues, or see what holds them up: roquet group"
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
            f"{len(members.connections)} members share {queue_count} queues: some have nothing to"
            " do",
            "add queues: roquet topic change TOPIC --queues N",
        )


def of_members(group: str, infos: Mapping[str, MemberInfo]) -> Iterator[Finding]:
    """All members of a group have to want the same, or messages go where nobody wants them."""
    wanted = {client: _wishes(info) for client, info in infos.items()}
    if len(set(wanted.values())) > 1:
        parts = "; ".join(f"{client} wants {_said(wishes)}" for client, wishes in wanted.items())
        yield Finding(
            Severity.PROBLEM,
            f"group {group}",
            f"its members want different things, so messages are lost to some: {parts}",
            "give all members the same subscriptions, or groups of their own",
        )


def _wishes(info: MemberInfo) -> tuple[tuple[str, str], ...]:
    """Retries are the group's own."""
    return tuple(sorted(each for each in info.subscriptions.items() if not each[0].startswith("%")))


def _said(wishes: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{topic} [{expression}]" for topic, expression in wishes) or "nothing"


def of_dead_letters(group: str, count: int) -> Finding:
    return Finding(
        Severity.WARNING,
        f"group {group}",
        f"has {count:,} dead letters",
        f"see why: roquet dlq show {group}; then: roquet dlq resend {group}",
    )


def is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # A name.
