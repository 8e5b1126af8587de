"""`roquet store divergent`: messages that a displaced master alone had, shown and sent again."""

import asyncio
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from roquet.cli.admin_commands.access import access_of, define_access
from roquet.cli.admin_commands.failures import failure_of
from roquet.client.errors import ClientError, SendUnknown
from roquet.client.producer.outgoing import RESERVED_NAMES
from roquet.client.producer.producer import AsyncProducer
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.net.loop import run
from roquet.protocol.messages.message import Message, Property
from roquet.protocol.names import HALF_TOPIC
from roquet.reporting import Fact, Report, Reporter, ReportTable
from roquet.store.offline.divergent import (
    DivergentMessage,
    Unsent,
    note_outcomes,
    note_sending,
    read_divergent,
)

DESCRIPTION: Final = """\
Show messages that only a displaced master had, and send them again.

When a master was replaced and comes back, it cuts off what no other replica
has, and keeps it in divergent/. Each message is shown with its fate.
--resend sends those to their own topics that were not sent again before, as
new messages with the properties DIVERGENT_MESSAGE_ID and DIVERGENT_OFFSET_ID
of the old ones. Without --yes nothing is sent. Half messages stay: if their
transaction was committed here, the message that they became is sent again;
otherwise their producer has to decide, and to send it again.
"""
ORIGINAL_ID: Final = "DIVERGENT_MESSAGE_ID"
ORIGINAL_PLACE: Final = "DIVERGENT_OFFSET_ID"

_GROUP: Final = "roquet-admin"
_COLUMNS: Final = ("file", "offset", "topic", "keys", "stored", "message_id", "resent")
# Sent concurrently, and noted together.
_PIECE_COUNT: Final = 64
_INTERNAL: Final = "not a message of a program"
_HALF: Final = "half message: not sent again"
_UNKNOWN: Final = "unknown: interrupted"


def _fate(found: DivergentMessage) -> str | None:
    """The new id, or why there is none; None if it can be sent again."""
    if found.topic is None:
        return _HALF if found.message.topic == HALF_TOPIC else _INTERNAL
    return _UNKNOWN if found.new_id == "" else found.new_id


def define(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    parser.add_argument("--resend", action="store_true", help="Send them again: first a dry run.")
    parser.add_argument("--yes", action="store_true", help="With --resend: send.")
    parser.add_argument(
        "--again",
        action="store_true",
        help="With --resend: also those that were sent before, or may have been.",
    )
    define_access(parser)


def show(given: Namespace, stores: Sequence[Path]) -> int:
    """The exit code. Raises RoquetError and OSError."""
    contents = [read_divergent(SystemDisk(), root) for root in stores]
    found = [each for content in contents for each in content.messages]
    wanted = [each for each in found if _is_wanted(each, again=given.again)]
    reporter = Reporter("roquet store divergent", as_json=given.json)
    half_count = sum(each.message.topic == HALF_TOPIC for each in found)
    facts = {"messages": len(found), "to_resend": len(wanted), "half_messages": half_count}
    rows = list(map(_row, found))
    reporter.finish(Report(facts, [ReportTable("divergent", _COLUMNS, rows)]))
    for problem in (each for content in contents for each in content.problems):
        reporter.say(problem)
    if not given.resend or not wanted:
        return 1 if any(content.problems for content in contents) else 0
    if not given.yes:
        reporter.say(f"nothing was sent: {len(wanted)} messages would be; confirm with --yes")
        return 1
    return _resend(given, wanted, reporter)


def _is_wanted(found: DivergentMessage, *, again: bool) -> bool:
    return found.topic is not None and (again or found.new_id is None)


def _row(found: DivergentMessage) -> tuple[Fact, ...]:
    message = found.message
    return (
        found.file.path.name,
        message.physical_offset,
        found.topic or message.properties.get(Property.REAL_TOPIC) or message.topic,
        " ".join(message.keys) or None,
        datetime.fromtimestamp(message.store_timestamp / 1000, UTC),
        message.message_id,
        _fate(found),
    )


def _resend(given: Namespace, wanted: Sequence[DivergentMessage], reporter: Reporter) -> int:
    access = None
    try:
        access = access_of(given, os.environ)
        failed = run(
            _send_all(
                AsyncProducer(
                    access.name_server,
                    _GROUP,
                    credentials=access.credentials,
                    tls=access.tls,
                ),
                wanted,
            )
        )
    except ClientError as error:
        failure = failure_of(error, access)
        reporter.say(failure.text)
        return failure.exit_code
    for text in failed:
        reporter.say(text)
    reporter.say(f"resent {len(wanted) - len(failed)} of {len(wanted)} messages")
    return 1 if failed else 0


async def _send_all(producer: AsyncProducer, wanted: Sequence[DivergentMessage]) -> list[str]:
    """What failed."""
    failed = []
    async with producer:
        for start in range(0, len(wanted), _PIECE_COUNT):
            failed += await _send_piece(producer, wanted[start : start + _PIECE_COUNT])
    return failed


async def _send_piece(producer: AsyncProducer, piece: Sequence[DivergentMessage]) -> list[str]:
    note_sending(piece)
    outcomes = await asyncio.gather(*(_send(producer, each) for each in piece))
    note_outcomes(piece, [_noted(each) for each in outcomes])
    return [
        f"message at {each.message.physical_offset} of {each.file.path.name}: {outcome}"
        for each, outcome in zip(piece, outcomes, strict=True)
        if not isinstance(outcome, str)
    ]


def _noted(outcome: str | RoquetError) -> str | Unsent:
    if isinstance(outcome, str):
        return outcome
    return Unsent.MAYBE if isinstance(outcome, SendUnknown) else Unsent.SURELY


async def _send(producer: AsyncProducer, found: DivergentMessage) -> str | RoquetError:
    """The id of the new message, or the error."""
    level = found.message.properties.get(Property.DELAY, "")
    try:
        receipt = await producer.send(
            message_to_resend(found), delay_level=int(level) if level.isdigit() else None
        )
    except RoquetError as error:
        return error
    return receipt.message_id


def message_to_resend(found: DivergentMessage) -> Message:
    """As its producer sent it, with marks. Raises BadMessage for a body that cannot be unpacked."""
    message = found.message
    assert found.topic is not None, "brokers write it for themselves"
    properties = {
        name: value for name, value in message.properties.items() if name not in RESERVED_NAMES
    }
    marks = {ORIGINAL_ID: message.message_id, ORIGINAL_PLACE: message.offset_id}
    body = message.decompressed_body()
    return Message(found.topic, body, message.tags, message.keys, properties | marks, message.flag)
