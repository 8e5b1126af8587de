"""`roquet cluster`: all brokers at a glance."""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Session, define_command
from roquet.cli.admin_commands.failures import DONE, FAILED, NO_BROKER
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.missing import LostBroker
from roquet.reporting import Fact, Report, ReportTable

_COLUMNS = (
    "cluster",
    "broker",
    "role",
    "address",
    "version",
    "put_rate",
    "get_rate",
    "disk_used_ratio",
    "started",
    "epoch",
    "lag_bytes",
    "lag_s",
    "in_sync",
    "slaves",
    "acknowledge",
    "writes",
    "problem",
)

_DISPLACED_COLUMNS = (
    "broker",
    "role",
    "address",
    "was_master_in_epoch",
    "displaced_by",
    "in_epoch",
    "since",
    "divergent_messages",
    "not_resent",
)
_LOST_COLUMNS = ("cluster", "broker", "role", "address", "lost_since", "reason")


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Show all brokers: role, address, version, message rates, disk usage, and for replicas"
        " epoch, lag, in-sync set, slaves and policy; and those that were lost within the last day."
        " Exits with 1 if a broker is lost, unreachable or has a problem, or if there is none."
    )
    define_command(parser, show_brokers)


async def show_brokers(session: Session) -> int:
    brokers, lost = await session.admin.brokers(), await session.admin.lost_brokers()
    facts: dict[str, Fact] = {}
    tables = [ReportTable("brokers", _COLUMNS, list(map(_row, brokers)))]
    switched = [each for each in brokers if each.displaced or each.divergent]
    if switched or session.given.json:
        rows = list(map(_switched_row, switched))
        tables.append(ReportTable("displaced", _DISPLACED_COLUMNS, rows))
    if lost is None:
        facts["lost"] = "unknown: name servers of Apache do not remember brokers that left"
    elif lost or session.given.json:
        tables.append(ReportTable("lost", _LOST_COLUMNS, list(map(_lost_row, lost))))
    session.finish(Report(facts, tables))
    if not brokers:
        session.reporter.say(NO_BROKER)
    is_well = brokers and not lost and not any(each.error or each.problem for each in brokers)
    return DONE if is_well else FAILED


def _row(broker: BrokerInfo) -> tuple[Fact, ...]:
    return (
        broker.cluster,
        broker.broker_name,
        broker.role,
        broker.address,
        broker.version,
        broker.put_rate,
        broker.get_rate,
        broker.disk_used_ratio,
        broker.started,
        broker.epoch,
        broker.lag_bytes,
        broker.lag_s,
        None if broker.in_sync is None else ",".join(map(str, broker.in_sync)),
        broker.slave_count,
        broker.acknowledge,
        broker.writes,
        broker.error or broker.problem,
    )


def _switched_row(broker: BrokerInfo) -> tuple[Fact, ...]:
    displaced, divergent = broker.displaced, broker.divergent
    return (
        broker.broker_name,
        broker.role,
        broker.address,
        None if displaced is None else displaced.epoch,
        None if displaced is None else displaced.by,
        None if displaced is None else displaced.by_epoch,
        None if displaced is None else displaced.since,
        0 if divergent is None else divergent.message_count,
        0 if divergent is None else divergent.not_resent_count,
    )


def _lost_row(lost: LostBroker) -> tuple[Fact, ...]:
    return (
        lost.cluster,
        lost.broker_name,
        lost.role,
        lost.address,
        lost.since,
        lost.reason,
    )
