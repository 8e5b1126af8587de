"""`roquet spark backfill`: the files of a broker into a lake."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.spark.arguments import define_cluster, define_json, define_topics, options_of
from roquet.cli.spark.running import run_job, session, speed_of, stopped_by_signals
from roquet.reporting import FINISHED, INTERRUPTED, Report, Reporter

if TYPE_CHECKING:
    from roquet.pipeline.lake.entries import LakeEntry

DESCRIPTION: Final = """\
Put the messages of a broker's files into a lake, without the broker.

What the lake has is not added again, and `ingest` adds afterwards only what
is missing. It may be killed and started again.
"""


def define(parser: ArgumentParser) -> None:
    parser.add_argument("store", type=Path, metavar="STORE_DIR", help="The store directory.")
    define_topics(parser)
    parser.add_argument(
        "--broker-name",
        metavar="NAME",
        help="Whose files they are; needed unless the lake has messages of one broker alone.",
    )
    parser.add_argument("--lake", required=True, type=Path, metavar="DIR", help="Where files go.")
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
        "--properties",
        choices=("none", "string", "map"),
        help="How properties are kept; map for a new lake if left out.",
    )
    parser.add_argument(
        "--on-damage",
        choices=("fail", "skip"),
        default="fail",
        help="What to do about damaged parts of the log.",
    )
    parser.add_argument(
        "--split-size", metavar="SIZE", help="How much of the log one task reads, such as 64m."
    )
    parser.add_argument(
        "--ignore-data-loss",
        action="store_true",
        help="Go on when a topic was deleted and made again since the lake took from it.",
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("backfill", given, lambda it: _run(it, given)))


def _run(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.backfill import (  # noqa: PLC0415
        BackfillPlan,
        backfill,
        check_backfill,
    )

    plan = BackfillPlan(
        source=options_of(
            path=given.store,
            topic=given.topic,
            topics=given.topics,
            topicPattern=given.topic_pattern,
            properties=given.properties,
            onDamage=given.on_damage,
            splitSize=given.split_size,
        ),
        lake=given.lake,
        broker_name=given.broker_name,
        ignore_data_loss=given.ignore_data_loss,
        format=given.format,
        json_schema=given.json_schema,
    )
    check_backfill(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("messages") as progress,
        stopped_by_signals(reporter, "ending with what is published ...") as stop,
    ):
        progress.show(0)
        started_s = time.monotonic()
        done = 0

        def show(entry: "LakeEntry", wanted: int) -> None:
            nonlocal done
            done += sum(piece.rows for piece in entry.added)
            progress.show(done, wanted)

        report = backfill(spark, plan, show, stop)
        elapsed_s = time.monotonic() - started_s
    reporter.finish(Report(report._asdict() | speed_of(report.messages, elapsed_s)))
    return FINISHED if report.is_complete else INTERRUPTED
