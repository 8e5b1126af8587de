"""`roquet spark ingest`: topics into a lake."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.numbers import whole_number
from roquet.cli.spark.arguments import (
    define_cluster,
    define_json,
    define_topics,
    options_of,
    time_span,
    topic_options,
)
from roquet.cli.spark.brokers import broker_options, define_brokers
from roquet.cli.spark.running import run_job, session, speed_of, stopped_by_signals
from roquet.reporting import FINISHED, INTERRUPTED, MISUSED, Report, Reporter

DESCRIPTION: Final = """\
Put the messages of topics into a directory of Parquet files, each of them once.

Files lie in topic=/dt=/hour= by the time they were stored (UTC), for any
reader. It may be killed and started again, with other options, or with a
checkpoint that was lost: what the lake has is not added again.
"""


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    define_topics(parser)
    _define_source(parser)
    _define_lake(parser)
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("ingest", given, lambda it: _ingest(it, given)))


def _define_source(parser: ArgumentParser) -> None:
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
        "--format",
        choices=("parquet", "delta"),
        help="Files of Parquet (for a new lake if left out), or a table of Delta.",
    )
    parser.add_argument(
        "--json-schema",
        metavar="FILE|COLUMNS",
        help="Decode bodies into columns, 'id bigint, name string', or those in a file.",
    )
    parser.add_argument(
        "--available-now",
        action="store_true",
        help="End when everything is there that was sent before; else go on until interrupted.",
    )
    parser.add_argument(
        "--interval",
        type=time_span,
        metavar="TIME",
        help="How often to look for more, such as 10s; as often as possible if left out.",
    )


def _ingest(reporter: Reporter, given: Namespace) -> int:
    if given.interval is not None and given.available_now:
        reporter.fail("--interval contradicts --available-now: give one of them", MISUSED)
    from roquet.pipeline.jobs.ingest import (  # noqa: PLC0415
        IngestPlan,
        IngestProgress,
        check_cluster,
        check_plan,
        ingest,
    )

    plan = IngestPlan(
        source=_source_options(given),
        lake=given.lake,
        checkpoint=given.checkpoint,
        available_now=given.available_now,
        interval=given.interval,
        format=given.format,
        json_schema=given.json_schema,
    )
    check_plan(plan)
    check_cluster(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("messages") as progress,
        stopped_by_signals(reporter, "ending with what is published ...") as stop,
    ):
        progress.show(0)
        started_s = time.monotonic()

        def show(so_far: IngestProgress) -> None:
            progress.show(so_far.messages, files=so_far.files, lag=so_far.lag)

        report = ingest(spark, plan, show, stop)
        elapsed_s = time.monotonic() - started_s
    reporter.finish(Report(report._asdict() | speed_of(report.messages, elapsed_s)))
    return FINISHED if report.is_complete or not given.available_now else INTERRUPTED


def _source_options(given: Namespace) -> dict[str, str]:
    chosen = options_of(
        groupId=given.group,
        startingOffsets=given.starting_offsets,
        tagExpression=given.tags,
        properties=given.properties,
        maxOffsetsPerTrigger=given.max_offsets_per_trigger,
        failOnDataLoss="false" if given.ignore_data_loss else None,
    )
    return broker_options(given) | topic_options(given) | chosen
