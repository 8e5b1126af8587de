"""`roquet doctor`: why can I not send or consume?

`examining` asks the cluster, `findings` decides what is wrong with the answers and what helps.
"""

from argparse import ArgumentParser

from roquet.cli.doctor.examining import examined
from roquet.cli.doctor.findings import Finding, Severity
from roquet.cli.operating.commands import Session, define_command
from roquet.cli.operating.failures import DONE, FAILED
from roquet.reporting import Report, ReportTable


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Look for what keeps messages from being sent or consumed: name servers, routes, advertised"
        " addresses, permissions, disks, clocks, subscriptions, lag, consumers that are gone. Exits"
        " with 1 if there is a problem."
    )
    parser.add_argument("--topic", help="Look at this topic, as for somebody who sends to it.")
    parser.add_argument("--group", help="Look at this group; all of them if left out.")
    define_command(parser, _examine)


async def _examine(session: Session) -> int:
    findings = await examined(session)
    session.finish(_report(findings))
    is_ill = any(each.severity is Severity.PROBLEM for each in findings)
    return FAILED if is_ill else DONE


def _report(findings: list[Finding]) -> Report:
    ordered = sorted(findings, key=lambda each: list(Severity).index(each.severity))
    rows = [(each.severity.value, each.subject, each.text, each.remedy) for each in ordered]
    return Report({}, [ReportTable("findings", ("severity", "subject", "finding", "remedy"), rows)])
