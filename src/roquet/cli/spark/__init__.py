"""`roquet spark`: the jobs of the data pipeline, one module each.

A module has `DESCRIPTION`, whose first line is shown in the list of commands, and `define`, which
adds the options and sets `run`. Spark is loaded when a job runs, not before.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from types import ModuleType
from typing import Final

from roquet.cli.spark import (
    audit,
    backfill,
    compact,
    dlq_report,
    export,
    ingest,
    lag,
    package,
    replay,
    story,
)

_COMMANDS: Final[dict[str, ModuleType]] = {
    "ingest": ingest,
    "compact": compact,
    "backfill": backfill,
    "export": export,
    "replay": replay,
    "dlq-report": dlq_report,
    "lag": lag,
    "story": story,
    "audit": audit,
    "package": package,
}


def define(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        module.define(
            commands.add_parser(
                name,
                help=module.DESCRIPTION.partition("\n")[0],
                description=module.DESCRIPTION,
                formatter_class=RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
        )
