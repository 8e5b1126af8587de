"""`roquet doctor`: why can I not send or consume?

This module queries the cluster; `findings` decides what is wrong and what the remedy is.
"""

from argparse import ArgumentParser
from collections.abc import AsyncIterator
from typing import Final

from roquet.cli.admin_commands.commands import Session, define_command
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.cli.doctor import findings
from roquet.cli.doctor.findings import Finding, Severity
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.groups import MemberInfo
from roquet.client.errors import ClientError, GroupNotFound, TopicNotFound
from roquet.client.timestamps import utc
from roquet.clock import SystemClock
from roquet.reporting import Report, ReportTable

# Enough members to see whether their subscriptions agree.
_ASKED_MEMBERS_MAX: Final = 32


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
    found = [*findings.of_name_servers(errors)]
    if all(errors.values()):
        return found
    with session.reporter.late_progress("requests") as progress:
        brokers = await admin.brokers()
        progress.advance()
        now = utc(SystemClock().now_ms())
        found += findings.of_brokers(brokers, list(errors), now)
        reachable = [each for each in brokers if each.is_master and each.error is None]
        for broker in reachable:
            settings = await admin.broker_config(broker.address)
            found += findings.of_settings(broker.broker_name, settings)
            progress.advance()
        if len(reachable) < len({each.broker_name for each in brokers}) or not reachable:
            # Requests about topics and groups go to all masters.
            return found
        async for finding in _of_topics(session, reachable):
            found.append(finding)
            progress.advance()
        async for finding in _of_groups(session):
            found.append(finding)
            progress.advance()
    return found


async def _of_topics(session: Session, brokers: list[BrokerInfo]) -> AsyncIterator[Finding]:
    admin, wanted = session.admin, session.given.topic
    settings = await admin.all_topic_settings()
    if wanted is not None and wanted not in settings:
        configs = [await admin.broker_config(each.address) for each in brokers]
        is_made = any(each.get("autoCreateTopicEnable") == "true" for each in configs)
        yield findings.missing_topic(wanted, is_made_by_sends=is_made)
        return
    for topic in settings if wanted is None else [wanted]:
        try:
            routes = await admin.topic_route(topic)
        except TopicNotFound:
            continue  # Deleted meanwhile.
        for finding in findings.of_topic_routes(topic, routes, settings[topic]):
            yield finding
    if wanted is not None:
        readers = await admin.topic_groups(wanted)
        text = f"consumed by {', '.join(readers)}" if readers else "not consumed by any group"
        yield Finding(Severity.FINE, f"topic {wanted}", text)


async def _of_groups(session: Session) -> AsyncIterator[Finding]:
    admin, wanted = session.admin, session.given.group
    dead = await admin.dead_letter_counts()
    for group in await admin.groups() if wanted is None else [wanted]:
        try:
            progress = await admin.progress(group)
            members = await admin.members(group)
            settings = await admin.group_settings(group)
            infos = await _member_infos(session, group, members.client_ids)
        except GroupNotFound as error:
            if wanted is None:
                continue  # Deleted meanwhile.
            remedy = "check the name: roquet group list; its consumers may never have connected"
            yield Finding(Severity.PROBLEM, f"group {group}", str(error), remedy)
            continue
        for finding in (
            *findings.of_group_settings(group, settings),
            *findings.of_progress(group, progress, members),
            *findings.of_members(group, infos),
        ):
            yield finding
        if group in dead:
            yield findings.of_dead_letters(group, dead[group].message_count)


async def _member_infos(
    session: Session, group: str, client_ids: list[str]
) -> dict[str, MemberInfo]:
    """Of the members that answer."""
    infos = {}
    for client_id in client_ids[:_ASKED_MEMBERS_MAX]:
        try:
            infos[client_id] = await session.admin.running_info(group, client_id)
        except ClientError:
            continue
    return infos
