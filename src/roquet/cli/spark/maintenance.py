"""`roquet spark compact` and `forget`: the files of a lake are written again."""

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from roquet.cli.spark.arguments import (
    define_cluster,
    define_lake,
    given_place,
    size,
    time_span,
)
from roquet.cli.spark.running import JobCommand, session, stopped_by_signals
from roquet.reporting import FAILED, FINISHED, INTERRUPTED, Report, Reporter, ReportTable

if TYPE_CHECKING:
    from roquet.pipeline.lake.entries import LakeEntry

_LAKE: Final = "The lake: a directory or s3://bucket/prefix."
_COMPACT_DESCRIPTION: Final = """\
Compact the small files of a lake into larger ones, for hours that are over.

Messages do not change, and concurrent readers see each of them once. The job
can be killed and restarted.
"""

_FORGET_DESCRIPTION: Final = """\
Remove all rows of a key from a lake, with the files that had them.

The rows leave the messages, the quarantine and the newest rows (--latest-by).
Files are rewritten, older versions expire, and all files that are left are read
again: the report has what was found there. Exit code 1 if a file still has
such rows. The job can be killed and restarted, beside running jobs.
"""


def _define_compact(parser: ArgumentParser) -> None:
    define_lake(parser, _LAKE, required=True)
    parser.add_argument(
        "--target-size",
        type=size,
        metavar="SIZE",
        help="Maximum size of a compacted file, such as 64m; default: 256m.",
    )
    parser.add_argument(
        "--grace",
        type=time_span,
        metavar="TIME",
        help="Time after the end of an hour before it is compacted, such as 2h; default: 10m.",
    )
    parser.add_argument(
        "--expire",
        type=time_span,
        metavar="AGE",
        help="Of a table: remove files that were compacted longer ago, such as 7d.",
    )
    parser.add_argument(
        "--orphans",
        type=time_span,
        metavar="AGE",
        help="Of a table: remove older files that killed jobs left behind, such as 1d.",
    )
    define_cluster(parser)


def _run_compact(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.compact import (  # noqa: PLC0415
        GRACE_DEFAULT,
        TARGET_SIZE_DEFAULT,
        CompactPlan,
        check_compact,
        compact,
    )

    plan = CompactPlan(
        lake=given_place(given),
        target_size=given.target_size or TARGET_SIZE_DEFAULT,
        grace=GRACE_DEFAULT if given.grace is None else given.grace,
        expire=given.expire,
        orphans=given.orphans,
    )
    check_compact(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("files") as progress,
        stopped_by_signals(reporter, "stopping after the files compacted so far ...") as stop,
    ):
        progress.show(0)
        started_s = time.monotonic()
        done = 0

        def show(entry: "LakeEntry", wanted: int) -> None:
            nonlocal done
            done += sum(len(compaction.removed) for compaction in entry.compacted)
            progress.show(done, wanted)

        report = compact(spark, plan, show, stop)
        elapsed_s = time.monotonic() - started_s
    reporter.finish(Report(report._asdict() | {"seconds": round(elapsed_s, 3)}))
    return FINISHED if report.is_complete else INTERRUPTED


def _define_forget(parser: ArgumentParser) -> None:
    define_lake(parser, _LAKE, required=True)
    parser.add_argument(
        "--key", required=True, metavar="KEY", help="Remove the rows with this key."
    )
    parser.add_argument(
        "--column",
        metavar="COLUMN",
        help="Column of decoded bodies that has it; default: keys, of which a message may have more"
        " than one.",
    )
    parser.add_argument(
        "--orphans",
        type=time_span,
        metavar="AGE",
        help="Remove older files that killed jobs left behind; default: 1d.",
    )
    define_cluster(parser)


def _run_forget(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.forget import (  # noqa: PLC0415
        ORPHANS_DEFAULT,
        ForgetPlan,
        ForgottenRows,
        check_forget,
        forget,
    )
    from roquet.pipeline.lake.forgetting import KEYS_COLUMN  # noqa: PLC0415

    plan = ForgetPlan(
        lake=given_place(given),
        key=given.key,
        column=given.column or KEYS_COLUMN,
        orphans=ORPHANS_DEFAULT if given.orphans is None else given.orphans,
    )
    check_forget(plan)
    with session(reporter, given) as spark:
        found = forget(spark, plan)
    facts = {"files_removed": found.files_removed, "is_complete": found.is_complete}
    reporter.finish(Report(facts, [ReportTable("tables", ForgottenRows._fields, found.tables)]))
    return FINISHED if found.is_complete else FAILED


COMMANDS: Final = {
    "compact": JobCommand(_COMPACT_DESCRIPTION, _define_compact, _run_compact),
    "forget": JobCommand(_FORGET_DESCRIPTION, _define_forget, _run_forget),
}
