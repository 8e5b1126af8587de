"""`roquet spark`: the jobs of the data pipeline, by kind.

A module has `COMMANDS`, by their names. Spark is loaded when a job runs, not before.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from functools import partial
from typing import Final

from roquet.cli.spark import lake, messages, outcomes, packaging
from roquet.cli.spark.arguments import define_json
from roquet.cli.spark.running import JobCommand, run_job

_COMMANDS: Final[dict[str, JobCommand]] = {
    **lake.COMMANDS,
    **messages.COMMANDS,
    **outcomes.COMMANDS,
    **packaging.COMMANDS,
}


def define(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in _COMMANDS.items():
        defined = commands.add_parser(
            name,
            help=command.description.partition("\n")[0],
            description=command.description,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.define(defined)
        define_json(defined)
        defined.set_defaults(run=partial(run_job, name, command.run))
