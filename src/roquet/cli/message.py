"""`roquet message`: send, find and follow messages."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Final

import msgspec

from roquet.cli.admin_commands.commands import Commands, Session, until_stopped
from roquet.cli.admin_commands.failures import DONE, MISUSED, NOT_FOUND, Failed
from roquet.cli.admin_commands.message_view import (
    matches,
    message_line,
    message_report,
    messages_report,
)
from roquet.cli.argument_types import moment, pair, queue_place, time_span, whole_number
from roquet.client.admin.follow import FollowFrom
from roquet.client.admin.message_texts import message_members
from roquet.client.admin.messages import TraceEvent
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from roquet.reporting import Fact, Report, ReportTable

_GROUP: Final = "roquet-cli"
_LAST_COUNT: Final = 10
_COUNT_DEFAULT: Final = 64
_encode = msgspec.json.Encoder().encode


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    _define_send(
        commands.add(
            "send",
            "Send messages: from an argument, a file, or the lines of standard input.",
            _send,
        )
    )
    _define_tail(
        commands.add("tail", "Show the last messages of a topic, and follow new ones.", _tail)
    )
    by_id = commands.add("by-id", "Show a message and what became of it in each group.", _by_id)
    by_id.add_argument("topic")
    by_id.add_argument("id", help="Message id or offset id.")
    by_key = commands.add(
        "by-key",
        "Find messages by a key; of a single one, what became of it in each group.",
        _by_key,
    )
    by_key.add_argument("topic")
    by_key.add_argument("key")
    _define_range(by_key)
    by_time = commands.add("by-time", "Find messages by the time they were stored.", _by_time)
    by_time.add_argument("topic")
    _define_range(by_time)
    by_offset = commands.add(
        "by-offset", "Show messages of a queue, starting at an offset.", _by_offset
    )
    by_offset.add_argument("topic")
    by_offset.add_argument("queue", type=queue_place, metavar="BROKER:QUEUE")
    by_offset.add_argument("offset", type=whole_number(0))
    by_offset.add_argument("--count", type=whole_number(1), default=1, help="Default: %(default)s.")
    trace = commands.add("trace", "Show the trace of a message, if its clients record one.", _trace)
    trace.add_argument("id")
    trace.add_argument("--trace-topic", metavar="TOPIC", help="Topic of the traces.")


def _define_send(parser: ArgumentParser) -> None:
    parser.add_argument("topic")
    bodies = parser.add_mutually_exclusive_group(required=True)
    bodies.add_argument("body", nargs="?", help="The text of the message.")
    bodies.add_argument("--file", type=Path, help="File with the body of the message.")
    bodies.add_argument(
        "--lines", action="store_true", help="Send each line of standard input as a message."
    )
    parser.add_argument("--tags")
    parser.add_argument("--key", action="append", default=[], help="Can be repeated.")
    parser.add_argument("--property", action="append", default=[], type=pair, metavar="NAME=VALUE")
    parser.add_argument("--count", type=whole_number(1), default=1, help="Send it this many times.")
    delay = parser.add_mutually_exclusive_group()
    delay.add_argument("--delay", type=time_span, metavar="SPAN", help="Such as 90s or 2h.")
    delay.add_argument("--delay-level", type=whole_number(1), metavar="N")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--queue", type=queue_place, metavar="BROKER:QUEUE")
    place.add_argument(
        "--order-key", metavar="TEXT", help="Messages with the same text go to one queue."
    )
    parser.add_argument("--group", default=_GROUP, help="The producer group; %(default)s.")
    parser.add_argument("--trace", action="store_true", help="Record a trace of the message.")


def _define_tail(parser: ArgumentParser) -> None:
    parser.add_argument("topic")
    parser.add_argument("-f", "--follow", action="store_true", help="Keep printing new messages.")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument(
        "--last",
        type=whole_number(0),
        default=_LAST_COUNT,
        metavar="N",
        help="Start with the last N of each queue. Default: %(default)s.",
    )
    begin.add_argument(
        "--since", type=moment, metavar="TIME", help="Start at this time, such as 10m (ago)."
    )
    begin.add_argument("--all", action="store_true", help="Start with the first message.")
    parser.add_argument("--count", type=whole_number(1), metavar="N", help="Exit after N messages.")
    filters = parser.add_mutually_exclusive_group()
    filters.add_argument("--tags", help='With one of these tags: "new || paid".')
    filters.add_argument("--sql", help="Matching this expression: \"price > 3 AND city = 'Rome'\".")
    parser.add_argument("--key", help="With this key.")
    parser.add_argument("--property", action="append", default=[], type=pair, metavar="NAME=VALUE")
    parser.add_argument("--grep", metavar="TEXT", help="With this text in the body.")


def _define_range(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="begin",
        type=moment,
        metavar="TIME",
        help="2026-11-15T20:16 (local time unless it has a zone), or 90m (ago).",
    )
    parser.add_argument("--to", dest="end", type=moment, metavar="TIME", help="Not included.")
    parser.add_argument(
        "--count",
        type=whole_number(1),
        default=_COUNT_DEFAULT,
        metavar="N",
        help="At most N, the oldest ones. Default: %(default)s.",
    )


async def _send(session: Session) -> int:
    given, access = session.given, session.access
    async with AsyncProducer(
        access.name_server,
        given.group,
        namespace=access.namespace,
        credentials=access.credentials,
        tls=access.tls,
        trace=given.trace,
    ) as producer:
        queue = None if given.queue is None else QueueRef(given.topic, *given.queue)
        receipts = []
        with session.reporter.late_progress("messages") as progress:
            for body in _bodies(session):
                message = Message(
                    given.topic, body, given.tags, tuple(given.key), dict(given.property)
                )
                receipt = await producer.send(
                    message,
                    queue=queue,
                    order_key=given.order_key,
                    delay=given.delay,
                    delay_level=given.delay_level,
                    timeout_s=access.timeout_s,
                )
                receipts.append(receipt)
                progress.advance()
    columns = ("message_id", "broker", "queue", "offset")
    rows = [
        (each.message_id, each.queue.broker_name, each.queue.queue_id, each.queue_offset)
        for each in receipts
    ]
    session.finish(Report({}, [ReportTable("sent", columns, rows)]))
    return DONE


def _bodies(session: Session) -> Iterator[bytes]:
    given = session.given
    if given.lines:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
        return
    if given.file is not None:
        try:
            body = given.file.read_bytes()
        except OSError as error:
            raise Failed(f"{given.file}: {error.strerror}", MISUSED) from None
    else:
        body = given.body.encode(errors="surrogateescape")
    for _ in range(given.count):
        yield body


async def _tail(session: Session) -> int:
    given = session.given
    statistics = await session.partial.topic_statistics(given.topic)
    ends = {each.queue: each.max_offset for each in statistics.queues}
    starts = {
        each.queue: max(each.min_offset, each.max_offset - given.last) for each in statistics.queues
    }
    start: FollowFrom = starts
    if given.all:
        start = StartFrom.FIRST
    elif given.since is not None:
        start = given.since
    if not given.follow:
        await _print_what_is_there(session, start, ends)
    else:
        await until_stopped(_print_all(session, start))
    return DONE


async def _print_what_is_there(
    session: Session, start: FollowFrom, ends: dict[QueueRef, int]
) -> None:
    """In the order in which they were stored, so all are read first."""
    given = session.given
    found: list[ReceivedMessage] = []
    messages = session.partial.follow(given.topic, start, ends=ends, tags=given.tags, sql=given.sql)
    with session.reporter.late_progress("messages") as progress:
        async with aclosing(messages):
            async for message in messages:
                progress.advance()
                if _is_wanted(session, message):
                    found.append(message)
    found.sort(key=lambda each: (each.stored, each.queue, each.queue_offset))
    is_window = given.since is None and not given.all
    if is_window:
        found = found[-given.last :] if given.last else []
    for message in found[: given.count]:
        _print(session, message)


async def _print_all(session: Session, start: FollowFrom) -> None:
    given = session.given
    count = 0
    messages = session.partial.follow(given.topic, start, tags=given.tags, sql=given.sql)
    async with aclosing(messages):
        async for message in messages:
            if _is_wanted(session, message):
                _print(session, message)
                count += 1
                if count == given.count:
                    return


def _is_wanted(session: Session, message: ReceivedMessage) -> bool:
    given = session.given
    return matches(message, key=given.key, properties=dict(given.property), text=given.grep)


def _print(session: Session, message: ReceivedMessage) -> None:
    """Flushes: a reader of the output sees it at once."""
    if session.given.json:
        print(_encode(message_members(message)).decode(), flush=True)
    else:
        print(message_line(message), flush=True)


async def _by_id(session: Session) -> int:
    message = await session.partial.message(session.given.topic, session.given.id)
    deliveries = await session.partial.deliveries(message)
    session.finish(message_report(message, deliveries, as_json=session.given.json))
    return DONE


async def _by_key(session: Session) -> int:
    given = session.given
    found = await session.partial.messages_by_key(
        given.topic, given.key, begin=given.begin, end=given.end, count_max=given.count
    )
    if len(found) != 1:
        return _show_found(session, found)
    deliveries = await session.partial.deliveries(found[0])
    session.finish(messages_report(found, deliveries, as_json=given.json))
    return DONE


async def _by_time(session: Session) -> int:
    given = session.given
    found = await session.partial.messages_between(
        given.topic, begin=given.begin, end=given.end, count_max=given.count
    )
    return _show_found(session, found)


async def _by_offset(session: Session) -> int:
    given = session.given
    found = await session.partial.messages_of_queue(
        QueueRef(given.topic, *given.queue), given.offset, count_max=given.count
    )
    return _show_found(session, found)


def _show_found(session: Session, found: list[ReceivedMessage]) -> int:
    session.finish(messages_report(found, as_json=session.given.json))
    if not found and not session.partial.missing:
        raise Failed("no message matches: check the topic and the time range", NOT_FOUND)
    return DONE


async def _trace(session: Session) -> int:
    given = session.given
    events = await session.partial.trace(given.id, topic=given.trace_topic)
    columns = ("time", "event", "group", "outcome", "took_ms", "client", "store_host", "retries")
    session.finish(Report({}, [ReportTable("trace", columns, list(map(_trace_row, events)))]))
    if not events and not session.partial.missing:
        raise Failed(
            "no trace found: clients record traces with trace=True, and brokers need"
            " traceTopicEnable=true",
            NOT_FOUND,
        )
    return DONE


def _trace_row(event: TraceEvent) -> tuple[Fact, ...]:
    took = event.duration
    return (
        event.time,
        event.event,
        event.group,
        event.outcome,
        None if took is None else round(took.total_seconds() * 1000),
        event.client,
        event.store_host,
        event.retry_count,
    )
