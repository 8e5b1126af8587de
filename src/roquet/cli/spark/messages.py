"""`roquet spark export` and `replay`: selected messages, as files or sent again."""

import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.argument_types import whole_number
from roquet.cli.spark.arguments import (
    broker_options,
    define_brokers,
    define_cluster,
    define_selection,
    options_of,
    selection_of,
)
from roquet.cli.spark.running import JobCommand, session
from roquet.reporting import FINISHED, MISUSED, Fact, Report, Reporter, ReportTable

if TYPE_CHECKING:
    from pyspark.sql import Row

    from roquet.pipeline.jobs.replay import Origin, Preview, ReplayPlan

_EXPORT_DESCRIPTION: Final = """\
Export messages of topics or of a lake to files: Parquet, JSON lines or CSV.

The directory must not exist; it appears when all files are complete.
Messages sent meanwhile are not included.
"""

_REPLAY_DESCRIPTION: Final = """\
Replay messages of topics or of a lake to a topic. Without --yes nothing is sent.

With --dead-letters or --quarantine each message goes to its own topic, unless
--to names one.

A dry run shows what would be sent, and the command that sends exactly that.
Each message becomes one new message: to resume an interrupted replay, run it
again with the same --ending-offsets and so the same --write-id; it sends only
what is missing.
"""

_BODY_SHOWN: Final = 60


def _define_export(parser: ArgumentParser) -> None:
    define_brokers(parser)
    define_selection(parser)
    parser.add_argument(
        "--to", required=True, type=Path, metavar="DIR", help="Directory to create."
    )
    parser.add_argument(
        "--format",
        choices=("parquet", "json", "csv"),
        default="parquet",
        help="Format of the files.",
    )
    parser.add_argument(
        "--body",
        choices=("base64", "text"),
        help="Encoding of bodies in JSON and CSV; default: base64.",
    )
    parser.add_argument(
        "--columns", metavar="C,C", help="Only these columns of messages; default: all."
    )
    parser.add_argument(
        "--max-files", type=whole_number(1), metavar="N", help="Maximum number of files."
    )
    define_cluster(parser)


def _run_export(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.export import (  # noqa: PLC0415
        BodyForm,
        ExportPlan,
        FileFormat,
        check_export,
        export,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    if given.lake is not None and given.name_server is not None:
        reporter.fail("--lake contradicts --name-server: give only one", MISUSED)
    if given.body is not None and given.format == FileFormat.PARQUET:
        reporter.fail(
            "--body requires --format json or csv: Parquet keeps bodies as they are", MISUSED
        )
    plan = check_export(
        ExportPlan(
            selection=selection_of(reporter, given),
            directory=given.to,
            format=FileFormat(given.format),
            body=BodyForm(given.body or BodyForm.BASE64),
            columns=tuple(filter(None, (given.columns or "").split(","))),
            files_max=given.max_files,
        )
    )
    with session(reporter, given) as spark, reporter.progress("tasks") as progress:
        started_s = time.monotonic()
        with tasks_shown(spark, progress):
            report = export(spark, plan)
        elapsed_s = time.monotonic() - started_s
    reporter.finish(Report(report._asdict() | {"seconds": round(elapsed_s, 3)}))
    return FINISHED


def _define_replay(parser: ArgumentParser) -> None:
    define_brokers(parser)
    define_selection(parser)
    parser.add_argument("--to", metavar="TOPIC", help="Topic to send to.")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--dead-letters",
        action="store_true",
        help="Replay the dead letters of consumer groups; --to: default their original topics.",
    )
    kinds.add_argument(
        "--quarantine",
        action="store_true",
        help="Replay what --lake could not decode; --to: default their own topics.",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="With --dead-letters: only this group; can be repeated. Default: all.",
    )
    parser.add_argument(
        "--to-name-server",
        metavar="HOST:PORT",
        help="Name server of another cluster with this topic; same keys and TLS options.",
    )
    parser.add_argument(
        "--yes", action="store_true", help="Send the messages; without it, only show them."
    )
    parser.add_argument(
        "--rate", type=whole_number(1), metavar="N", help="Maximum number of messages per second."
    )
    parser.add_argument(
        "--write-id",
        metavar="ID",
        help="Identifies the replay, so that nothing is sent twice; default: derived.",
    )
    parser.add_argument(
        "--keep-order",
        action="store_true",
        help="Send messages of one queue to one queue, in order.",
    )
    define_cluster(parser)


def _run_replay(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.replay import (  # noqa: PLC0415
        Origin,
        ReplayPlan,
        check_replay,
        preview,
        replay,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    origin = _origin(reporter, given)
    if origin is Origin.DEAD_LETTERS:
        given.topics = _dead_letter_topics(given)
        if given.topics is None:
            reporter.finish(Report({"is_sent": False, "messages": 0}))
            return FINISHED
    plan = check_replay(
        ReplayPlan(
            selection=selection_of(reporter, given),
            target=_target(given),
            topic=given.to,
            origin=origin,
            rate=given.rate,
            write_id=given.write_id,
            keeps_order=given.keep_order,
        )
    )
    command = _sending_command(plan, sys.argv[1:])
    if given.yes:
        reporter.say(f"to resume after an interruption: {command}")
    with session(reporter, given) as spark, reporter.progress("tasks") as progress:
        started_s = time.monotonic()
        with tasks_shown(spark, progress):
            report = (
                _sent_report(replay(spark, plan)._asdict(), started_s)
                if given.yes
                else preview_report(preview(spark, plan), plan, command)
            )
    reporter.finish(report)
    return FINISHED


def _origin(reporter: Reporter, given: Namespace) -> "Origin":
    """Ends the command if its arguments contradict each other."""
    from roquet.pipeline.jobs.replay import Origin  # noqa: PLC0415

    names_topics = bool(given.topic or given.topics or given.topic_pattern)
    if given.group and not given.dead_letters:
        reporter.fail("--group requires --dead-letters", MISUSED)
    if given.dead_letters:
        if names_topics or given.lake is not None:
            reporter.fail("--dead-letters selects the topics of groups: give --group", MISUSED)
        return Origin.DEAD_LETTERS
    if given.quarantine:
        if given.lake is None:
            reporter.fail("--quarantine requires --lake", MISUSED)
        return Origin.QUARANTINE
    if given.to is None:
        reporter.fail("no topic to send to: give --to", MISUSED)
    return Origin.MESSAGES


def _dead_letter_topics(given: Namespace) -> str | None:
    """As an argument; None if there are none."""
    from roquet.pipeline.jobs.dlq_report import DlqPlan, dead_letter_topics  # noqa: PLC0415

    plan = DlqPlan(brokers=broker_options(given), groups=tuple(given.group))
    return ",".join(dead_letter_topics(plan)) or None


def _target(given: Namespace) -> dict[str, str]:
    """The other cluster takes the same credentials and TLS."""
    elsewhere = options_of(nameServer=given.to_name_server)
    return broker_options(given) | elsewhere


def _sent_report(facts: Mapping[str, Fact], started_s: float) -> Report:
    elapsed_s = time.monotonic() - started_s
    return Report({"is_sent": True, **facts, "seconds": round(elapsed_s, 3)})


def preview_report(found: "Preview", plan: "ReplayPlan", command: str) -> Report:
    stored = ("first_stored", "last_stored")
    return Report(
        {
            "is_sent": False,
            "messages": found.messages,
            "without_topic": found.without_topic,
            "topic": plan.topic,
            "write_id": plan.id,
            "command": command,
        },
        [
            ReportTable(
                "by_topic",
                ("to", "topic", "tags", "messages", *stored),
                [tuple(row) for row in found.by_topic],
            ),
            ReportTable(
                "first_messages",
                ("to", "stored", "topic", "queue", "offset", "tags", "keys", "body"),
                [_shown_row(row) for row in found.first_rows],
            ),
        ],
    )


def _shown_row(row: "Row") -> tuple[Fact, ...]:
    queue = f"{row.brokerName}@{row.queueId}"
    body = bytes(row.body)[:_BODY_SHOWN].decode(errors="replace")
    place = (row.storeTimestamp, row.topic, queue, row.queueOffset)
    return (row.target, *place, row.tags, row["keys"], body)


def _sending_command(plan: "ReplayPlan", arguments: list[str]) -> str:
    """The command as it was called, pinned to these end offsets and this id."""
    from roquet.pipeline.selection import ends_text  # noqa: PLC0415

    words = without_option(arguments, "--ending-offsets")
    words = without_option(words, "--write-id")
    words = [word for word in words if word != "--yes"]
    assert plan.selection.ends is not None
    words += ["--ending-offsets", ends_text(plan.selection.ends), "--write-id", plan.id, "--yes"]
    return shlex.join(["roquet", *words])


def without_option(words: list[str], name: str) -> list[str]:
    """Neither `--name value` nor `--name=value`."""
    kept: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word == name:
            is_value = True
        elif not word.startswith(f"{name}="):
            kept.append(word)
    return kept


COMMANDS: Final = {
    "export": JobCommand(_EXPORT_DESCRIPTION, _define_export, _run_export),
    "replay": JobCommand(_REPLAY_DESCRIPTION, _define_replay, _run_replay),
}
