"""`roquet spark lag` and `package`, which need no session of Spark."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from roquet.cli.argument_types import whole_number
from roquet.cli.spark.arguments import broker_options, define_brokers, time_span
from roquet.cli.spark.running import JobCommand, stopped_by_signals
from roquet.client.errors import ClientError
from roquet.reporting import (
    FINISHED,
    MISUSED,
    Fact,
    JobProgress,
    Report,
    Reporter,
    ReportTable,
)

if TYPE_CHECKING:
    from roquet.client.blocking.admin import Admin
    from roquet.pipeline.jobs.lag import LagHistory, LagSample, LagTable

_LAG_DESCRIPTION: Final = """\
Show the lag of consumer groups in each queue, once or repeatedly.

With --watch it samples until it is interrupted, and prints a summary.
--to adds all samples to a directory of Parquet files: sampled, group,
topic, brokerName, queueId, committed, end, lag and lagMs. With --json,
each sample is an object on a line of its own, and the last line is the
summary. Java is not required.
"""

_INTERVAL_DEFAULT: Final = timedelta(seconds=10)

_PACKAGE_DESCRIPTION: Final = """\
Write an archive of roquet and its dependencies, for executors without them.

Compiled modules cannot be imported from a zip, so '--py-files' cannot carry
them. Spark unpacks archives; executors need the Python version of this
machine, on the same platform.
"""


def _define_lag(parser: ArgumentParser) -> None:
    define_brokers(parser)
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="Only this group; can be repeated. Default: all groups.",
    )
    parser.add_argument("--topic", help="Only this topic.")
    how_often = parser.add_mutually_exclusive_group()
    how_often.add_argument("--once", action="store_true", help="Take one sample (default).")
    how_often.add_argument("--watch", action="store_true", help="Take samples until interrupted.")
    how_often.add_argument(
        "--samples", type=whole_number(1), metavar="N", help="Take this many samples."
    )
    parser.add_argument(
        "--interval",
        type=time_span,
        metavar="TIME",
        help="Time between samples: 500ms, 10s (default), 5m.",
    )
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="Add the samples to Parquet files in this directory."
    )


def _run_lag(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.connections import cluster_admin  # noqa: PLC0415
    from roquet.pipeline.jobs.lag import LagHistory, LagTable  # noqa: PLC0415

    if given.interval is not None and not (given.watch or given.samples):
        reporter.fail("--interval requires --watch or --samples", MISUSED)
    history = LagHistory()
    table = None if given.to is None else LagTable(given.to)
    count = None if given.watch else given.samples or 1
    with cluster_admin(broker_options(given)) as admin:
        if count == 1:
            samples = _sampled(admin, given, history, table)
            reporter.finish(_sample_report(samples, history))
        else:
            with (
                reporter.progress("samples") as progress,
                stopped_by_signals(reporter, "stopping after this sample ...") as stop,
            ):
                watch = _Watch(reporter, given, progress)
                watch.run(admin, history, table, count, stop)
            reporter.finish(_history_report(history))
    if table is not None:
        table.write()
        reporter.say(f"added {table.row_count} rows in {table.file_count} files to {given.to}")
    return FINISHED


class _Watch:
    """Takes one sample after the other. An unreachable broker costs a sample, not the watch."""

    def __init__(self, reporter: Reporter, given: Namespace, progress: JobProgress) -> None:
        self._reporter = reporter
        self._given = given
        self._progress = progress

    def run(
        self,
        admin: "Admin",
        history: "LagHistory",
        table: "LagTable | None",
        count: int | None,
        stop: Event,
    ) -> None:
        while not stop.is_set():
            try:
                samples = _sampled(admin, self._given, history, table)
            except ClientError as error:
                self._reporter.say(f"sample failed: {error}")
            else:
                self._report(samples, history)
            if history.sample_count == count:
                return
            stop.wait((self._given.interval or _INTERVAL_DEFAULT).total_seconds())

    def _report(self, samples: "Sequence[LagSample]", history: "LagHistory") -> None:
        lag = sum(each.lag or 0 for each in samples)
        waits_ms = max((each.lag_ms or 0 for each in samples), default=0)
        self._progress.show(history.sample_count, lag=lag, oldest=f"{waits_ms / 1000:.1f} s")
        if self._given.json:
            sys.stdout.write(_sample_report(samples, None).to_json() + "\n")
            sys.stdout.flush()


def _sampled(
    admin: "Admin", given: Namespace, history: "LagHistory", table: "LagTable | None"
) -> "list[LagSample]":
    from roquet.pipeline.jobs.lag import take_samples  # noqa: PLC0415

    samples = take_samples(admin, given.group, given.topic)
    history.add(samples)
    if table is not None:
        table.add(samples)
    return samples


def _sample_report(samples: "Sequence[LagSample]", history: "LagHistory | None") -> Report:
    columns = ("group", "topic", "broker", "queue", "committed", "end", "lag", "lag_ms")
    rows = [
        (each.group, *each.queue, each.committed, each.end, each.lag, each.lag_ms)
        for each in samples
    ]
    facts = {"sampled": samples[0].sampled if samples else None}
    tables = [ReportTable("queues", columns, rows)]
    if history is not None:
        tables.append(_group_table(history))
    return Report(facts, tables)


def _history_report(history: "LagHistory") -> Report:
    return Report({"samples": history.sample_count}, [_group_table(history)])


def _group_table(history: "LagHistory") -> ReportTable:
    from roquet.pipeline.jobs.lag import GroupLag  # noqa: PLC0415

    return ReportTable("groups", GroupLag._fields, history.groups())


def _define_package(parser: ArgumentParser) -> None:
    parser.add_argument(
        "archive",
        type=Path,
        nargs="?",
        default=Path("roquet-site.zip"),
        metavar="FILE",
        help="Archive to write; default: roquet-site.zip.",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="LIBRARY",
        help="Leave out a library that executors have, such as pyarrow; can be repeated.",
    )


def _run_package(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.package import package  # noqa: PLC0415

    with reporter.waiting("writing the archive, which takes some seconds"):
        made = package(given.archive, given.without)
    facts: dict[str, Fact] = {
        "path": str(made.path),
        "bytes": made.bytes,
        "unpacked_bytes": made.unpacked_bytes,
        "python": made.python,
        "platform": made.platform,
    }
    libraries = ReportTable("libraries", ("library", "version"), list(made.libraries.items()))
    reporter.finish(Report(facts, [libraries]))
    reporter.say(
        f"use it with 'roquet spark ... --archive {made.path}', or with 'spark-submit --archives"
        f" {made.path}#site --conf spark.executorEnv.PYTHONPATH=site ...'"
    )
    return FINISHED


COMMANDS: Final = {
    "lag": JobCommand(_LAG_DESCRIPTION, _define_lag, _run_lag),
    "package": JobCommand(_PACKAGE_DESCRIPTION, _define_package, _run_package),
}
