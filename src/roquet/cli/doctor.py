"""`roquet doctor`: why can I not send or consume? `client.admin.doctor` has the findings."""

from argparse import ArgumentParser
from collections.abc import Sequence

from roquet.cli.admin_commands.commands import Session, define_command
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.client.admin.doctor.examination import examine
from roquet.client.admin.doctor.finding import (
    Finding,
    Line,
    Severity,
    count_of,
    lines_of,
    summary,
)
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
    given, found = session.given, []
    with session.reporter.late_progress("requests") as progress:
        async for finding in examine(session.partial, topic=given.topic, group=given.group):
            found.append(finding)
            progress.advance()
    return found
