"""Findings about consumer groups and their members."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from typing import Final

from roquet.cli.admin_commands.commands import Session
from roquet.cli.doctor.finding import Finding, Severity
from roquet.client.admin.groups import GroupMembers, GroupSettings, MemberInfo
from roquet.client.admin.progress import GroupProgress
from roquet.client.errors import ClientError, GroupNotFound

_LAG_MAX: Final = timedelta(minutes=5)
# Enough members to see whether their subscriptions agree.
_ASKED_MEMBERS_MAX: Final = 32


async def examine(session: Session) -> AsyncIterator[Finding]:
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
            *of_group_settings(group, settings),
            *of_progress(group, progress, members),
            *of_members(group, infos),
        ):
            yield finding
        if group in dead:
            yield of_dead_letters(group, dead[group].message_count)


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


def of_group_settings(group: str, settings: Mapping[str, GroupSettings]) -> Iterator[Finding]:
    for broker, each in settings.items():
        if not each.is_enabled:
            yield Finding(
                Severity.PROBLEM,
                f"group {group}",
                f"is disabled at {broker}: its members receive no messages",
                f"roquet group create {group} --enabled --broker {broker}",
            )


def of_progress(group: str, progress: GroupProgress, members: GroupMembers) -> Iterator[Finding]:
    subject = f"group {group}"
    is_away = not members.connections
    if is_away and progress.lag:
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"no member is connected; {progress.lag:,} messages are waiting",
            f"start its consumers; or if it is unused: roquet group delete {group}",
        )
    elif not is_away and progress.lag and (progress.time_lag or timedelta()) > _LAG_MAX:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{progress.lag:,} messages are waiting, the oldest for {progress.time_lag}",
            "add members up to the number of queues, or inspect a slow one: roquet group"
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
            f"{len(members.connections)} members share {queue_count} queues: some are idle",
            "add queues: roquet topic change TOPIC --queues N",
        )


def of_members(group: str, infos: Mapping[str, MemberInfo]) -> Iterator[Finding]:
    """Members of a group need the same subscriptions, or messages are lost to some."""
    wanted = {client: _subscriptions(info) for client, info in infos.items()}
    if len(set(wanted.values())) > 1:
        parts = "; ".join(f"{client} has {_text(topics)}" for client, topics in wanted.items())
        yield Finding(
            Severity.PROBLEM,
            f"group {group}",
            f"its members have different subscriptions, so some miss messages: {parts}",
            "give all members the same subscriptions, or use separate groups",
        )


def _subscriptions(info: MemberInfo) -> tuple[tuple[str, str], ...]:
    """Without the retry topic, which is the group's own."""
    return tuple(sorted(each for each in info.subscriptions.items() if not each[0].startswith("%")))


def _text(subscriptions: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{topic} [{expression}]" for topic, expression in subscriptions) or "none"


def of_dead_letters(group: str, count: int) -> Finding:
    return Finding(
        Severity.WARNING,
        f"group {group}",
        f"has {count:,} dead letters",
        f"see the errors: roquet dlq show {group}; then: roquet dlq resend {group}",
    )
