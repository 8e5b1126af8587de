"""`roquet spark compact`: the small files of a lake become larger ones."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.spark.arguments import define_cluster, define_json, size, time_span
from roquet.cli.spark.running import run_job, session, stopped_by_signals
from roquet.reporting import FINISHED, INTERRUPTED, Report, Reporter

if TYPE_CHECKING:
    from roquet.pipeline.lake.entries import LakeEntry

DESCRIPTION: Final = """\
Compact the small files of a lake, in hours that are over, into larger ones.

No message changes, and whoever reads meanwhile sees each of them once. It may
be killed and started again.
"""


def define(parser: ArgumentParser) -> None:
    parser.add_argument("--lake", required=True, type=Path, metavar="DIR", help="The lake.")
    parser.add_argument(
        "--target-size",
        type=size,
        metavar="SIZE",
        help="How large files get at most, such as 64m; 256m if left out.",
    )
    parser.add_argument(
        "--grace",
        type=time_span,
        metavar="TIME",
        help="How long an hour has to be over, such as 2h; 10m if left out.",
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("compact", given, lambda it: _run(it, given)))


def _run(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.compact import (  # noqa: PLC0415
        GRACE_DEFAULT,
        TARGET_SIZE_DEFAULT,
        CompactPlan,
        check_compact,
        compact,
    )

    plan = CompactPlan(
        lake=given.lake,
        target_size=given.target_size or TARGET_SIZE_DEFAULT,
        grace=GRACE_DEFAULT if given.grace is None else given.grace,
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
