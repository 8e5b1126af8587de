"""`roquet dlq`: dead letters, the messages that a group failed to process too often."""

import asyncio
from argparse import ArgumentParser
from collections import Counter
from collections.abc import AsyncGenerator, Container
from contextlib import aclosing
from typing import Final

from roquet.cli.admin_commands.commands import Commands, Session, define_confirmation, is_confirmed
from roquet.cli.admin_commands.failures import DONE, NOT_FOUND, Failed
from roquet.cli.argument_types import moment, whole_number
from roquet.client.admin.dead_letters import LetterPlace, Resent, left_count
from roquet.client.admin.message_texts import body_text
from roquet.client.errors import NoBroker
from roquet.client.received import ReceivedMessage
from roquet.reporting import Fact, Report, ReportTable

_COUNT_DEFAULT: Final = 64
# Sent concurrently.
_PIECE_COUNT: Final = 64
_BODY_LENGTH_MAX: Final = 40

_MORE: Final = """\
Each is sent as a new message to its original topic, for all groups that consume
it. The dead letter is kept until it expires, and marked: it is not sent a second
time without --again.
"""


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    commands.add("list", "List groups that have dead letters.", _list)
    show = commands.add("show", "Show the dead letters of a group, with their last error.", _show)
    _define_selection(show, _COUNT_DEFAULT)
    resend = commands.add("resend", "Resend dead letters of a group.", _resend, _MORE)
    _define_selection(resend, None)
    resend.add_argument(
        "--id",
        action="append",
        default=[],
        metavar="ID",
        help="Only this message id; can be repeated.",
    )
    resend.add_argument("--topic", help="Only those of this original topic.")
    resend.add_argument("--rate", type=whole_number(1), metavar="N", help="At most N per second.")
    resend.add_argument("--again", action="store_true", help="Also those that were resent before.")
    define_confirmation(resend)


def _define_selection(parser: ArgumentParser, count_default: int | None) -> None:
    parser.add_argument("group")
    parser.add_argument(
        "--from", dest="begin", type=moment, metavar="TIME", help="Stored at this time or later."
    )
    parser.add_argument(
        "--to", dest="end", type=moment, metavar="TIME", help="Stored before this time."
    )
    parser.add_argument(
        "--count",
        type=whole_number(1),
        default=count_default,
        metavar="N",
        help=f"At most N. Default: {count_default or 'all'}.",
    )


async def _list(session: Session) -> int:
    counts = await session.partial.dead_letter_counts()
    if not counts and not await session.admin.brokers(with_state=False):
        raise NoBroker
    columns = ("group", "dead_letters", "not_resent", "last_stored")
    rows = [
        (
            group,
            each.message_count,
            left_count(each, await session.partial.resent(group)),
            each.last_stored,
        )
        for group, each in counts.items()
    ]
    session.finish(Report({}, [ReportTable("groups", columns, rows)]))
    return DONE


async def _show(session: Session) -> int:
    given = session.given
    found = await session.partial.dead_letters(
        given.group, begin=given.begin, end=given.end, count_max=given.count
    )
    if not found:
        # No dead letters is an answer; an unknown group is an error.
        await session.partial.progress(given.group)
    resent = await session.partial.resent(given.group)
    columns = (
        *("stored", "topic", "message_id", "tags", "keys", "tries", "error", "reason", "body"),
        *("resent", "resent_by", "new_id"),
    )
    rows = [_row(dead, resent.get(LetterPlace.of(dead))) for dead in found]
    session.finish(Report({}, [ReportTable("dead_letters", columns, rows)]))
    return DONE


def _row(dead: ReceivedMessage, resent: Resent | None) -> tuple[Fact, ...]:
    reason = dead.dlq_reason
    return (
        dead.stored,
        dead.topic,
        dead.message_id,
        dead.tags,
        " ".join(dead.keys) or None,
        None if reason is None else reason.try_count,
        None if reason is None else reason.error_type,
        None if reason is None else reason.reason,
        body_text(dead, _BODY_LENGTH_MAX),
        *((None,) * 3 if resent is None else (resent.when, resent.by, resent.message_id)),
    )


async def _resend(session: Session) -> int:
    given = session.given
    counts: Counter[str] = Counter()
    resent_count = 0
    resent = {} if given.again else await session.admin.resent(given.group)
    with session.reporter.late_progress("dead letters read") as progress:
        async with aclosing(_matching(session)) as matching:
            async for dead in matching:
                progress.advance()
                if LetterPlace.of(dead) in resent:
                    resent_count += 1
                    continue
                counts[dead.topic] += 1
                if counts.total() == given.count:
                    break
    if not counts:
        raise _nothing_to_send(given.group, resent_count)
    table = ReportTable("topics", ("topic", "dead_letters"), sorted(counts.items()))
    facts: dict[str, Fact] = {
        "group": given.group,
        "dead_letters": counts.total(),
        "resent_before": resent_count,
    }
    session.finish(Report(facts, [table]))
    if is_confirmed(session, f"Resend {counts.total()} messages?"):
        sent_count = await _send_again(session, counts.total(), resent)
        session.reporter.say(f"resent {sent_count} messages")
    return DONE


def _nothing_to_send(group: str, resent_count: int) -> Failed:
    if resent_count:
        return Failed(
            f"all {resent_count} matching dead letters of group {group!r} were resent before; see"
            f" when and by whom: roquet dlq show {group}; to send them once more add --again"
        )
    text = f"group {group!r} has no matching dead letters; see: roquet dlq list"
    return Failed(text, NOT_FOUND)


async def _matching(session: Session) -> AsyncGenerator[ReceivedMessage]:
    given = session.given
    found = session.admin.each_dead_letter(given.group, begin=given.begin, end=given.end)
    async with aclosing(found):
        async for dead in found:
            if given.id and dead.message_id not in given.id:
                continue
            if given.topic is not None and dead.topic != given.topic:
                continue
            yield dead


async def _send_again(session: Session, total: int, skipped: Container[LetterPlace]) -> int:
    """No more than were counted: later dead letters were not shown."""
    rate = session.given.rate
    piece_count = min(_PIECE_COUNT, rate or _PIECE_COUNT)
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    sent_count = 0
    piece: list[ReceivedMessage] = []

    async def send() -> None:
        nonlocal sent_count
        if rate is not None:
            await asyncio.sleep(begin_s + sent_count / rate - loop.time())
        await session.admin.resend(piece)
        sent_count += len(piece)
        progress.advance(len(piece))
        piece.clear()

    with session.reporter.late_progress("messages resent", total) as progress:
        async with aclosing(_matching(session)) as matching:
            async for dead in matching:
                if LetterPlace.of(dead) in skipped:
                    continue
                piece.append(dead)
                if len(piece) == piece_count:
                    await send()
                if sent_count + len(piece) == total:
                    break
        if piece:
            await send()
    return sent_count
