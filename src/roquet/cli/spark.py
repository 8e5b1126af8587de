"""`roquet spark`: the jobs of the data pipeline."""

import logging
import signal
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from roquet.cli.numbers import whole_number
from roquet.cli.spark_cluster import define_cluster, define_package, spark_settings
from roquet.errors import RoquetError

if TYPE_CHECKING:
    from roquet.pipeline.jobs.ingest import IngestReport
    from roquet.pipeline.lake.entries import Entry

_MISUSED: Final = 2
_INTERRUPTED: Final = 130  # as shells have it
_INGEST: Final = """\
Put the messages of topics into a directory of Parquet files, each of them once.

Files lie in topic=/dt=/hour= by the time they were stored (UTC), for any
reader. It may be killed and started again, with other options, or with a
checkpoint that was lost: what the lake has is not added again.
"""


def define(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    ingest = commands.add_parser(
        "ingest",
        help=_INGEST.partition("\n")[0],
        description=_INGEST,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _define_source(ingest)
    _define_lake(ingest)
    ingest.set_defaults(run=_ingest)
    define_package(commands)


def _define_source(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--name-server",
        required=True,
        metavar="HOST:PORT",
        help="A name server; several are joined by semicolons.",
    )
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", help="The topic.")
    topics.add_argument("--topics", metavar="T,T", help="Several topics.")
    topics.add_argument(
        "--topic-pattern", metavar="REGEX", help="All topics whose whole name matches."
    )
    parser.add_argument(
        "--group", help="A consumer group whose offsets follow what is in the lake."
    )
    parser.add_argument(
        "--starting-offsets",
        metavar="WHERE",
        help="earliest (if left out), latest, group, or JSON of offsets.",
    )
    parser.add_argument("--tags", metavar="EXPRESSION", help="Only these: 'new || paid'.")
    parser.add_argument(
        "--properties",
        choices=("none", "string", "map"),
        help="How properties are kept; map for a new lake if left out.",
    )
    parser.add_argument(
        "--max-offsets-per-trigger",
        type=whole_number(1),
        metavar="N",
        help="The most messages of a micro-batch.",
    )
    parser.add_argument(
        "--ignore-data-loss",
        action="store_true",
        help="Go on when messages are gone, or a topic was deleted and made again.",
    )


def _define_lake(parser: ArgumentParser) -> None:
    parser.add_argument("--lake", required=True, type=Path, metavar="DIR", help="Where files go.")
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=Path,
        metavar="DIR",
        help="Where Spark keeps how far it is.",
    )
    parser.add_argument(
        "--format", choices=("parquet",), default="parquet", help="What the files are."
    )
    parser.add_argument(
        "--available-now",
        action="store_true",
        help="End when everything is there that was sent before; else go on until interrupted.",
    )
    parser.add_argument(
        "--interval", metavar="TIME", help="How often to look for more, such as '10 seconds'."
    )
    define_cluster(parser)
    parser.add_argument("--json", action="store_true", help="Print one JSON object at the end.")


def _ingest(given: Namespace) -> int:
    if given.interval and given.available_now:
        _fail("--interval contradicts --available-now: give one of them", _MISUSED)
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        _fail("Spark is not installed: pip install roquet[spark]", 1)
    logging.basicConfig(format="roquet spark ingest: %(message)s", level=logging.WARNING)
    try:
        report, elapsed_s = _run_ingest(given)
    except RoquetError as error:
        _fail("; ".join([str(error), *getattr(error, "__notes__", ())]), 1)
    if given.json:
        print(msgspec.json.encode(report._asdict() | {"seconds": round(elapsed_s, 3)}).decode())
    else:
        print(
            f"{report.messages} messages in {report.files} files, {report.bytes} bytes,"
            f" {report.batches} batches, {elapsed_s:.1f} s;"
            f" the lake has {report.lake_messages} messages in {report.lake_files} files"
        )
    return 0 if report.is_complete or not given.available_now else _INTERRUPTED


def _run_ingest(given: Namespace) -> "tuple[IngestReport, float]":
    from roquet.pipeline.jobs.ingest import (  # noqa: PLC0415
        IngestPlan,
        check_cluster,
        check_plan,
        ingest,
    )
    from roquet.pipeline.jobs.session import spark_session  # noqa: PLC0415

    plan = IngestPlan(
        source=_source_options(given),
        lake=given.lake,
        checkpoint=given.checkpoint,
        available_now=given.available_now,
        interval=given.interval,
    )
    check_plan(plan)
    check_cluster(plan)
    _say(f"starting Spark on {given.master}, which takes some seconds ...")
    with spark_session(
        "roquet ingest", given.master, given.archive, spark_settings(given)
    ) as spark:
        _say("Spark runs; reading")
        started_s = time.monotonic()
        with _stopped_by_signals() as stop:
            report = ingest(spark, plan, _tell_of, stop)
        return report, time.monotonic() - started_s


@contextmanager
def _stopped_by_signals() -> Iterator[Event]:
    """Set by the first signal that ends a process; the second one does not wait."""
    stop = Event()

    def handle(number: int, frame: object) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        _say("ending with what is published ...")

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _source_options(given: Namespace) -> dict[str, str]:
    """By the names that format `rocketmq` has for them."""
    options = {
        "nameServer": given.name_server,
        "topic": given.topic,
        "topics": given.topics,
        "topicPattern": given.topic_pattern,
        "groupId": given.group,
        "startingOffsets": given.starting_offsets,
        "tagExpression": given.tags,
        "properties": given.properties,
        "maxOffsetsPerTrigger": given.max_offsets_per_trigger,
        "failOnDataLoss": "false" if given.ignore_data_loss else None,
    }
    return {name: str(value) for name, value in options.items() if value is not None}


def _tell_of(entry: "Entry") -> None:
    rows = sum(piece.rows for piece in entry.added)
    files = sum(bool(piece.path) for piece in entry.added)
    _say(f"published {rows} messages in {files} files")


def _say(text: str) -> None:
    """What is waited for, to whoever waits."""
    print(f"roquet spark ingest: {text}", file=sys.stderr, flush=True)


def _fail(reason: str, exit_code: int) -> NoReturn:
    _say(reason)
    sys.exit(exit_code)
