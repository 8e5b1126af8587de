"""`roquet spark export`: messages of a topic or a lake as files."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.numbers import whole_number
from roquet.cli.spark.arguments import define_cluster, define_json
from roquet.cli.spark.brokers import define_brokers
from roquet.cli.spark.running import run_job, session
from roquet.cli.spark.selecting import define_selection, selection_of
from roquet.reporting import FINISHED, MISUSED, Report, Reporter

DESCRIPTION: Final = """\
Write messages of topics or of a lake to files: Parquet, JSON lines or CSV.

The directory must not be there; it appears when all files are whole.
Messages that are sent meanwhile are not among them.
"""


def define(parser: ArgumentParser) -> None:
    define_brokers(parser)
    define_selection(parser)
    parser.add_argument("--to", required=True, type=Path, metavar="DIR", help="Where files go.")
    parser.add_argument(
        "--format", choices=("parquet", "json", "csv"), default="parquet", help="What they are."
    )
    parser.add_argument(
        "--body",
        choices=("base64", "text"),
        help="How bodies are written as JSON or CSV; base64 if left out.",
    )
    parser.add_argument(
        "--columns", metavar="C,C", help="Only these columns of messages; all if left out."
    )
    parser.add_argument(
        "--max-files", type=whole_number(1), metavar="N", help="Into at most so many files."
    )
    define_cluster(parser)
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("export", given, lambda it: _export(it, given)))


def _export(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.export import (  # noqa: PLC0415
        BodyForm,
        ExportPlan,
        FileFormat,
        check_export,
        export,
    )
    from roquet.pipeline.queries import tasks_shown  # noqa: PLC0415

    if given.lake is not None and given.name_server is not None:
        reporter.fail("--lake contradicts --name-server: give one of them", MISUSED)
    if given.body is not None and given.format == FileFormat.PARQUET:
        reporter.fail("--body is for --format json or csv: Parquet has bodies as they are", MISUSED)
    plan = check_export(
        ExportPlan(
            selection=selection_of(reporter, given),
            directory=given.to,
            format=FileFormat(given.format),
            body=BodyForm(given.body or BodyForm.BASE64),
            columns=tuple(filter(None, (given.columns or "").split(","))),
            files_max=given.max_files,
        )
    )
    with session(reporter, given) as spark, reporter.progress("tasks") as progress:
        started_s = time.monotonic()
        with tasks_shown(spark, progress):
            report = export(spark, plan)
        elapsed_s = time.monotonic() - started_s
    reporter.finish(Report(report._asdict() | {"seconds": round(elapsed_s, 3)}))
    return FINISHED
