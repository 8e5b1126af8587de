"""`roquet topic`: topics, their settings, routes and contents."""

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
from roquet.cli.admin_commands.failures import DONE, FAILED, NOT_FOUND, Failed
from roquet.cli.admin_commands.listing import define_listing, selected, sorted_by
from roquet.cli.argument_types import pair, whole_number
from roquet.cli.group import unknown_parts
from roquet.client.admin.topics import DEFAULT_SETTINGS, TopicSettings
from roquet.client.errors import TopicNotFound
from roquet.protocol.codes import Permission
from roquet.reporting import Fact, Report, ReportTable

_PERMISSIONS: Final = {
    "rw": Permission.READ | Permission.WRITE,
    "r": Permission.READ,
    "w": Permission.WRITE,
    "none": Permission(0),
}
_QUEUE_COUNT_MAX: Final = 1024
_COLUMNS: Final = ("topic", "brokers", "read_queues", "write_queues", "permission")
_COUNTED: Final = ("messages", "last_stored")


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    listing = commands.add("list", "List topics.", _list)
    listing.add_argument(
        "--all", action="store_true", help="Include retry, dead-letter and system topics."
    )
    listing.add_argument(
        "--counts", action="store_true", help="Count messages; takes one request per topic."
    )
    define_listing(listing, (*_COLUMNS, *_COUNTED))
    show = commands.add("show", "Show a topic: settings, queues, consumer groups.", _show)
    show.add_argument("topic")
    route = commands.add("route", "Show the route of a topic, as clients receive it.", _route)
    route.add_argument("topic")
    create = commands.add("create", "Create a topic at all masters, or at some.", _create)
    create.add_argument("topic")
    create.add_argument(
        "--or-change", action="store_true", help="If the topic exists, change its settings."
    )
    _define_settings(create)
    change = commands.add(
        "change", "Change settings of a topic; omitted ones stay unchanged.", _change
    )
    change.add_argument("topic")
    _define_settings(change)
    delete = commands.add("delete", "Delete a topic with all its messages.", _delete)
    delete.add_argument("topic")
    delete.add_argument("--cluster", help="In this cluster only.")
    define_confirmation(delete)


def permission_text(permission: Permission) -> str:
    letters = "r" * bool(permission & Permission.READ) + "w" * bool(permission & Permission.WRITE)
    return letters or "none"


def _define_settings(parser: ArgumentParser) -> None:
    count = whole_number(1, _QUEUE_COUNT_MAX)
    parser.add_argument(
        "--queues", type=count, metavar="N", help="Number of read and write queues."
    )
    parser.add_argument("--read-queues", type=count, metavar="N")
    parser.add_argument("--write-queues", type=count, metavar="N")
    parser.add_argument("--permission", choices=list(_PERMISSIONS))
    parser.add_argument(
        "--ordered",
        action="store_true",
        default=None,
        help="Producers use the queues in a fixed order.",
    )
    parser.add_argument(
        "--attribute",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="Attribute of brokers of 5.x, such as message.type=FIFO; can be repeated.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", help="At the masters of this cluster only.")
    where.add_argument(
        "--broker", metavar="NAME", help="At this broker only: its name, or host:port."
    )


async def _list(session: Session) -> int:
    given = session.given
    settings = await session.partial.all_topic_settings(with_internal=given.all)
    topics = selected(settings, given.filter)
    columns: tuple[str, ...] = _COLUMNS
    rows = [_list_row(topic, settings[topic]) for topic in topics]
    if given.counts or given.sort in _COUNTED:
        columns += _COUNTED
        counted = await asyncio.gather(*(_counts(session, topic) for topic in topics))
        rows = [row + counts for row, counts in zip(rows, counted, strict=True)]
    table = sorted_by(ReportTable("topics", columns, rows), given.sort)
    session.finish(Report({}, [table]))
    return DONE


def _list_row(topic: str, by_broker: Mapping[str, TopicSettings]) -> tuple[Fact, ...]:
    permissions = {permission_text(each.permission) for each in by_broker.values()}
    return (
        topic,
        len(by_broker),
        sum(each.read_queue_count for each in by_broker.values()),
        sum(each.write_queue_count for each in by_broker.values()),
        "/".join(sorted(permissions)) or None,
    )


async def _counts(session: Session, topic: str) -> tuple[Fact, ...]:
    try:
        statistics = await session.partial.topic_statistics(topic)
    except TopicNotFound:
        return None, None  # Deleted meanwhile.
    return statistics.message_count, statistics.last_stored


async def _show(session: Session) -> int:
    topic, admin = session.given.topic, session.partial
    settings, statistics, groups, waiting = await asyncio.gather(
        admin.topic_settings(topic),
        admin.topic_statistics(topic),
        admin.topic_groups(topic),
        admin.waiting_messages(),
    )
    delayed = waiting.delayed_of(topic)
    facts: dict[str, Fact] = {
        "topic": topic,
        "messages": statistics.message_count,
        "last_stored": statistics.last_stored,
        "delayed": None if delayed is None else delayed.count,
        "half_messages": waiting.halves_of(topic),
        **unknown_parts(waiting),
    }
    session.finish(
        Report(
            facts,
            [
                _settings_table(settings),
                ReportTable(
                    "queues",
                    ("broker", "queue", "min_offset", "max_offset", "messages", "last_stored"),
                    [
                        (
                            each.queue.broker_name,
                            each.queue.queue_id,
                            each.min_offset,
                            each.max_offset,
                            each.message_count,
                            each.last_stored,
                        )
                        for each in statistics.queues
                    ],
                ),
                ReportTable("groups", ("group",), [(group,) for group in groups]),
            ],
        )
    )
    return DONE


async def _route(session: Session) -> int:
    routes = await session.admin.topic_route(session.given.topic)
    columns = ("broker", "cluster", "addresses", "read_queues", "write_queues", "permission")
    rows = [
        (
            each.broker_name,
            each.cluster,
            {str(broker_id): address for broker_id, address in each.addresses.items()},
            each.read_queue_count,
            each.write_queue_count,
            permission_text(each.permission),
        )
        for each in routes
    ]
    session.finish(Report({}, [ReportTable("brokers", columns, rows)]))
    return DONE


def _settings_table(settings: Mapping[str, TopicSettings]) -> ReportTable:
    columns = ("broker", "read_queues", "write_queues", "permission", "ordered", "attributes")
    return ReportTable(
        "brokers",
        columns,
        [
            (
                broker,
                each.read_queue_count,
                each.write_queue_count,
                permission_text(each.permission),
                each.is_ordered,
                ",".join(f"{name}={value}" for name, value in each.attributes.items()) or None,
            )
            for broker, each in settings.items()
        ],
    )


async def _create(session: Session) -> int:
    given, admin = session.given, session.admin
    masters = await _wanted_masters(session)
    there = (await admin.all_topic_settings()).get(given.topic, {})
    if not given.or_change and not there.keys().isdisjoint(masters):
        text = f"topic {given.topic!r} already exists; change it with: roquet topic change"
        raise Failed(text, FAILED)
    settings = {broker: _changed(there.get(broker, DEFAULT_SETTINGS), given) for broker in masters}
    await _put(session, settings)
    return DONE


async def _change(session: Session) -> int:
    given = session.given
    before = await session.admin.topic_settings(given.topic)
    after = {
        broker: _changed(before[broker], given)
        for broker in await _wanted_masters(session)
        if broker in before
    }
    if not after:
        raise Failed(f"{given.broker or given.cluster} does not have {given.topic!r}", NOT_FOUND)
    await _put(session, after)
    return DONE


async def _put(session: Session, settings: Mapping[str, TopicSettings]) -> None:
    topic = session.given.topic
    for broker, each in settings.items():
        await session.admin.create_topic(topic, each, broker=broker)
    session.finish(Report({"topic": topic}, [_settings_table(settings)]))


async def _wanted_masters(session: Session) -> list[str]:
    """Raises Failed if there is none."""
    cluster = session.given.cluster
    broker = await broker_name(session, session.given.broker)
    known = await session.admin.brokers(with_state=False)
    found = [
        each.broker_name
        for each in known
        if each.is_master and broker in (None, each.broker_name) and cluster in (None, each.cluster)
    ]
    if not found:
        clusters = ", ".join(sorted({each.cluster for each in known})) or "none"
        where = f"cluster {cluster!r}" if cluster else "the cluster"
        text = f"no master of {where} is registered; registered clusters: {clusters}"
        raise Failed(text, NOT_FOUND)
    return found


def _changed(settings: TopicSettings, given: Namespace) -> TopicSettings:
    """`settings` with the given changes."""
    read = given.read_queues or given.queues or settings.read_queue_count
    write = given.write_queues or given.queues or settings.write_queue_count
    permission = settings.permission
    if given.permission is not None:
        permission = _PERMISSIONS[given.permission]
    return replace(
        settings,
        read_queue_count=read,
        write_queue_count=write,
        permission=permission,
        is_ordered=settings.is_ordered if given.ordered is None else True,
        attributes=dict(settings.attributes) | dict(given.attribute),
    )


async def _delete(session: Session) -> int:
    given, admin = session.given, session.admin
    statistics, groups = await asyncio.gather(
        admin.topic_statistics(given.topic), admin.topic_groups(given.topic)
    )
    facts: dict[str, Fact] = {
        "topic": given.topic,
        "messages": statistics.message_count,
        "groups": len(groups),
    }
    session.finish(Report(facts))
    if is_confirmed(session, f"Delete topic {given.topic} with all its messages?"):
        await admin.delete_topic(given.topic, cluster=given.cluster)
        session.reporter.say("deleted")
    return DONE
