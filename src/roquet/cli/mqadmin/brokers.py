"""Commands of mqadmin about brokers: state, settings, replication, response times, cleaning."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from roquet.cli.admin_commands.commands import Act, Session, broker_name
from roquet.cli.admin_commands.failures import DONE
from roquet.cli.cluster import show_brokers
from roquet.cli.mqadmin.declaring import (
    BROKER,
    CLUSTER,
    INTERVAL,
    THE_BROKER,
    Command,
    Flag,
    Words,
    brokers_where,
    every,
    masters_where,
    of_each,
    own,
    where,
)
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.inspection import Cleaning, ReplicationStatus
from roquet.reporting import Report, ReportTable

_BROKER_NAME: Final = Flag("b", "brokerName", is_required=True)
_SETTING: Final = (Flag("k", "key", is_required=True), Flag("v", "value", is_required=True))
_CLEANED: Final = (BROKER, Flag("c", "cluster"))


def _cluster_list(given: Namespace) -> Words | Act:
    if given.moreStats:
        return _daily_counts
    return ["cluster"] if given.interval is None else _brokers


async def _brokers(session: Session) -> int:
    return await every(session.given.interval, lambda: show_brokers(session))


async def _daily_counts(session: Session) -> int:
    given = session.given

    async def show() -> int:
        found = await of_each(
            session,
            await masters_where(session, None),
            lambda broker: session.admin.broker_runtime(broker.address),
        )
        rows = [
            (broker.cluster, broker.broker_name, *day_counts(runtime))
            for broker, runtime in found.answers
        ]
        columns = ("in_yesterday", "out_yesterday", "in_today", "out_today")
        table = ReportTable("brokers", ("cluster", "broker", *columns), rows)
        session.finish(Report({}, [table]))
        return found.exit_code

    return await every(given.interval, show)


def day_counts(runtime: Mapping[str, str]) -> tuple[int, int, int, int]:
    """Messages in and out: yesterday, and today until now. Brokers count from their start."""

    def until(way: str, when: str) -> int:
        return int(runtime.get(f"msg{way}Total{when}", "0"))

    def between(way: str, start: str, end: str) -> int:
        return until(way, end) - until(way, start)

    return (
        between("Put", "YesterdayMorning", "TodayMorning"),
        between("Get", "YesterdayMorning", "TodayMorning"),
        between("Put", "TodayMorning", "TodayNow"),
        between("Get", "TodayMorning", "TodayNow"),
    )


async def _replication(session: Session) -> int:
    given = session.given

    async def show() -> int:
        found = await of_each(
            session,
            await brokers_where(session, given.clusterName, given.brokerAddr),
            lambda broker: session.admin.replication_status(broker.address),
        )
        shown = found.answers
        session.finish(Report({}, [_masters(shown), _slaves(shown), _links(shown)]))
        return found.exit_code

    return await every(given.interval, show)


_Shown = list[tuple[BrokerInfo, ReplicationStatus]]


def _masters(shown: _Shown) -> ReportTable:
    rows = [
        (broker.broker_name, broker.address, state.log_end, len(state.slaves), state.in_sync_count)
        for broker, state in shown
        if state.is_master
    ]
    return ReportTable("masters", ("broker", "address", "log_end", "slaves", "in_sync"), rows)


def _slaves(shown: _Shown) -> ReportTable:
    """As their masters see them."""
    columns = ("broker", "slave", "acknowledged", "lag_bytes", "bytes_per_second", "in_sync")
    rows = [
        (
            *(broker.broker_name, each.address, each.acknowledged_offset, each.lag_bytes),
            *(each.bytes_per_second, each.is_in_sync),
        )
        for broker, state in shown
        for each in state.slaves
    ]
    return ReportTable("slaves", columns, rows)


def _links(shown: _Shown) -> ReportTable:
    """Of slaves to their masters."""
    columns = ("broker", "address", "master", "replicated", "bytes_per_second", "last_read")
    rows = [
        (
            *(broker.broker_name, broker.address, state.master.address),
            *(state.master.replicated_offset, state.master.bytes_per_second),
            state.master.last_read,
        )
        for broker, state in shown
        if state.master is not None
    ]
    return ReportTable("links", columns, rows)


async def _clean(session: Session, what: Cleaning) -> int:
    given = session.given
    broker = await broker_name(session, given.brokerAddr)
    cleaned = await session.admin.clean(what, cluster=given.cluster, broker=broker)
    session.finish(Report({}, [ReportTable("cleaned", ("broker",), [(each,) for each in cleaned])]))
    return DONE


COMMANDS: Final = {
    "clusterList": Command(
        "All brokers; with -m the messages in and out, yesterday and today.",
        [Flag("m", "moreStats", is_switch=True), INTERVAL],
        _cluster_list,
    ),
    "brokerStatus": Command(
        "Runtime statistics of a broker.",
        [THE_BROKER],
        lambda it: ["broker", "status", it.brokerAddr],
    ),
    "getBrokerConfig": Command(
        "Settings of a broker.",
        [THE_BROKER],
        lambda it: ["broker", "config", "get", it.brokerAddr],
    ),
    "updateBrokerConfig": Command(
        "Change a setting of a broker.",
        [THE_BROKER, *_SETTING],
        lambda it: ["broker", "config", "set", it.brokerAddr, f"{it.key}={it.value}"],
    ),
    "wipeWritePerm": Command(
        "Forbid writes at a broker.",
        [_BROKER_NAME],
        lambda it: ["broker", "writes", "forbid", it.brokerName],
    ),
    "addWritePerm": Command(
        "Allow writes at a broker again.",
        [_BROKER_NAME],
        lambda it: ["broker", "writes", "allow", it.brokerName],
    ),
    "haStatus": Command(
        "Replication of a broker, or of all masters of a cluster.",
        [BROKER, CLUSTER, INTERVAL],
        own(_replication),
    ),
    "cleanExpiredCQ": Command(
        "Delete files of consume queues whose messages have expired.",
        _CLEANED,
        own(lambda session: _clean(session, Cleaning.EXPIRED)),
    ),
    "cleanUnusedTopic": Command(
        "Delete consume queues of topics that no longer exist.",
        _CLEANED,
        own(lambda session: _clean(session, Cleaning.UNUSED)),
    ),
    "getAclConfig": Command(
        "Accounts of brokers, without secrets.",
        [BROKER, CLUSTER],
        lambda it: ["account", "list", *where(it)],
    ),
    "deleteAclConfig": Command(
        "Remove an account.",
        [BROKER, CLUSTER, Flag("a", "accessKey", is_required=True)],
        lambda it: ["account", "remove", it.accessKey, "--yes", *where(it)],
    ),
}
