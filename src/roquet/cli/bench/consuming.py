"""`roquet bench consumer`."""

import asyncio
import random
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path

from roquet.cli.admin_commands.commands import Commands, Session
from roquet.cli.admin_commands.failures import DONE, MISUSED, Failed
from roquet.cli.argument_types import whole_number
from roquet.cli.bench.counting import Counts, Lines, Look, average, define_duration, rate
from roquet.cli.bench.producing import truth
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.outcome import RetryLater
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock


def share(text: str) -> float:
    """From 0 to 1. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 0.0 to 1.0")
    return number


def define_consumer(commands: Commands) -> None:
    parser = commands.add("consumer", "Consume as fast as possible.", _consume)
    _define_consumer(parser)
    define_duration(parser)


def _define_consumer(parser: ArgumentParser) -> None:
    """Apache's flags and defaults."""
    parser.add_argument("-t", "--topic", default="BenchmarkTest", help="%(default)s")
    parser.add_argument(
        "-w", "--threadCount", type=whole_number(1), default=20, metavar="N", help="%(default)s"
    )
    parser.add_argument("-g", "--group", default="benchmark_consumer", help="%(default)s")
    parser.add_argument(
        "-p",
        "--groupSuffixEnable",
        type=truth,
        default=True,
        metavar="true",
        help="Use a new group for each run.",
    )
    parser.add_argument("-f", "--filterType", choices=["TAG", "SQL92"])
    parser.add_argument(
        "-e", "--expression", type=Path, metavar="FILE", help="File with the filter expression."
    )
    parser.add_argument(
        "-r",
        "--failRate",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="Share of messages that fail; %(default)s",
    )
    parser.add_argument("-m", "--msgTraceEnable", type=truth, default=False, metavar="true")


async def _consume(session: Session) -> int:
    given, access = session.given, session.access
    counts, clock = Counts(), SystemClock()
    group = given.group
    if given.groupSuffixEnable:
        group = f"{group}_{clock.now_ms() % 100}"

    async def take(message: ReceivedMessage) -> None:
        now_ms = clock.now_ms()
        counts.add("messages")
        counts.took("since_born", now_ms - message.record.born_timestamp)
        counts.took("since_stored", now_ms - message.record.store_timestamp)
        if given.failRate and random.random() < given.failRate:  # noqa: S311
            counts.add("failed")
            raise RetryLater

    consumer = AsyncPushConsumer(
        access.name_server,
        group,
        take,
        namespace=access.namespace,
        credentials=access.credentials,
        tls=access.tls,
        concurrency=given.threadCount,
        trace=given.msgTraceEnable,
    )
    consumer.subscribe(given.topic, **_filter(session))
    session.reporter.say(f"group {group} consumes {given.topic}")
    async with consumer:
        lines = Lines(session, counts, _columns, "messages")
        await lines.print_while(asyncio.Event().wait())
    return DONE


def _filter(session: Session) -> Mapping[str, str]:
    given = session.given
    if given.filterType is None or given.expression is None:
        return {}
    try:
        expression = given.expression.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Failed(f"{given.expression}: {error.strerror}", MISUSED) from None
    return {"tags" if given.filterType == "TAG" else "sql": expression}


def _columns(begin: Look, end: Look, largest: Mapping[str, float]) -> Mapping[str, float | int]:
    return {
        "TPS": rate(begin, end, "messages"),
        "FAIL": int(end["failed"] - begin["failed"]),
        "AVG(B2C) RT(ms)": average(begin, end, "since_born", "messages"),
        "AVG(S2C) RT(ms)": average(begin, end, "since_stored", "messages"),
        "MAX(B2C) RT(ms)": round(largest.get("since_born", 0)),
        "MAX(S2C) RT(ms)": round(largest.get("since_stored", 0)),
    }
