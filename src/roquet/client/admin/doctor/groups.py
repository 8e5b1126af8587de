"""Findings about consumer groups and their members."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.dead_letters import left_count
from roquet.client.admin.doctor.finding import Finding, Severity, not_asked
from roquet.client.admin.groups import (
    GroupMembers,
    GroupSettings,
    MemberInfo,
    MemberSilent,
    MessageInHand,
)
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.waiting import DelayedMessages, WaitingMessages
from roquet.client.arguments import utc
from roquet.client.errors import GroupNotFound
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.time_spans import span_text

_LAG_MAX: Final = timedelta(minutes=5)
# A call of a listener that takes longer is worth a look.
_CALL_MAX: Final = timedelta(seconds=30)
_SHOWN_MAX: Final = 5
# The id of an SDK of 5.x: HOST@PROCESS@NUMBER@TIME.
_SDK_ID_SIGNS: Final = 3


async def examine(admin: AsyncAdmin, wanted: str | None) -> AsyncIterator[Finding]:
    dead = await admin.dead_letter_counts()
    waiting = await admin.waiting_messages()
    for finding in of_waiting(waiting):
        yield finding
    settings = await admin.all_group_settings()
    for group in await admin.groups() if wanted is None else [wanted]:
        try:
            progress = await admin.progress(group)
            members = await admin.members(group)
            infos = await admin.running_infos(group)
        except GroupNotFound as error:
            if wanted is None:
                continue  # Deleted meanwhile.
            if admin.missing:
                yield not_asked(f"group {group}", admin.missing)
                continue
            remedy = "check the name: roquet group list; its consumers may never have connected"
            yield Finding(Severity.PROBLEM, f"group {group}", str(error), remedy)
            continue
        for finding in (
            *of_group_settings(group, settings.get(group, {})),
            *of_progress(group, progress, members),
            *of_members(group, _reported(infos)),
            *of_listeners(group, _reported(infos), utc(SystemClock().now_ms())),
            *of_retries(group, waiting.retries.get(group), members),
        ):
            yield finding
        left = left_count(dead[group], await admin.resent(group)) if group in dead else 0
        if left:
            yield of_dead_letters(group, left)


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
    behind = progress.time_lag or timedelta()
    if is_away and progress.lag:
        yield Finding(
            Severity.PROBLEM,
            subject,
            f"no member is connected; {progress.lag:,} messages are waiting"
            f"{_last_members(members)}",
            f"start its consumers; or if it is unused: roquet group delete {group}",
            "no member is connected, and messages are waiting",
        )
    elif not is_away and progress.lag and behind > _LAG_MAX:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{progress.lag:,} messages are waiting, the oldest for {span_text(behind)}",
            "add members up to the number of queues, or inspect a slow one: roquet group"
            f" members {group} --member CLIENT",
            f"messages are waiting for more than {span_text(_LAG_MAX)}",
        )
    topics = {each.queue.topic for each in progress.queues}
    queue_count = max(
        (sum(each.queue.topic == topic for each in progress.queues) for topic in topics), default=0
    )
    is_shared = members.message_model in (None, "CLUSTERING")
    # SDKs of 5.x pop: each of them gets messages of every queue.
    is_popped = any(each.count("@") == _SDK_ID_SIGNS for each in members.client_ids)
    if is_shared and not is_popped and queue_count and len(members.connections) > queue_count:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{len(members.connections)} members share {queue_count} queues: some are idle",
            "add queues: roquet topic change TOPIC --queues N",
            "more members than queues: some are idle",
        )


def _last_members(members: GroupMembers) -> str:
    """Of a group without members: since when, and which clients left last, as far as known."""
    since = members.without_since
    if since is None:
        return ""
    clients = ", ".join(each.client_id for each in members.past[:_SHOWN_MAX])
    return f"; its last members left at {since.isoformat(' ', 'seconds')}: {clients}"


def of_retries(
    group: str, retries: DelayedMessages | None, members: GroupMembers
) -> Iterator[Finding]:
    """Those that are ready are part of the lag."""
    if retries is not None and not members.connections:
        yield Finding(
            Severity.PROBLEM,
            f"group {group}",
            f"no member is connected; {_retry_text(retries)}{_last_members(members)}",
            f"start its consumers; or if it is unused: roquet group delete {group}",
        )


def of_waiting(waiting: WaitingMessages) -> Iterator[Finding]:
    """One line: that messages wait is no fault, but without it they would seem to be lost."""
    parts = [
        f"group {group}: {_retry_text(each)}" for group, each in sorted(waiting.retries.items())
    ]
    if delayed_count := sum(each.count for each in waiting.delayed.values()):
        parts.append(f"{delayed_count:,} delayed messages wait for their time")
    if half_count := sum(waiting.halves.values()) + waiting.other_half_count:
        parts.append(f"{half_count:,} half messages wait for the end of their transaction")
    if parts:
        more = [f"and {len(parts) - _SHOWN_MAX} more"] if len(parts) > _SHOWN_MAX else []
        text = "; ".join(parts[:_SHOWN_MAX] + more)
        remedy = "see roquet group show, roquet topic show"
        yield Finding(Severity.FINE, "waiting messages", text, remedy)
    if waiting.unknown_at:
        names = ", ".join(waiting.unknown_at)
        text = f"{names}: their count of retries and delayed messages is unknown"
        yield Finding(Severity.FINE, "waiting messages", text)


def _retry_text(retries: DelayedMessages) -> str:
    due = "" if retries.next_due is None else f", the next at {retries.next_due:%H:%M:%S} UTC"
    return f"{retries.count:,} messages wait for their next try{due}"


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
            "its members have different subscriptions, so some miss messages",
        )


def of_listeners(group: str, infos: Mapping[str, MemberInfo], now: datetime) -> Iterator[Finding]:
    """A listener that does not return holds up its queue, whatever the lag is."""
    remedy = f"see where it waits: roquet group show {group} --stack"
    for client, info in infos.items():
        text = _unfinished(info, now) if info.in_hand is None else _in_hand(info.in_hand)
        if text is not None:
            yield Finding(Severity.WARNING, f"group {group}", f"{client} {text}", remedy)


def _in_hand(in_hand: Sequence[MessageInHand]) -> str | None:
    """Of our members, which name the message."""
    stuck = [each for each in in_hand if each.held > _CALL_MAX]
    if not stuck:
        return None
    oldest = stuck[0]
    message = oldest.message_id + (f" (key {oldest.keys})" if oldest.keys else "")
    others = f", and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    return (
        f"has not finished message {message} of {_place(oldest.queue)} for"
        f" {span_text(oldest.held)}{others}"
    )


def _unfinished(info: MemberInfo, now: datetime) -> str | None:
    """Of other members, which report when they finished something."""
    waits = {
        queue: now - each.last_consumed
        for queue, each in info.queues.items()
        if each.cached_count and each.last_consumed is not None
    }
    queue = max(waits, key=waits.__getitem__, default=None)
    if queue is None or waits[queue] <= _CALL_MAX:
        return None
    return f"has finished no message of {_place(queue)} for {span_text(waits[queue])}"


def _place(queue: QueueRef) -> str:
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id}"


def _reported(infos: Mapping[str, MemberInfo | MemberSilent]) -> dict[str, MemberInfo]:
    return {client: each for client, each in infos.items() if isinstance(each, MemberInfo)}


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
        "has dead letters",
    )
