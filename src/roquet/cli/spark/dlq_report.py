"""`roquet spark dlq-report`: what groups gave up on."""

from argparse import ArgumentParser, Namespace
from typing import Final

from roquet.cli.numbers import whole_number
from roquet.cli.spark.arguments import define_cluster, define_json, moment
from roquet.cli.spark.brokers import broker_options, define_brokers
from roquet.cli.spark.running import run_job, session
from roquet.reporting import FINISHED, Report, Reporter, ReportTable

DESCRIPTION: Final = """\
Sum up the dead letters of consumer groups: how many, why, from where, which keys.

Reasons are known of consumers that write them down, as ours do.
"""

_TABLES: Final = {
    "groups": ("group", "messages", "first", "last", "tries_max", "topics"),
    "reasons": ("group", "reason", "error", "messages"),
    "topics": ("group", "topic", "messages"),
    "keys": ("group", "key", "messages"),
    "last": ("given_up", "group", "topic", "id", "origin_id", "tags", "keys", "tries", "reason"),
}
_TOP: Final = 10


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="Of this group; may be repeated. Of all that have some if left out.",
    )
    parser.add_argument("--start", type=moment, metavar="TIME", help="Given up then or later.")
    parser.add_argument("--end", type=moment, metavar="TIME", help="Given up before.")
    parser.add_argument(
        "--top", type=whole_number(1), default=_TOP, metavar="N", help="Show so many of each."
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("dlq-report", given, lambda it: _run(it, given)))


def _run(reporter: Reporter, given: Namespace) -> int:
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
            Report({"messages": 0}, [ReportTable(*each, ()) for each in _TABLES.items()])
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
                for name, columns in _TABLES.items()
            ],
        )
    )
    return FINISHED
