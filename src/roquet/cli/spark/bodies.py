"""`roquet spark drift` and `reprocess`: bodies of a lake that its columns do not fit."""

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from roquet.cli.spark.arguments import (
    body_options,
    define_bodies,
    define_cluster,
    define_lake,
    given_place,
)
from roquet.cli.spark.running import JobCommand, session
from roquet.reporting import FINISHED, Report, Reporter, ReportTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roquet.pipeline.lake.schemas.drift import DriftRow

_LAKE: Final = "The lake: a directory or s3://bucket/prefix."
_DRIFT_DESCRIPTION: Final = """\
Report where the bodies of a lake differ from its columns.

By topic: messages in the quarantine by field and reason, fields that have no
column, and columns that no body has; with counts, and the first of them.
"""

_REPROCESS_DESCRIPTION: Final = """\
Read the quarantine of a lake again, by the schema that the lake has now.

Messages that can be decoded leave the quarantine and are added to the lake,
each once. The job can be killed and restarted, beside running jobs.
"""

_DRIFT_COLUMNS: Final = (
    "topic",
    "problem",
    "field",
    "detail",
    "messages",
    "first_stored",
    "example",
)


def _define_drift(parser: ArgumentParser) -> None:
    define_lake(parser, _LAKE, required=True)
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        help="Only this topic; can be repeated. Default: all topics of the lake.",
    )
    define_cluster(parser)


def _run_drift(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.drift import DriftPlan, check_drift, drift  # noqa: PLC0415
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    plan = DriftPlan(lake=given_place(given), topics=tuple(given.topic))
    check_drift(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("tasks") as progress,
        tasks_shown(spark, progress),
    ):
        found = drift(spark, plan)
    facts = {"messages": found.messages, "left_out": found.left_out}
    reporter.finish(Report(facts, [drift_table(found.rows)]))
    return FINISHED


def drift_table(rows: "Sequence[DriftRow]") -> ReportTable:
    return ReportTable("drift", _DRIFT_COLUMNS, rows)


def _define_reprocess(parser: ArgumentParser) -> None:
    define_lake(parser, _LAKE, required=True)
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        help="Only this topic; can be repeated. Default: all topics of the lake.",
    )
    define_bodies(parser)
    define_cluster(parser)


def _run_reprocess(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.reprocess import (  # noqa: PLC0415
        ReprocessPlan,
        check_reprocess,
        reprocess,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    plan = ReprocessPlan(
        lake=given_place(given), topics=tuple(given.topic), bodies=body_options(given)
    )
    check_reprocess(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("tasks") as progress,
        tasks_shown(spark, progress),
    ):
        started_s = time.monotonic()
        found = reprocess(spark, plan)
        elapsed_s = time.monotonic() - started_s
    reporter.finish(Report(found._asdict() | {"seconds": round(elapsed_s, 3)}))
    return FINISHED


COMMANDS: Final = {
    "drift": JobCommand(_DRIFT_DESCRIPTION, _define_drift, _run_drift),
    "reprocess": JobCommand(_REPROCESS_DESCRIPTION, _define_reprocess, _run_reprocess),
}
