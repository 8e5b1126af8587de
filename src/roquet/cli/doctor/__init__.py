"""`roquet doctor`: why can I not send or consume?

The modules beside this one have the findings about servers, topics and groups: what is wrong and
what the remedy is.
"""

import asyncio
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import datetime

from roquet.cli.admin_commands.commands import Session, define_command
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.cli.doctor import groups, servers, topics
from roquet.cli.doctor.finding import Finding, Line, Severity, count_of, lines_of, summary
from roquet.client.admin.cluster import BrokerInfo, certificate_expiry
from roquet.client.arguments import utc
from roquet.client.errors import ClientError
from roquet.clock import SystemClock
from roquet.reporting import Report, ReportTable


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Diagnose why messages are not sent or consumed: checks name servers, routes, advertised"
        " addresses, permissions, disks, clocks, subscriptions, lag and missing consumers. Exits"
        " with 1 if there is a problem."
    )
    parser.add_argument("--topic", help="Check this topic, also as a producer sees it.")
    parser.add_argument("--group", help="Check this group. Default: all.")
    parser.add_argument(
        "--severity",
        choices=[each.value for each in Severity],
        default=Severity.FINE.value,
        help="Show findings that are at least as bad. Default: %(default)s, which is all.",
    )
    define_command(parser, _examine)


async def _examine(session: Session) -> int:
    given = session.given
    lines = lines_of(await _findings(session))
    # Brokers that did not answer are among the findings.
    session.reporter.finish(_report(lines, Severity(given.severity), as_json=given.json))
    return FAILED if count_of(lines, Severity.PROBLEM) else DONE


def _report(lines: Sequence[Line], severity: Severity, *, as_json: bool) -> Report:
    columns = ("severity", "subject", "finding", "remedy", "count")
    rows = [
        (each.severity.value, each.subject, each.text, each.remedy, each.count)
        for each in lines
        if each.severity.is_at_least(severity)
    ]
    if as_json:
        counts = (("problems", Severity.PROBLEM), ("warnings", Severity.WARNING))
        facts = {name: count_of(lines, each) for name, each in counts}
        return Report(facts, [ReportTable("findings", columns, rows)])
    # For people, the count is part of the subject.
    table = ReportTable("findings", columns[:-1], [row[:-1] for row in rows])
    return Report({}, [table], summary(lines))


async def _findings(session: Session) -> list[Finding]:
    admin = session.partial
    errors = await admin.name_servers()
    found = [*servers.of_name_servers(errors)]
    if all(errors.values()):
        return found
    with session.reporter.late_progress("requests") as progress:
        brokers, lost = await admin.brokers(), await admin.lost_brokers()
        progress.advance()
        found += servers.of_brokers(brokers, list(errors))
        found += servers.of_lost(lost, brokers)
        answering = [each for each in brokers if each.error is None]
        settings = await _settings(session, answering)
        for name, each in settings.items():
            found += servers.of_settings(name, each)
        now = utc(SystemClock().now_ms())
        for broker in answering:
            found += servers.of_disk(broker, settings.get(broker.broker_name, {}))
            subject = f"broker {broker.broker_name}"
            found += servers.of_certificate(subject, broker.certificate_expires, now)
        for address, expires in (await _name_server_certificates(session)).items():
            found += servers.of_certificate(f"name server {address}", expires, now)
        progress.advance()
        if not answering:
            return found
        async for finding in topics.examine(session, settings):
            found.append(finding)
            progress.advance()
        async for finding in groups.examine(session):
            found.append(finding)
            progress.advance()
        found += servers.of_missing(admin.missing, found)
    return found


async def _name_server_certificates(session: Session) -> Mapping[str, datetime | None]:
    """Empty if it is unknown: one that cannot be reached is a finding already."""
    try:
        configs = await session.admin.name_server_config()
    except ClientError:
        return {}
    return {address: certificate_expiry(each) for address, each in configs.items()}


async def _settings(
    session: Session, brokers: Sequence[BrokerInfo]
) -> Mapping[str, Mapping[str, str]]:
    """Of the masters that answer, by broker name."""

    async def asked(broker: BrokerInfo) -> Mapping[str, str]:
        try:
            return await session.admin.broker_config(broker.address)
        except ClientError:
            return {}

    masters = [each for each in brokers if each.is_master]
    answers = await asyncio.gather(*map(asked, masters))
    return {master.broker_name: each for master, each in zip(masters, answers, strict=True)}
