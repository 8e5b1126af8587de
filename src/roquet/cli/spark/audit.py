"""`roquet spark audit`: what was sent against what arrived."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.numbers import whole_number
from roquet.cli.spark.arguments import define_cluster, define_json, moment
from roquet.cli.spark.brokers import broker_options, define_brokers
from roquet.cli.spark.running import run_job, session
from roquet.reporting import FAILED, FINISHED, MISUSED, Report, Reporter, ReportTable

if TYPE_CHECKING:
    from roquet.pipeline.jobs.audit import AuditPlan, Side

DESCRIPTION: Final = """\
Compare what was sent with what was received and with a lake.

What was sent is a topic, or Parquet files of ids; what was received is a
topic, Parquet files, or what a group has passed. It counts what is missing,
there more often than sent, there without having been sent, and out of
order among messages of one key; the exit code is 1 if there is any.
"""

_EXAMPLES: Final = 10


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    sent = parser.add_mutually_exclusive_group(required=True)
    sent.add_argument("--topic", help="The topic that was sent to.")
    sent.add_argument("--sent", type=Path, metavar="PATH", help="Parquet files of what was sent.")
    received = parser.add_mutually_exclusive_group()
    received.add_argument("--received-topic", metavar="TOPIC", help="What was received lies there.")
    received.add_argument(
        "--received", type=Path, metavar="PATH", help="Parquet files of what was received."
    )
    parser.add_argument("--group", help="What this group has passed of --topic.")
    parser.add_argument("--lake", type=Path, metavar="DIR", help="What this lake has.")
    parser.add_argument(
        "--start", type=moment, metavar="TIME", help="Sent to --topic then or later."
    )
    parser.add_argument("--end", type=moment, metavar="TIME", help="Sent to --topic before.")
    for side in ("sent", "received"):
        parser.add_argument(
            f"--{side}-id", metavar="SQL", help=f"The id in what was {side}: a column, or SQL."
        )
        parser.add_argument(
            f"--{side}-key", metavar="SQL", help="Messages with the same one are in order."
        )
        parser.add_argument(
            f"--{side}-order", metavar="SQL", help="What grows in that order; topics have it."
        )
    parser.add_argument(
        "--examples",
        type=whole_number(0),
        default=_EXAMPLES,
        metavar="N",
        help="Name so many of each problem.",
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("audit", given, lambda it: _audit(it, given)))


def _audit(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.audit import (  # noqa: PLC0415
        Example,
        SideReport,
        audit,
        check_audit,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    _check_obeyed(reporter, given)
    plan = _plan(given)
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


def _check_obeyed(reporter: Reporter, given: Namespace) -> None:
    """Nothing is asked for in vain."""
    if given.topic is None and (given.start or given.end):
        reporter.fail(
            "--start and --end need --topic: files do not say when they were sent", MISUSED
        )
    if not (given.received_topic or given.received):
        for what in ("id", "key", "order"):
            if getattr(given, f"received_{what}"):
                reporter.fail(f"--received-{what} needs --received-topic or --received", MISUSED)


def _plan(given: Namespace) -> "AuditPlan":
    from roquet.pipeline.jobs.audit import AuditPlan  # noqa: PLC0415

    received = None
    if given.received_topic or given.received:
        received = _side(given, given.received_topic, given.received, "received")
    return AuditPlan(
        sent=_side(given, given.topic, given.sent, "sent"),
        received=received,
        group=given.group,
        lake=given.lake,
        examples=given.examples,
    )


def _side(given: Namespace, topic: str | None, files: Path | None, name: str) -> "Side":
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
