"""`roquet spark package`: the archive that executors need whose Python has no roquet."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.spark.arguments import define_json
from roquet.cli.spark.running import run_job
from roquet.reporting import FINISHED, Fact, Report, Reporter, ReportTable

DESCRIPTION: Final = """\
Write an archive of roquet and what it needs, for executors that lack it.

What is compiled cannot be imported from a zip, so '--py-files' cannot carry
it. Spark unpacks archives; executors need the same version of Python as this
one, on machines of the same kind.
"""


def define(parser: ArgumentParser) -> None:
    parser.add_argument(
        "archive",
        type=Path,
        nargs="?",
        default=Path("roquet-site.zip"),
        metavar="FILE",
        help="What to write; roquet-site.zip if left out.",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="LIBRARY",
        help="Leave out what the Python of executors has, such as pyarrow.",
    )
    define_json(parser)
    parser.set_defaults(run=lambda given: run_job("package", given, lambda it: _package(it, given)))


def _package(reporter: Reporter, given: Namespace) -> int:
    from roquet.pipeline.jobs.package import package  # noqa: PLC0415

    with reporter.waiting("packing, which takes some seconds"):
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
        f"use it by 'roquet spark ... --archive {made.path}', or by 'spark-submit --archives"
        f" {made.path}#site --conf spark.executorEnv.PYTHONPATH=site ...'"
    )
    return FINISHED
