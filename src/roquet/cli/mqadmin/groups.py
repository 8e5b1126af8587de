"""Commands of mqadmin about consumer groups and producers: settings, progress, members."""

from argparse import Namespace
from typing import Final

from roquet.cli.admin_commands.commands import Act, Session, broker_name
from roquet.cli.admin_commands.failures import DONE, NOT_FOUND, Failed
from roquet.cli.argument_types import whole_number
from roquet.cli.mqadmin.declaring import (
    BROKER,
    CLUSTER,
    THE_BROKER,
    TOPIC,
    Command,
    Flag,
    Words,
    java_moment,
    masters_where,
    of_each,
    option,
    own,
    truth,
    where,
)
from roquet.reporting import Report, ReportTable

_GROUP: Final = Flag("g", "groupName", is_required=True)
_CONSUMERS: Final = Flag("g", "consumerGroup", is_required=True)


def _update_group(given: Namespace) -> Words:
    states = {True: ["--enabled"], False: ["--disabled"], None: []}
    return [
        *("group", "create", given.groupName),
        *option("--retries", given.retryMaxTimes),
        *option("--retry-queues", given.retryQueueNums),
        *states[given.consumeEnable],
        *where(given),
    ]


def _progress(given: Namespace) -> Words:
    """The client that reads a queue, -s true, is always shown."""
    if given.groupName is None:
        return ["group", "list"]
    return ["group", "show", given.groupName, *option("--topic", given.topicName)]


def _status(given: Namespace) -> Words | Act:
    if not given.jstack:
        return ["group", "members", given.consumerGroup, *option("--member", given.clientId)]
    return ["group", "show", given.consumerGroup, "--stack"] if given.clientId is None else _stack


def _reset_target(text: str) -> Words:
    """Raises ArgumentTypeError."""
    ends = {"-1": ["--to-end"], "0": ["--to-start"]}
    return ends.get(text) or ["--to-time", java_moment(text).isoformat()]


def _seconds(text: str) -> float:
    """Raises ArgumentTypeError."""
    return whole_number(1)(text) / 1000


async def _stack(session: Session) -> int:
    given = session.given
    info = await session.partial.running_info(given.consumerGroup, given.clientId, with_stacks=True)
    if given.json:
        session.finish(Report({"client": given.clientId, "stack": info.stacks}))
    else:
        print(f"{given.clientId}\n{info.stacks or 'no stack: it did not report one'}")
    return DONE


async def _broker_progress(session: Session) -> int:
    given = session.given
    broker = await broker_name(session, given.brokerAddr)
    found = await session.admin.all_progress(broker=broker, ordered_only=given.order)
    rows = [
        (
            *(each.queue.topic, progress.group, each.queue.broker_name, each.queue.queue_id),
            *(each.broker_offset, each.consumer_offset, each.lag, each.last_taken),
        )
        for progress in found
        for each in progress.queues
        if (each.lag or 0) >= given.level
    ]
    columns = ("topic", "group", "broker", "queue", "end", "committed", "lag", "last_taken")
    total = sum(each.lag or 0 for progress in found for each in progress.queues)
    session.finish(Report({"lag": total}, [ReportTable("queues", columns, rows)]))
    return DONE


async def _settings(session: Session) -> int:
    """In full, under Apache's names."""
    group = session.given.groupName
    found = await of_each(
        session,
        await masters_where(session, None),
        lambda broker: session.admin.broker_tables(broker.address),
    )
    rows = [
        (broker.cluster, broker.broker_name, key, str(value))
        for broker, tables in found.answers
        for key, value in sorted(tables.groups.get(group, {}).items())
    ]
    if not rows:
        raise Failed(f"no broker has settings of group {group!r}", NOT_FOUND)
    columns = ("cluster", "broker", "key", "value")
    session.finish(Report({}, [ReportTable("settings", columns, rows)]))
    return found.exit_code


COMMANDS: Final = {
    "updateSubGroup": Command(
        "Create or change a group.",
        [
            _GROUP,
            BROKER,
            CLUSTER,
            Flag("s", "consumeEnable", kind=truth),
            Flag("r", "retryMaxTimes"),
            Flag("q", "retryQueueNums"),
        ],
        _update_group,
    ),
    "deleteSubGroup": Command(
        "Delete a group; its offsets are kept, unless -r true.",
        [_GROUP, BROKER, CLUSTER, Flag("r", "removeOffset", kind=truth)],
        lambda it: [
            *("group", "delete", it.groupName, "--yes"),
            *([] if it.removeOffset else ["--keep-offsets"]),
            *where(it),
        ],
    ),
    "getConsumerConfig": Command("Settings of a group.", [_GROUP], own(_settings)),
    "consumerProgress": Command(
        "Progress of consumer groups.",
        [
            Flag("g", "groupName"),
            Flag("t", "topicName"),
            Flag("s", "showClientIP", kind=truth),
        ],
        _progress,
    ),
    "brokerConsumeStats": Command(
        "Progress of all groups at a broker.",
        [
            THE_BROKER,
            Flag("l", "level", kind=whole_number(0), default=0),
            Flag("o", "order", kind=truth, default=False),
            Flag("t", "timeoutMillis", kind=_seconds, to="timeout"),
        ],
        own(_broker_progress),
    ),
    "consumerConnection": Command(
        "Connected members of a group.",
        [_CONSUMERS],
        lambda it: ["group", "members", it.consumerGroup],
    ),
    "consumerStatus": Command(
        "State of a member of a group; with -s the stacks of its threads.",
        [_CONSUMERS, Flag("i", "clientId"), Flag("s", "jstack", is_switch=True)],
        _status,
    ),
    "producer": Command(
        "Producers that are connected to a broker.",
        [Flag("b", "broker", is_required=True)],
        lambda it: ["producers", "--broker", it.broker],
    ),
    "producerConnection": Command(
        "Connected producers of a group.",
        [Flag("g", "producerGroup", is_required=True), TOPIC],
        lambda it: ["producers", "--group", it.producerGroup, "--topic", it.topic],
    ),
    "resetOffsetByTime": Command(
        "Reset the offsets of a group to a time.",
        [
            Flag("g", "group", is_required=True),
            TOPIC,
            Flag("s", "timestamp", is_required=True, kind=_reset_target),
        ],
        lambda it: ["offset", "reset", it.group, it.topic, *it.timestamp, "--yes"],
    ),
    "skipAccumulatedMessage": Command(
        "Skip all stored messages.",
        [Flag("g", "group", is_required=True), TOPIC],
        lambda it: ["offset", "skip", it.group, it.topic, "--yes"],
    ),
    "cloneGroupOffset": Command(
        "Set the offsets of a group to those of another one.",
        [
            Flag("s", "srcGroup", is_required=True),
            Flag("d", "destGroup", is_required=True),
            TOPIC,
        ],
        lambda it: ["offset", "clone", it.srcGroup, it.destGroup, it.topic, "--yes"],
    ),
}
