"""`roquet spark package`, which needs no session of Spark."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.spark.running import JobCommand
from roquet.reporting import FINISHED, Fact, Report, Reporter, ReportTable

_PACKAGE_DESCRIPTION: Final = """\
Write an archive of roquet and its dependencies, for executors without them.

Compiled modules cannot be imported from a zip, so '--py-files' cannot carry
them. Spark unpacks archives; executors need the Python version of this
machine, on the same platform.
"""


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
    "package": JobCommand(_PACKAGE_DESCRIPTION, _define_package, _run_package),
}
