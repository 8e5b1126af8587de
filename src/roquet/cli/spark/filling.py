"""`roquet spark ingest` and `backfill`: messages of brokers, or of their files, into a lake."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.argument_types import whole_number
from roquet.cli.serving.options import listen_place
from roquet.cli.spark.arguments import (
    body_options,
    broker_options,
    define_bodies,
    define_brokers,
    define_cluster,
    define_lake,
    define_topics,
    given_place,
    options_of,
    time_span,
    topic_options,
)
from roquet.cli.spark.bodies import drift_table
from roquet.cli.spark.running import JobCommand, session, speed_of, stopped_by_signals
from roquet.cli.spark.watching import watched
from roquet.reporting import FINISHED, INTERRUPTED, MISUSED, Report, Reporter

if TYPE_CHECKING:
    from roquet.pipeline.jobs.infer import InferredColumns
    from roquet.pipeline.lake.entries import LakeEntry

_LAKE: Final = "The lake, created if missing: a directory, or s3://bucket/prefix."
# Differences between bodies and columns at the end of a run; `drift` has all.
_DRIFT_SHOWN: Final = 20
# Fields that --infer found no type for; the number of others is shown.
_LEFT_OUT_SHOWN: Final = 20
_FORMATS: Final = ("parquet", "delta", "iceberg")
_INGEST_DESCRIPTION: Final = """\
Ingest topics into a lake of Parquet files, each message exactly once.

Files are partitioned by topic=/dt=/hour= of the store time (UTC), for any
reader. The job can be killed and restarted, with other options or after the
checkpoint was lost: what the lake has is not added again.
"""

_BACKFILL_DESCRIPTION: Final = """\
Ingest the files of a broker into a lake, without the broker.

What the lake has is not added again, and a later `ingest` adds only what is
missing. The job can be killed and restarted.
"""


def _define_ingest(parser: ArgumentParser) -> None:
    define_brokers(parser)
    define_topics(parser)
    _define_ingest_source(parser)
    _define_ingest_lake(parser)
    define_cluster(parser)


def _define_ingest_source(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--group", help="Consumer group whose offsets are committed as messages enter the lake."
    )
    parser.add_argument(
        "--starting-offsets",
        metavar="WHERE",
        help="earliest (default), latest, group, or JSON of offsets.",
    )
    parser.add_argument(
        "--tags", metavar="EXPRESSION", help="Only messages with these tags: 'new || paid'."
    )
    parser.add_argument(
        "--properties",
        choices=("none", "string", "map"),
        help="Form of the properties column; default for a new lake: map.",
    )
    parser.add_argument(
        "--max-offsets-per-trigger",
        type=whole_number(1),
        metavar="N",
        help="Maximum number of messages of a micro-batch.",
    )
    parser.add_argument(
        "--ignore-data-loss",
        action="store_true",
        help="Continue when messages are gone, or a topic was deleted and created again.",
    )


def _define_ingest_lake(parser: ArgumentParser) -> None:
    define_lake(parser, _LAKE, required=True)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="Spark's checkpoint directory; without one, what the lake lacks is read.",
    )
    _define_format(parser)
    define_bodies(parser)
    parser.add_argument(
        "--infer",
        action="store_true",
        help="Add the columns that JSON bodies of the first messages have; those of the lake stay.",
    )
    parser.add_argument(
        "--latest-by",
        metavar="KEY",
        help="Keep a second table, LAKE-latest, with the newest row of each key: a column of"
        " decoded bodies, or keys. Default: as the lake has it.",
    )
    parser.add_argument(
        "--available-now",
        action="store_true",
        help="Stop when everything stored so far is in the lake; default: run until interrupted.",
    )
    parser.add_argument(
        "--interval",
        type=time_span,
        metavar="TIME",
        help="Time between micro-batches, such as 10s; default: none.",
    )
    parser.add_argument(
        "--metrics",
        type=listen_place,
        metavar="HOST:PORT",
        help="Serve the progress for Prometheus. A port alone listens on this machine only.",
    )


def _define_format(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        help="Parquet files (default for a new lake), or a table, which can be in an object store.",
    )
    parser.add_argument(
        "--catalog",
        metavar="rest=URL|sqlite=FILE",
        help="Catalog of a new Iceberg table; default: SQLite in the directory of the lake.",
    )
    parser.add_argument(
        "--partition-by",
        metavar="COLUMNS",
        help="Of a new table; default for Delta: 'topic, dt, hour' (or the first of them), for"
        " Iceberg: 'topic, hours(storeTimestamp)' (or days, months, years).",
    )


def _run_ingest(reporter: Reporter, given: Namespace) -> int:
    if given.interval is not None and given.available_now:
        reporter.fail("--interval contradicts --available-now: give only one", MISUSED)
    from roquet.pipeline.jobs.ingest import (  # noqa: PLC0415
        IngestPlan,
        IngestProgress,
        check_cluster,
        check_plan,
        inferred_columns,
        ingest,
        with_columns,
    )

    plan = IngestPlan(
        source=_source_options(given),
        lake=given_place(given),
        checkpoint=given.checkpoint,
        available_now=given.available_now,
        interval=given.interval,
        format=given.format,
        catalog=given.catalog,
        partition_by=given.partition_by,
        bodies=body_options(given, infer=given.infer),
        latest_by=given.latest_by,
    )
    check_plan(plan)
    check_cluster(plan)
    if given.infer:
        found = inferred_columns(plan)
        _show_inferred(reporter, found)
        plan = with_columns(plan, found)
        # Now that the columns are known, before Spark starts: --latest-by may name none of them.
        check_plan(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("messages") as progress,
        stopped_by_signals(reporter, "stopping after what is published ...") as stop,
    ):
        progress.show(0)
        started_s = time.monotonic()

        def show(so_far: IngestProgress) -> None:
            progress.show(so_far.messages, files=so_far.files, lag=so_far.lag)
            watch.progressed(so_far)

        with watched(reporter, spark, plan, given.metrics) as watch:
            report = ingest(spark, plan, show, stop)
            watch.is_complete = report.is_complete
        elapsed_s = time.monotonic() - started_s
    facts = report._asdict() | speed_of(report.messages, elapsed_s)
    found_drift = facts.pop("drift")
    tables = [drift_table(found_drift.rows[:_DRIFT_SHOWN])] if found_drift else []
    reporter.finish(Report(facts, tables))
    return FINISHED if report.is_complete or not given.available_now else INTERRUPTED


def _show_inferred(reporter: Reporter, found: "InferredColumns") -> None:
    reporter.say(f"columns, by the first {found.messages} messages: {found.columns}")
    if found.not_json:
        reporter.say(f"{found.not_json} of them are no JSON objects, and will be quarantined")
    if found.left_out:
        shown = list(found.left_out.items())[:_LEFT_OUT_SHOWN]
        more = len(found.left_out) - len(shown)
        reporter.say(
            "without a column: "
            + ", ".join(f"{path} ({reason})" for path, reason in shown)
            + (f", and {more} more" if more else "")
        )


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


def _define_backfill(parser: ArgumentParser) -> None:
    parser.add_argument("store", type=Path, metavar="STORE_DIR", help="The store directory.")
    define_topics(parser)
    parser.add_argument(
        "--broker-name",
        metavar="NAME",
        help="Name of the broker that wrote them; required unless the lake has exactly one broker.",
    )
    define_lake(parser, _LAKE, required=True)
    _define_format(parser)
    define_bodies(parser)
    parser.add_argument(
        "--properties",
        choices=("none", "string", "map"),
        help="Form of the properties column; default for a new lake: map.",
    )
    parser.add_argument(
        "--on-damage",
        choices=("fail", "skip"),
        default="fail",
        help="Fail on damaged parts of the log, or skip them.",
    )
    parser.add_argument(
        "--split-size", metavar="SIZE", help="Bytes of the log that one task reads, such as 64m."
    )
    parser.add_argument(
        "--ignore-data-loss",
        action="store_true",
        help="Continue when a topic was deleted and created again since the last ingest.",
    )
    define_cluster(parser)


def _run_backfill(reporter: Reporter, given: Namespace) -> int:
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
        lake=given_place(given),
        broker_name=given.broker_name,
        ignore_data_loss=given.ignore_data_loss,
        format=given.format,
        catalog=given.catalog,
        partition_by=given.partition_by,
        bodies=body_options(given),
    )
    check_backfill(plan)
    with (
        session(reporter, given) as spark,
        reporter.progress("messages") as progress,
        stopped_by_signals(reporter, "stopping after what is published ...") as stop,
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


COMMANDS: Final = {
    "ingest": JobCommand(_INGEST_DESCRIPTION, _define_ingest, _run_ingest),
    "backfill": JobCommand(_BACKFILL_DESCRIPTION, _define_backfill, _run_backfill),
}
