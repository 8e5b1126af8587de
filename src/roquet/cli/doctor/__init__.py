"""`roquet doctor`: why can I not send or consume?

The modules beside this one have the findings about servers, topics and groups: what is wrong and
what the remedy is.
"""

from argparse import ArgumentParser

from roquet.cli.admin_commands.commands import Session, define_command
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.cli.doctor import groups, servers, topics
from roquet.cli.doctor.finding import Finding, Severity
from roquet.client.timestamps import utc
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
    define_command(parser, _examine)


async def _examine(session: Session) -> int:
    found = await _findings(session)
    session.finish(_report(found))
    has_problem = any(each.severity is Severity.PROBLEM for each in found)
    return FAILED if has_problem else DONE


def _report(found: list[Finding]) -> Report:
    ordered = sorted(found, key=lambda each: list(Severity).index(each.severity))
    rows = [(each.severity.value, each.subject, each.text, each.remedy) for each in ordered]
    return Report({}, [ReportTable("findings", ("severity", "subject", "finding", "remedy"), rows)])


async def _findings(session: Session) -> list[Finding]:
    admin = session.admin
    errors = await admin.name_servers()
    found = [*servers.of_name_servers(errors)]
    if all(errors.values()):
        return found
    with session.reporter.late_progress("requests") as progress:
        brokers, lost = await admin.brokers(), await admin.lost_brokers()
        progress.advance()
        now = utc(SystemClock().now_ms())
        found += servers.of_brokers(brokers, list(errors), now)
        found += servers.of_lost(lost, brokers)
        reachable = [each for each in brokers if each.is_master and each.error is None]
        for broker in reachable:
            settings = await admin.broker_config(broker.address)
            found += servers.of_settings(broker.broker_name, settings)
            progress.advance()
        if len(reachable) < len({each.broker_name for each in brokers}) or not reachable:
            # Requests about topics and groups go to all masters.
            return found
        async for finding in topics.examine(session, reachable):
            found.append(finding)
            progress.advance()
        async for finding in groups.examine(session):
            found.append(finding)
            progress.advance()
    return found
