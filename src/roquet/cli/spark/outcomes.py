"""`roquet spark dlq-report` and `audit`: what became of messages."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.argument_types import whole_number
from roquet.cli.spark.arguments import (
    broker_options,
    define_brokers,
    define_cluster,
    define_lake,
    moment,
    place_of,
)
from roquet.cli.spark.running import JobCommand, session
from roquet.reporting import FAILED, FINISHED, MISUSED, Report, Reporter, ReportTable

if TYPE_CHECKING:
    from roquet.pipeline.jobs.audit import AuditPlan, Side

_DLQ_REPORT_DESCRIPTION: Final = """\
Summarize the dead letters of consumer groups: counts, reasons, topics and keys.

Reasons are known for consumers that record them, as Roquet's do.
"""

_DLQ_TABLES: Final = {
    "groups": ("group", "messages", "first", "last", "tries_max", "topics"),
    "reasons": ("group", "reason", "error", "messages"),
    "topics": ("group", "topic", "messages"),
    "keys": ("group", "key", "messages"),
    "last": ("given_up", "group", "topic", "id", "origin_id", "tags", "keys", "tries", "reason"),
}
_TOP_DEFAULT: Final = 10

_AUDIT_DESCRIPTION: Final = """\
Compare the messages sent with those received, and with a lake.

Sent messages are a topic, or Parquet files of ids; received messages are a
topic, Parquet files, or the committed offsets of a group. Missing, duplicate
and unexpected messages are counted, and those out of order within one key;
the exit code is 1 if there are any.
"""

_EXAMPLES_DEFAULT: Final = 10


def _define_dlq_report(parser: ArgumentParser) -> None:
    define_brokers(parser)
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="Only this group; can be repeated. Default: all groups with dead letters.",
    )
    parser.add_argument(
        "--start", type=moment, metavar="TIME", help="Dead-lettered at or after this time."
    )
    parser.add_argument(
        "--end", type=moment, metavar="TIME", help="Dead-lettered before this time."
    )
    parser.add_argument(
        "--top",
        type=whole_number(1),
        default=_TOP_DEFAULT,
        metavar="N",
        help="Number of rows of each table.",
    )
    define_cluster(parser)


def _run_dlq_report(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.dlq_report import (  # noqa: PLC0415
        DlqPlan,
        dead_letter_topics,
        dlq_report,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    plan = DlqPlan(
        brokers=broker_options(given),
        groups=tuple(given.group),
        start=given.start,
        end=given.end,
        top=given.top,
    )
    topics = dead_letter_topics(plan)
    if not topics:
        reporter.finish(
            Report({"messages": 0}, [ReportTable(*each, ()) for each in _DLQ_TABLES.items()])
        )
        return FINISHED
    with (
        session(reporter, given) as spark,
        reporter.progress("tasks") as progress,
        tasks_shown(spark, progress),
    ):
        found = dlq_report(spark, plan, topics)
    reporter.finish(
        Report(
            {"messages": found.messages},
            [
                ReportTable(name, columns, [tuple(row) for row in getattr(found, name)])
                for name, columns in _DLQ_TABLES.items()
            ],
        )
    )
    return FINISHED


def _define_audit(parser: ArgumentParser) -> None:
    define_brokers(parser)
    sent = parser.add_mutually_exclusive_group(required=True)
    sent.add_argument("--topic", help="Topic of the sent messages.")
    sent.add_argument(
        "--sent", type=Path, metavar="PATH", help="Parquet files of the sent messages."
    )
    received = parser.add_mutually_exclusive_group()
    received.add_argument(
        "--received-topic", metavar="TOPIC", help="Topic of the received messages."
    )
    received.add_argument(
        "--received", type=Path, metavar="PATH", help="Parquet files of the received messages."
    )
    parser.add_argument(
        "--group", help="Compare with the offsets that this group has committed for --topic."
    )
    define_lake(parser, "Compare with this lake: a directory or s3://.")
    parser.add_argument(
        "--start", type=moment, metavar="TIME", help="Stored in --topic at or after this time."
    )
    parser.add_argument(
        "--end", type=moment, metavar="TIME", help="Stored in --topic before this time."
    )
    for side in ("sent", "received"):
        parser.add_argument(
            f"--{side}-id", metavar="SQL", help=f"Id of {side} messages: a column, or SQL."
        )
        parser.add_argument(
            f"--{side}-key",
            metavar="SQL",
            help=f"Key of {side} messages: order is checked within one key.",
        )
        parser.add_argument(
            f"--{side}-order",
            metavar="SQL",
            help=f"Position of {side} messages in their order; topics have it.",
        )
    parser.add_argument(
        "--examples",
        type=whole_number(0),
        default=_EXAMPLES_DEFAULT,
        metavar="N",
        help="Number of examples of each problem.",
    )
    define_cluster(parser)


def _run_audit(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.audit import (  # noqa: PLC0415
        Example,
        SideReport,
        audit,
        check_audit,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    _check_audit_arguments(reporter, given)
    plan = _audit_plan(given)
    pairs = check_audit(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("tasks") as progress,
        tasks_shown(spark, progress),
    ):
        found = audit(spark, pairs, plan.examples)
    reporter.finish(
        Report(
            {"is_right": found.is_right},
            [
                ReportTable("sides", SideReport._fields, found.sides),
                ReportTable("examples", Example._fields, found.examples),
            ],
        )
    )
    return FINISHED if found.is_right else FAILED


def _check_audit_arguments(reporter: Reporter, given: Namespace) -> None:
    """No argument is ignored silently."""
    if given.topic is None and (given.start or given.end):
        reporter.fail("--start and --end require --topic: files have no store time", MISUSED)
    if not (given.received_topic or given.received):
        for what in ("id", "key", "order"):
            if getattr(given, f"received_{what}"):
                reporter.fail(f"--received-{what} requires --received-topic or --received", MISUSED)


def _audit_plan(given: Namespace) -> "AuditPlan":
    from roquet.pipeline.jobs.audit import AuditPlan  # noqa: PLC0415

    received = None
    if given.received_topic or given.received:
        received = _audit_side(given, given.received_topic, given.received, "received")
    return AuditPlan(
        sent=_audit_side(given, given.topic, given.sent, "sent"),
        received=received,
        group=given.group,
        lake=place_of(given),
        examples=given.examples,
    )


def _audit_side(given: Namespace, topic: str | None, files: Path | None, name: str) -> "Side":
    from roquet.pipeline.jobs.audit import ID_DEFAULT, Side, topic_side  # noqa: PLC0415
    from roquet.pipeline.selection import Selection  # noqa: PLC0415

    id_sql, key, order = (getattr(given, f"{name}_{what}") for what in ("id", "key", "order"))
    if topic is None:
        return Side(files=files, id=id_sql or "msgId", key=key, order=order)
    is_sent = name == "sent"
    selection = Selection(
        source=broker_options(given) | {"topic": topic},
        start=given.start if is_sent else None,
        end=given.end if is_sent else None,
    )
    side = topic_side(selection, id_sql or ID_DEFAULT)
    return Side(selection=selection, id=side.id, key=key or side.key, order=order or side.order)


COMMANDS: Final = {
    "dlq-report": JobCommand(_DLQ_REPORT_DESCRIPTION, _define_dlq_report, _run_dlq_report),
    "audit": JobCommand(_AUDIT_DESCRIPTION, _define_audit, _run_audit),
}
