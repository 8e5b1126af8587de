"""`roquet spark lag`: how far groups are behind, once or as time goes by."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from roquet.cli.numbers import whole_number
from roquet.cli.spark.arguments import define_json, time_span
from roquet.cli.spark.brokers import broker_options, define_brokers
from roquet.cli.spark.running import run_job, stopped_by_signals
from roquet.client.errors import ClientError
from roquet.reporting import (
    FINISHED,
    MISUSED,
    JobProgress,
    Report,
    Reporter,
    ReportTable,
)

if TYPE_CHECKING:
    from roquet.client.blocking.admin import Admin
    from roquet.pipeline.jobs.lag import LagHistory, LagSample, LagTable

DESCRIPTION: Final = """\
Show how far consumer groups are behind in each queue, once or again and again.

With --watch it goes on until it is interrupted, and sums up at the end.
--to adds all samples to a directory of Parquet files: sampled, group,
topic, brokerName, queueId, committed, end, lag and lagMs. With --json,
each sample is an object on a line of its own, and the last line sums up.
It needs no Spark.
"""

_INTERVAL_DEFAULT: Final = timedelta(seconds=10)


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        help="Of this group; may be repeated. All groups if left out.",
    )
    parser.add_argument("--topic", help="In this topic only.")
    how_often = parser.add_mutually_exclusive_group()
    how_often.add_argument("--once", action="store_true", help="One sample, as if left out.")
    how_often.add_argument("--watch", action="store_true", help="Until it is interrupted.")
    how_often.add_argument("--samples", type=whole_number(1), metavar="N", help="So many samples.")
    parser.add_argument(
        "--interval",
        type=time_span,
        metavar="TIME",
        help="Between two samples: 500ms, 10s (if left out), 5m.",
    )
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="Add the samples to the Parquet files there."
    )
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("lag", given, lambda it: _lag(it, given)))


def _lag(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.connections import cluster_admin  # noqa: PLC0415
    from roquet.pipeline.jobs.lag import LagHistory, LagTable  # noqa: PLC0415

    if given.interval is not None and not (given.watch or given.samples):
        reporter.fail("--interval needs --watch or --samples", MISUSED)
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
                stopped_by_signals(reporter, "ending with what was sampled ...") as stop,
            ):
                watch = _Watch(reporter, given, progress)
                watch.run(admin, history, table, count, stop)
            reporter.finish(_history_report(history))
    if table is not None:
        table.write()
        reporter.say(f"{table.row_count} rows in {table.file_count} files added to {given.to}")
    return FINISHED


class _Watch:
    """One sample after the other. A broker that is away costs a sample, not the watch."""

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
                self._reporter.say(f"no sample this time: {error}")
            else:
                self._tell(samples, history)
            if history.sample_count == count:
                return
            stop.wait((self._given.interval or _INTERVAL_DEFAULT).total_seconds())

    def _tell(self, samples: "Sequence[LagSample]", history: "LagHistory") -> None:
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
