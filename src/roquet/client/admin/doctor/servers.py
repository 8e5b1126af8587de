"""Findings about name servers and brokers: pure decisions about what they answered."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.doctor.finding import Finding, Severity
from roquet.client.admin.missing import LostBroker, MissingBroker
from roquet.client.admin.remedies import denial_remedy, tls_remedy
from roquet.protocol.codes import Permission

# Disk usage at which brokers delete expired files at any hour, and at which they reject messages:
# settings, and their defaults in percent.
_DISK_FULL_SOON: Final = ("diskMaxUsedSpaceRatio", 75)
_DISK_FULL: Final = ("diskSpaceWarningLevelRatio", 90)
_GRPC_PORT: Final = "grpcPort"
# Time left to replace a certificate.
_CERTIFICATE_WARNING: Final = timedelta(days=30)
_CERTIFICATE_PROBLEM: Final = timedelta(days=7)
# Clocks are reported in seconds, and a response takes time.
_CLOCK_DIFFERENCE_MAX: Final = timedelta(seconds=5)


def of_name_servers(errors: Mapping[str, str | None]) -> Iterator[Finding]:
    """Without any, nothing else can be checked; without some, clients time out first."""
    is_any_there = any(error is None for error in errors.values())
    for address, error in errors.items():
        subject = f"name server {address}"
        if error is None:
            yield Finding(Severity.FINE, subject, "reachable")
            continue
        severity = Severity.WARNING if is_any_there else Severity.PROBLEM
        remedy = (
            tls_remedy(error)
            or "start it (roquet namesrv), or correct -n, NAMESRV_ADDR or the config file"
        )
        yield Finding(severity, subject, f"unreachable: {error}", remedy)


def of_certificate(subject: str, expires: datetime | None, now: datetime) -> Iterator[Finding]:
    """Clients that verify a server refuse it from the moment its certificate expires."""
    if expires is None or expires - now > _CERTIFICATE_WARNING:
        return
    is_over = expires <= now
    yield Finding(
        Severity.PROBLEM if expires - now <= _CERTIFICATE_PROBLEM else Severity.WARNING,
        subject,
        f"its certificate {'expired' if is_over else 'expires'} at {_moment(expires)}",
        "replace its certificate files, and send it SIGHUP",
        "its certificate has expired, or will soon",
    )


def of_brokers(brokers: Sequence[BrokerInfo], name_servers: Sequence[str]) -> Iterator[Finding]:
    if not brokers:
        remedy = "start one with: roquet broker -n ADDRESS; check its log for registration errors"
        yield Finding(Severity.PROBLEM, "brokers", "no broker is registered", remedy)
    with_masters = {each.broker_name for each in brokers if each.is_master}
    for name in sorted({each.broker_name for each in brokers} - with_masters):
        yield Finding(
            Severity.PROBLEM,
            f"broker {name}",
            "has no master: it delivers messages but accepts none",
            "restart its master; if it is gone for good, promote a slave: roquet broker promote"
            " ADDRESS; with replication.etcd one is elected",
        )
    for broker in brokers:
        yield from _of_broker(broker, name_servers)


def of_lost(lost: Sequence[LostBroker] | None, brokers: Sequence[BrokerInfo]) -> Iterator[Finding]:
    """Brokers that left without unregistering: routes and all other answers are silent on them."""
    if lost is None:
        text = "unknown: name servers of Apache do not remember brokers that left"
        yield Finding(Severity.FINE, "lost brokers", text)
    for each in lost or ():
        siblings = [broker for broker in brokers if broker.broker_name == each.broker_name]
        yield Finding(
            Severity.PROBLEM,
            f"broker {each.broker_name}",
            f"{each.role} at {each.address} is lost since {_moment(each.since)}"
            f" ({each.reason}): {_effect_of_loss(each, siblings)}",
            f"restart it; if it is gone for good: roquet broker forget {each.address}",
        )


def _effect_of_loss(lost: LostBroker, siblings: Sequence[BrokerInfo]) -> str:
    if not siblings:
        return "its messages cannot be read, and are missing in all counts and queries"
    if lost.is_master and not any(each.is_master for each in siblings):
        return "its slaves deliver messages but accept none"
    return "its messages have a replica less"


def _moment(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


def of_missing(missing: Sequence[MissingBroker], found: Sequence[Finding]) -> Iterator[Finding]:
    """Brokers that failed after the first request, without another finding."""
    known = {each.subject for each in found if each.severity is Severity.PROBLEM}
    for each in missing:
        subject = f"broker {each.broker_name}"
        if subject not in known:
            yield Finding(
                Severity.PROBLEM,
                subject,
                f"findings about topics and groups are without it: {each.reason}",
                _remedy(each.address, str(each.error)),
            )


def _remedy(address: str, error: str) -> str:
    """Of a broker that answers nothing, or nothing but errors."""
    return (
        denial_remedy(error)
        or tls_remedy(error)
        or "start it, or advertise a reachable address (--advertise, brokerIP1), or allow"
        f" connections to {address}"
    )


def _of_broker(broker: BrokerInfo, name_servers: Sequence[str]) -> Iterator[Finding]:
    subject = f"broker {broker.broker_name}"
    is_local = is_loopback(broker.address)
    if broker.error is not None:
        remedy = _remedy(broker.address, broker.error)
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
    yield from _of_switch(subject, broker)
    ahead = broker.clock_difference
    if ahead is not None and abs(ahead) > _CLOCK_DIFFERENCE_MAX:
        seconds = round(ahead.total_seconds())
        yield Finding(
            Severity.WARNING,
            subject,
            f"its clock is {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} the local"
            " one: delays and resets by time are off by as much",
            "synchronize clocks (NTP)",
        )
    yield Finding(Severity.FINE, subject, f"reachable at {broker.address}")


def _of_switch(subject: str, broker: BrokerInfo) -> Iterator[Finding]:
    """What a switch left behind at the broker that was the master before it."""
    displaced, divergent = broker.displaced, broker.divergent
    history = ""
    if displaced is not None:
        since = "an unknown time" if displaced.since is None else _moment(displaced.since)
        history = (
            f"{broker.address} was the master of epoch {displaced.epoch}, until {displaced.by}"
            f" displaced it in epoch {displaced.by_epoch}, since {since}"
        )
    if divergent is not None and divergent.not_resent_count:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{divergent.not_resent_count:,} messages that no other replica had were cut off its"
            f" log, and are in {divergent.file_count} files of divergent/. {history}".rstrip(),
            f"on its machine: roquet store divergent {divergent.directory}, and then with --resend"
            " -n ADDRESS",
        )
    elif history:
        yield Finding(Severity.FINE, subject, history)


def of_disk(broker: BrokerInfo, settings: Mapping[str, str]) -> Iterator[Finding]:
    """`settings` have the limits of the broker; Apache's brokers report only the lower one."""
    used_ratio = broker.disk_used_ratio
    soon, full = (_number(settings, *each) / 100 for each in (_DISK_FULL_SOON, _DISK_FULL))
    if used_ratio is None or used_ratio < min(soon, full):
        return
    used = f"its disk is {used_ratio:.0%} full"
    if used_ratio >= full:
        severity, text = Severity.PROBLEM, f"{used}: it rejects messages"
    else:
        severity, text = Severity.WARNING, f"{used}: from {full:.0%} on it rejects messages"
    remedy = "free disk space, add a disk, or lower fileReservedTime"
    yield Finding(severity, f"broker {broker.broker_name}", text, remedy)


def _number(settings: Mapping[str, str], key: str, default: int) -> int:
    text = settings.get(key, "")
    return int(text) if text.isdigit() else default


def of_settings(broker_name: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Permission of a broker as a whole."""
    subject, permission = f"broker {broker_name}", permission_in(settings)
    if not permission & Permission.READ:
        yield Finding(
            Severity.WARNING,
            subject,
            f"reads are forbidden (brokerPermission={int(permission)})",
            f"roquet broker config set {broker_name} brokerPermission=6",
        )
    elif not permission & Permission.WRITE:
        text = f"writes are forbidden at {broker_name}"
        yield Finding(Severity.WARNING, subject, text, f"roquet broker writes allow {broker_name}")


def endpoint_of(broker: BrokerInfo, settings: Mapping[str, str]) -> tuple[str, int] | None:
    """Where SDKs of 5.x are sent by routes; None if the broker has no endpoint."""
    port = _number(settings, _GRPC_PORT, 0)
    return (broker.address.rpartition(":")[0].strip("[]"), port) if port else None


def of_missing_endpoints(settings: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Routes leave out brokers without an endpoint, if others have one."""
    have = [name for name, each in settings.items() if _number(each, _GRPC_PORT, 0)]
    for name, each in settings.items() if have else ():
        if each and name not in have:
            yield Finding(
                Severity.WARNING,
                f"broker {name}",
                f"it has no gRPC endpoint, as {have[0]} has: SDKs of 5.x do not reach its queues",
                "set grpcPort there, or run roquet proxy",
            )


def of_silent_endpoint(broker: BrokerInfo, place: tuple[str, int], error: str) -> Finding:
    return Finding(
        Severity.WARNING,
        f"broker {broker.broker_name}",
        f"routes send SDKs of 5.x to {place[0]}:{place[1]}, which cannot be connected to from"
        f" here: {error}",
        "let connections to grpcPort pass, or run roquet proxy where its clients reach it",
    )


def permission_in(settings: Mapping[str, str]) -> Permission:
    """Of a broker; everything if it does not report them."""
    text = settings.get("brokerPermission", "")
    return Permission(int(text)) if text.isdigit() else Permission.READ | Permission.WRITE


def is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # A name.
