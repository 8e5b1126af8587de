"""`roquet spark`: the jobs of the data pipeline, by kind.

A module has `COMMANDS`, by their names. Spark is loaded when a job runs, not before.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from functools import partial


def define(parser: ArgumentParser) -> None:
    # `roquet sql` has arguments of this package, and needs none of its jobs.
    from roquet.cli.spark import (  # noqa: PLC0415
        bodies,
        filling,
        maintenance,
        messages,
        outcomes,
        packaging,
    )
    from roquet.cli.spark.arguments import define_json  # noqa: PLC0415
    from roquet.cli.spark.running import run_job  # noqa: PLC0415

    jobs = filling.COMMANDS | maintenance.COMMANDS | bodies.COMMANDS
    jobs |= messages.COMMANDS | outcomes.COMMANDS | packaging.COMMANDS
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in jobs.items():
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
