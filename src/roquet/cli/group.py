"""`roquet group`: consumer groups, their progress, settings and members."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from roquet.cli.admin_commands.commands import (
    Commands,
    Session,
    broker_name,
    define_confirmation,
    is_confirmed,
)
from roquet.cli.admin_commands.failures import DONE
from roquet.cli.admin_commands.listing import define_listing, selected, sorted_by
from roquet.cli.argument_types import whole_number
from roquet.client.admin.groups import (
    DEFAULT_SETTINGS,
    GroupMembers,
    GroupSettings,
    MemberInfo,
    MemberSilent,
)
from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.waiting import WaitingMessages
from roquet.client.arguments import utc
from roquet.client.errors import ClientError, GroupNotFound
from roquet.clock import SystemClock
from roquet.protocol.names import RETRY_PREFIX
from roquet.reporting import Fact, Report, ReportTable

MemberInfos = Mapping[str, MemberInfo | MemberSilent]

# Groups that are queried at the same time.
_AT_ONCE: Final = 8
_COLUMNS: Final = (
    *("group", "members", "type", "topics", "pulled_rate", "done_rate", "lag", "behind_s"),
    *("retries_waiting", "retries_ready", "problem"),
)


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    listing = commands.add("list", "List consumer groups with members and lag.", _list)
    listing.add_argument("--all", action="store_true", help="Include system groups.")
    listing.add_argument("--names", action="store_true", help="Names only, in one request.")
    define_listing(listing, _COLUMNS)
    show = commands.add(
        "show", "Show the progress of a group in each queue, and its settings.", _show
    )
    show.add_argument("group")
    show.add_argument("--topic", help="In this topic only.")
    show.add_argument(
        "--stack",
        action="store_true",
        help="Print where the threads and tasks of each member are.",
    )
    members = commands.add("members", "Show the connected members of a group.", _members)
    members.add_argument("group")
    members.add_argument("--member", metavar="CLIENT", help="State of this member, queue by queue.")
    create = commands.add(
        "create",
        "Create a group at all masters, or at some; if it exists, change its settings.",
        _create,
    )
    create.add_argument("group")
    _define_settings(create)
    delete = commands.add(
        "delete", "Delete a group and its offsets; its dead letters are kept.", _delete
    )
    delete.add_argument("group")
    where = delete.add_mutually_exclusive_group()
    where.add_argument("--cluster", help="In this cluster only.")
    where.add_argument("--broker", metavar="NAME", help="At this broker only; retries are kept.")
    delete.add_argument(
        "--keep-offsets", action="store_true", help="Keep its offsets, so that it can resume."
    )
    define_confirmation(delete)


def _define_settings(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--retries",
        type=whole_number(-1),
        metavar="N",
        help="Number of redeliveries before a message becomes a dead letter. Default: 16.",
    )
    parser.add_argument(
        "--retry-queues",
        type=whole_number(0),
        metavar="N",
        help="Number of retry queues. Default: 1.",
    )
    enabled = parser.add_mutually_exclusive_group()
    enabled.add_argument("--disabled", action="store_true", help="Its members receive no messages.")
    enabled.add_argument("--enabled", action="store_true", help="Reverts --disabled.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", help="At the masters of this cluster only.")
    where.add_argument("--broker", metavar="NAME", help="At this broker only.")


async def _list(session: Session) -> int:
    given = session.given
    groups = selected(await session.partial.groups(with_internal=given.all), given.filter)
    if given.names and given.sort in (None, "group"):
        table = ReportTable("groups", ("group",), [(group,) for group in groups])
    else:
        gate = asyncio.Semaphore(_AT_ONCE)
        waiting = await session.partial.waiting_messages()
        with session.reporter.late_progress("groups", len(groups)) as progress:

            async def row(group: str) -> tuple[Fact, ...]:
                async with gate:
                    found = await _list_row(session, group, waiting)
                progress.advance()
                return found

            rows = await asyncio.gather(*map(row, groups))
        table = sorted_by(ReportTable("groups", _COLUMNS, rows), given.sort)
        if not given.json:
            table = _narrowed(table)
    session.finish(Report({}, [table]))
    return DONE


def _narrowed(table: ReportTable) -> ReportTable:
    """For people: without the column of problems if there are none, so that it fits a terminal."""
    if any(row[-1] is not None for row in table.rows):
        return table
    return table._replace(columns=table.columns[:-1], rows=[row[:-1] for row in table.rows])


async def _list_row(session: Session, group: str, waiting: WaitingMessages) -> tuple[Fact, ...]:
    try:
        members = await session.partial.members(group)
        progress = await session.partial.progress(group)
        infos = await session.partial.running_infos(group) if members.connections else {}
    except GroupNotFound:
        return group, 0, None, 0, *(None,) * 6, "deleted meanwhile"
    except ClientError as error:
        return group, *(None,) * 9, str(error)
    retries = waiting.retries_of(group)
    topics = {each.queue.topic for each in progress.queues}
    return (
        group,
        len(members.connections),
        _kind(members),
        len(topics),
        progress.pulled_rate,
        _done_rate(infos),
        progress.lag,
        progress.time_lag,
        None if retries is None else retries.count,
        progress.retries_ready,
        None,
    )


def _kind(members: GroupMembers) -> str | None:
    """Java's terms, shortened."""
    if members.message_model is None:
        return None
    how = "push" if (members.consume_type or "").endswith("PASSIVELY") else "pull"
    return f"{how}, {members.message_model.lower()}"


async def _show(session: Session) -> int:
    given, admin = session.given, session.partial
    progress, members, settings, infos, waiting = await asyncio.gather(
        admin.progress(given.group, topic=given.topic),
        admin.members(given.group),
        admin.group_settings(given.group),
        admin.running_infos(given.group, with_stacks=given.stack),
        admin.waiting_messages(),
    )
    facts: dict[str, Fact] = {
        "group": given.group,
        "members": len(members.connections),
        "type": _kind(members),
        **_without_members(members),
        "pulled_rate": progress.pulled_rate,
        "done_rate": _done_rate(infos),
        "lag": progress.lag,
        "behind_s": progress.time_lag,
        **_retry_facts(given, progress, waiting),
        **_pop_facts(given.group, waiting),
    }
    tables = [_queues_table(progress, infos), _settings_table(settings)]
    if infos or given.json:
        tables.insert(1, _members_table(infos))
    if members.past:
        tables.insert(1, _past_table(members))
    if given.stack and given.json:
        tables.append(ReportTable("stacks", ("client", "stack"), _stacks(infos)))
    session.finish(Report(facts, tables))
    if given.stack and not given.json:
        for client, stack in _stacks(infos):
            print(f"\n{client}\n{stack or 'no stack: it did not report one'}")
    return DONE


def _without_members(members: GroupMembers) -> dict[str, Fact]:
    since = members.without_since
    return {} if since is None else {"without_members_since": since}


def _past_table(members: GroupMembers) -> ReportTable:
    """The last members of a group that has none now."""
    rows = [(each.client_id, each.address, each.left) for each in members.past]
    return ReportTable("past_members", ("client", "address", "left"), rows)


def _done_rate(infos: MemberInfos) -> float | None:
    """None if a member did not report what it finished."""
    rates = [each.done_rate for each in infos.values() if isinstance(each, MemberInfo)]
    return sum(rates) if len(rates) == len(infos) else None


def _stacks(infos: MemberInfos) -> list[tuple[str, str | None]]:
    return [
        (client, each.stacks if isinstance(each, MemberInfo) else None)
        for client, each in infos.items()
    ]


def _queues_table(progress: GroupProgress, infos: MemberInfos) -> ReportTable:
    """With the member that holds each queue; a moment after a change that can be two."""
    name, columns, rows = progress_table(progress)
    reported = {client: each for client, each in infos.items() if isinstance(each, MemberInfo)}
    holders = [
        ", ".join(client for client, info in reported.items() if each.queue in info.queues) or None
        for each in progress.queues
    ]
    return ReportTable(
        name,
        (*columns, "member"),
        [(*row, holder) for row, holder in zip(rows, holders, strict=True)],
    )


def _members_table(infos: MemberInfos) -> ReportTable:
    """What each member does, with the message that its listeners have held longest."""
    columns = (
        *("client", "queues", "done_rate", "in_hand", "oldest", "key"),
        *("topic", "broker", "queue", "since", "problem"),
    )
    return ReportTable("members", columns, [_member_row(*each) for each in infos.items()])


def _member_row(client: str, info: MemberInfo | MemberSilent) -> tuple[Fact, ...]:
    if isinstance(info, MemberSilent):
        return client, *(None,) * 9, info.reason
    queue_count = sum(not queue.topic.startswith(RETRY_PREFIX) for queue in info.queues)
    if not info.in_hand:
        in_hand = None if info.in_hand is None else 0
        return client, queue_count, info.done_rate, in_hand, *(None,) * 7
    oldest = info.in_hand[0]
    return (
        client,
        queue_count,
        info.done_rate,
        len(info.in_hand),
        oldest.message_id,
        oldest.keys,
        *oldest.queue,
        utc(SystemClock().now_ms()) - oldest.held,
        None,
    )


def _retry_facts(
    given: Namespace, progress: GroupProgress, waiting: WaitingMessages
) -> dict[str, Fact]:
    """Messages that wait for their next try, and those whose time has come."""
    retries = waiting.retries_of(given.group)
    facts: dict[str, Fact] = {
        "retries_waiting": None if retries is None else retries.count,
        "next_retry": None if retries is None else retries.next_due,
        # The progress in one topic is without retries.
        "retries_ready": None if given.topic else progress.retries_ready,
    }
    return facts | unknown_parts(waiting)


def _pop_facts(group: str, waiting: WaitingMessages) -> dict[str, Fact]:
    """Of a group that pops; others have none of it."""
    in_flight, pop_count = waiting.in_flight.get(group), waiting.waiting_pops.get(group, 0)
    if in_flight is None and not pop_count:
        return {}
    return {
        "in_flight": 0 if in_flight is None else in_flight.count,
        "next_redelivery": None if in_flight is None else in_flight.next_due,
        "waiting_pops": pop_count,
    }


def unknown_parts(waiting: WaitingMessages) -> dict[str, Fact]:
    """Brokers whose count of waiting messages is unknown, or not complete yet."""
    names = {"unknown_at": waiting.unknown_at, "still_counted_at": waiting.uncounted_at}
    return {name: ", ".join(brokers) for name, brokers in names.items() if brokers}


def progress_table(progress: GroupProgress) -> ReportTable:
    columns = (
        *("topic", "broker", "queue", "committed", "end", "lag"),
        *("behind_s", "last_taken"),
    )
    return ReportTable(
        "queues",
        columns,
        [
            (
                *each.queue,
                each.consumer_offset,
                each.broker_offset,
                each.lag,
                each.time_lag,
                each.last_taken,
            )
            for each in progress.queues
        ],
    )


def _settings_table(settings: dict[str, GroupSettings]) -> ReportTable:
    return ReportTable(
        "settings",
        ("broker", "enabled", "broadcasts", "retries", "retry_queues"),
        [
            (
                broker,
                each.is_enabled,
                each.may_broadcast,
                each.retry_count_max,
                each.retry_queue_count,
            )
            for broker, each in settings.items()
        ],
    )


async def _members(session: Session) -> int:
    given, admin = session.given, session.partial
    if given.member is not None:
        session.finish(_member_report(await admin.running_info(given.group, given.member)))
        return DONE
    members = await admin.members(given.group)
    if not members.connections:
        # An unknown group is an error; one without members is not.
        await admin.progress(given.group)
    session.finish(
        Report(
            {
                "group": given.group,
                "members": len(members.connections),
                "type": _kind(members),
                **_without_members(members),
            },
            [
                *([_past_table(members)] if members.past else ()),
                ReportTable(
                    "connections",
                    ("client", "address", "language", "version"),
                    [
                        (each.client_id, each.address, each.language, each.version)
                        for each in members.connections
                    ],
                ),
                ReportTable(
                    "subscriptions",
                    ("topic", "wants"),
                    sorted((members.subscriptions or {}).items()),
                ),
            ],
        )
    )
    return DONE


def _member_report(info: MemberInfo) -> Report:
    return Report(
        dict(info.properties),
        [
            ReportTable("subscriptions", ("topic", "wants"), sorted(info.subscriptions.items())),
            ReportTable(
                "queues",
                ("topic", "broker", "queue", "committed", "cached", "locked", "last_pull"),
                [
                    (
                        *queue,
                        each.committed_offset,
                        each.cached_count,
                        each.is_locked,
                        each.last_pull,
                    )
                    for queue, each in sorted(info.queues.items())
                ],
            ),
            ReportTable(
                "rates",
                ("topic", "pulled", "done", "failed", "call_s"),
                [
                    (topic, each.pulled, each.done, each.failed, each.call_duration)
                    for topic, each in sorted(info.rates.items())
                ],
            ),
        ],
    )


async def _create(session: Session) -> int:
    given, admin = session.given, session.admin
    before = await admin.group_settings(given.group)
    settings = next(iter(before.values()), DEFAULT_SETTINGS)
    if given.retries is not None:
        settings = replace(settings, retry_count_max=given.retries)
    if given.retry_queues is not None:
        settings = replace(settings, retry_queue_count=given.retry_queues)
    if given.disabled or given.enabled:
        settings = replace(settings, is_enabled=given.enabled)
    broker = await broker_name(session, given.broker)
    await admin.create_group(given.group, settings, cluster=given.cluster, broker=broker)
    after = await admin.group_settings(given.group)
    session.finish(Report({"group": given.group}, [_settings_table(after)]))
    return DONE


async def _delete(session: Session) -> int:
    given, admin = session.given, session.admin
    broker = await broker_name(session, given.broker)
    progress = await admin.progress(given.group)
    members = await admin.members(given.group)
    facts: dict[str, Fact] = {
        "group": given.group,
        "members": len(members.connections),
        "lag": progress.lag,
    }
    session.finish(Report(facts))
    if is_confirmed(session, f"Delete group {given.group}?"):
        await admin.delete_group(
            given.group, cluster=given.cluster, broker=broker, keep_offsets=given.keep_offsets
        )
        session.reporter.say("deleted")
    return DONE
