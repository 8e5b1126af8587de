"""`roquet cluster`: all brokers at a glance."""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Session, define_command
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.client.admin.cluster import BrokerInfo
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
    "problem",
)


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Show all brokers: role, address, version, message rates, disk usage, and for replicas"
        " epoch, lag and in-sync set. Exits with 1 if a broker is unreachable or has a problem."
    )
    define_command(parser, _show)


async def _show(session: Session) -> int:
    brokers = await session.admin.brokers()
    session.finish(Report({}, [ReportTable("brokers", _COLUMNS, list(map(_row, brokers)))]))
    return FAILED if any(each.error or each.problem for each in brokers) else DONE


def role_of(broker: BrokerInfo) -> str:
    return "master" if broker.is_master else f"slave {broker.broker_id}"


def _row(broker: BrokerInfo) -> tuple[Fact, ...]:
    return (
        broker.cluster,
        broker.broker_name,
        role_of(broker),
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
        broker.error or broker.problem,
    )
