"""Commands of mqadmin about messages: send, find, print and count them."""

from argparse import ArgumentTypeError, Namespace
from collections import Counter
from contextlib import aclosing
from datetime import datetime
from typing import Final

from roquet.cli.admin_commands.commands import Session, broker_name
from roquet.cli.admin_commands.failures import DONE, MISUSED, NOT_FOUND, Failed
from roquet.cli.admin_commands.message_view import messages_report
from roquet.cli.argument_types import whole_number
from roquet.cli.mqadmin.declaring import (
    TOPIC,
    Command,
    Flag,
    Words,
    java_moment,
    option,
    own,
    truth,
)
from roquet.client.admin.follow import FollowFrom
from roquet.client.group.start_offset import StartFrom
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.reporting import Fact, Report, ReportTable

_THE_MESSAGE: Final = Flag("i", "msgId", is_required=True)
_THE_QUEUE: Final = Flag("i", "queueId", is_required=True, kind=whole_number(0))
_BEGIN: Final = Flag("b", "beginTimestamp", kind=java_moment)
_END: Final = Flag("e", "endTimestamp", kind=java_moment)
_RANGE: Final = (_BEGIN, _END)
_ENTRY_COUNT: Final = 10


def _charset(text: str) -> str:
    """Raises ArgumentTypeError."""
    if text.upper() not in ("UTF-8", "UTF8"):
        raise ArgumentTypeError(f"{text!r} is not UTF-8; --json has bodies as base64, too")
    return text


def _range(given: Namespace) -> Words:
    begin: datetime | None = given.beginTimestamp
    end: datetime | None = given.endTimestamp
    return [
        *option("--from", begin and begin.isoformat()),
        *option("--to", end and end.isoformat()),
    ]


def _send(given: Namespace) -> Words:
    queue = [] if given.broker is None else ["--queue", f"{given.broker}:{given.qid or 0}"]
    return [
        *("message", "send", given.topic, given.body),
        *option("--tags", given.tags),
        *(word for key in (given.keys or "").split() for word in ("--key", key)),
        *queue,
        *(["--trace"] if given.msgTraceEnable else []),
    ]


async def _entries(session: Session) -> int:
    given, admin = session.given, session.admin
    broker = await broker_name(session, given.broker)
    if broker is None:
        # As Apache's: the first broker of the topic.
        broker = (await admin.topic_route(given.topic))[0].broker_name
    found = await admin.queue_entries(
        QueueRef(given.topic, broker, given.queue),
        given.index,
        count_max=given.count,
        group=given.consumer,
    )
    facts: dict[str, Fact] = {
        "broker": broker,
        "min_offset": found.min_offset,
        "max_offset": found.max_offset,
        "subscription": found.subscription,
        "remark": found.remark,
    }
    rows = [
        (given.index + number, each.physical_offset, each.size, each.tags_code)
        for number, each in enumerate(found.entries)
    ]
    columns = ("offset", "physical_offset", "size", "tags_code")
    session.finish(Report(facts, [ReportTable("entries", columns, rows)]))
    return DONE


async def _print_queue(session: Session) -> int:
    """The messages, their counts by tag, or both."""
    given = session.given
    queue = QueueRef(given.topic, given.brokerName, given.queueId)
    start = given.beginTimestamp or StartFrom.FIRST
    found = await _read(session, [queue], start, given.endTimestamp, given.subExpression)
    tables = []
    if given.printMsg:
        (table,) = messages_report(found, as_json=given.json).tables
        tables.append(table if given.printBody else _without_bodies(table))
    if given.calculate:
        counts = Counter(each.tags for each in found)
        tables.append(ReportTable("tags", ("tag", "messages"), counts.most_common()))
    session.finish(Report({"messages_read": len(found)}, tables))
    return DONE


def _without_bodies(table: ReportTable) -> ReportTable:
    kept = [at for at, name in enumerate(table.columns) if not name.startswith("body")]
    rows = [tuple(row[at] for at in kept) for row in table.rows]
    return ReportTable(table.name, [table.columns[at] for at in kept], rows)


async def _consume(session: Session) -> int:
    """Without a group: no offset is committed."""
    given = session.given
    if given.queueId is not None and given.brokerName is None:
        raise Failed("-i needs -b, the name of the broker that has the queue", MISUSED)
    if given.offset is not None and given.queueId is None:
        raise Failed("-o needs -b and -i, the queue that has the offset", MISUSED)
    start: FollowFrom = given.beginTimestamp or StartFrom.FIRST
    queues = None
    if given.brokerName is not None and given.queueId is not None:
        queue = QueueRef(given.topic, given.brokerName, given.queueId)
        queues = [queue]
        if given.offset is not None:
            start = {queue: given.offset}
    found = await _read(session, queues, start, given.endTimestamp, "*")
    if given.brokerName is not None:
        found = [each for each in found if each.queue.broker_name == given.brokerName]
    session.finish(messages_report(found[: given.MessageNumber], as_json=given.json))
    return DONE


async def _read(
    session: Session,
    queues: list[QueueRef] | None,
    start: FollowFrom,
    end: datetime | None,
    tags: str,
) -> list[ReceivedMessage]:
    """What is stored now, in the order it was stored. Raises Failed for a queue that is missing."""
    topic = session.given.topic
    statistics = await session.admin.topic_statistics(topic)
    ends = {each.queue: each.max_offset for each in statistics.queues}
    if queues is not None:
        if missing := [each for each in queues if each not in ends]:
            text = f"topic {topic!r} has no queue {missing[0].broker_name}:{missing[0].queue_id}"
            raise Failed(f"{text}; see: roquet topic show {topic}", NOT_FOUND)
        ends = {queue: ends[queue] for queue in queues}
    messages = session.admin.follow(topic, start, ends=ends, tags=tags)
    found = []
    with session.reporter.late_progress("messages") as progress:
        async with aclosing(messages):
            async for message in messages:
                progress.advance()
                if end is None or message.stored <= end:
                    found.append(message)
    return sorted(found, key=lambda each: (each.stored, each.queue, each.queue_offset))


COMMANDS: Final = {
    "sendMessage": Command(
        "Send a message.",
        [
            TOPIC,
            Flag("p", "body", is_required=True),
            Flag("k", "keys"),
            Flag("c", "tags"),
            Flag("b", "broker"),
            Flag("i", "qid"),
            Flag("m", "msgTraceEnable", kind=truth),
        ],
        _send,
    ),
    "queryMsgById": Command(
        "A message by its offset id.",
        [TOPIC, _THE_MESSAGE],
        lambda it: ["message", "by-id", it.topic, it.msgId],
    ),
    "queryMsgByUniqueKey": Command(
        "A message by its unique key, which is its message id.",
        [TOPIC, _THE_MESSAGE],
        lambda it: ["message", "by-id", it.topic, it.msgId],
    ),
    "queryMsgByKey": Command(
        "Messages by a key.",
        [TOPIC, Flag("k", "msgKey", is_required=True), *_RANGE, Flag("m", "maxNum")],
        lambda it: [
            *("message", "by-key", it.topic, it.msgKey),
            *_range(it),
            *option("--count", it.maxNum),
        ],
    ),
    "queryMsgByOffset": Command(
        "A message by its queue offset.",
        [
            TOPIC,
            Flag("b", "brokerName", is_required=True),
            _THE_QUEUE,
            Flag("o", "offset", is_required=True),
        ],
        lambda it: [
            *("message", "by-offset", it.topic, f"{it.brokerName}:{it.queueId}", it.offset)
        ],
    ),
    "queryCq": Command(
        "Entries of a consume queue, and the subscription of a group.",
        [
            TOPIC,
            Flag("q", "queue", is_required=True, kind=whole_number(0)),
            Flag("i", "index", is_required=True, kind=whole_number(0)),
            Flag("c", "count", kind=whole_number(1), default=_ENTRY_COUNT),
            Flag("b", "broker"),
            Flag("g", "consumer"),
        ],
        own(_entries),
    ),
    "printMsg": Command(
        "Messages by the time they were stored.",
        [TOPIC, *_RANGE],
        lambda it: ["message", "by-time", it.topic, *_range(it)],
    ),
    "printMsgByQueue": Command(
        "Messages of a queue with -p true, their bodies with -d true, counts by tag with -f true.",
        [
            TOPIC,
            Flag("a", "brokerName", is_required=True),
            _THE_QUEUE,
            *_RANGE,
            Flag("s", "subExpression", default="*"),
            Flag("p", "printMsg", kind=truth),
            Flag("d", "printBody", kind=truth),
            Flag("f", "calculate", kind=truth),
            Flag("c", "charsetName", kind=_charset),
        ],
        own(_print_queue),
    ),
    "consumeMessage": Command(
        "Stored messages of a topic, a broker or a queue; no offset is committed.",
        [
            TOPIC,
            Flag("b", "brokerName"),
            Flag("i", "queueId", kind=whole_number(0)),
            Flag("o", "offset", kind=whole_number(0)),
            Flag("c", "MessageNumber", kind=whole_number(1)),
            Flag("s", "beginTimestamp", kind=java_moment),
            _END,
        ],
        own(_consume),
    ),
    "queryMsgTraceById": Command(
        "Trace of a message.",
        [_THE_MESSAGE, Flag("t", "traceTopic")],
        lambda it: ["message", "trace", it.msgId, *option("--trace-topic", it.traceTopic)],
    ),
}
