"""The root of the command line: which commands there are, and how they end."""

import gc
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

from roquet import __version__


class _Command(NamedTuple):
    """`module` has a function `define`, which adds the options and sets `run`.

    `run` gets what was given and returns the exit code.
    """

    module: str
    summary: str


_COMMANDS: Final = {
    "up": _Command("roquet.cli.up", "Run a name server and brokers, a whole cluster."),
    "namesrv": _Command(
        "roquet.cli.namesrv", "Run a name server: it tells clients which broker has which topic."
    ),
    "broker": _Command(
        "roquet.cli.broker", "Run a broker: it takes messages, keeps them and hands them out."
    ),
    "account": _Command("roquet.cli.account", "Make accounts for servers with access control."),
    "store": _Command("roquet.cli.store", "Look at the files of a broker, without the broker."),
    "spark": _Command("roquet.cli.spark", "Run the jobs of the data pipeline on Spark."),
    "wire": _Command("roquet.cli.wire", "Look at what peers say to each other."),
}

_MISUSED: Final = 2
# Loading a server makes a hundred thousand objects, and none of them is garbage.
_GC_THRESHOLD: Final = 50_000
_INTERRUPTED: Final = 130  # as shells have it


def main() -> None:
    gc.set_threshold(_GC_THRESHOLD)
    try:
        exit_code = _run_to_the_end(sys.argv[1:])
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        exit_code = 1
    except OSError as error:
        print(f"roquet: {error}", file=sys.stderr)
        exit_code = 1
    except KeyboardInterrupt:
        exit_code = _INTERRUPTED
    finally:
        _drop_unwritten_output()
    sys.exit(exit_code)


def _run_to_the_end(arguments: Sequence[str]) -> int:
    """The exit code of a command whose output is written.

    Raises OSError if it cannot be, and SystemExit if the command has told what is wrong.
    """
    try:
        exit_code = run_command(arguments)
    except SystemExit as end:
        if end.code:
            raise
        exit_code = 0  # after help
    sys.stdout.flush()
    return exit_code


def _drop_unwritten_output() -> None:
    """Python would try to write it once more when it ends, complain, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(arguments: Sequence[str]) -> int:
    """The exit code. Raises SystemExit for a mistake in the arguments, and after help."""
    root = ArgumentParser(
        prog="roquet",
        description="RocketMQ in Python: name server, broker, client and tools.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"roquet {__version__}")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    for name, command in _COMMANDS.items():
        parser = commands.add_parser(
            name, help=command.summary, description=command.summary, allow_abbrev=False
        )
        if name in arguments[:1]:
            # The others are not loaded: a server starts in a blink, and help comes as fast.
            import_module(command.module).define(parser)
    if not arguments:
        root.print_help()
        return _MISUSED
    given = root.parse_args(arguments)
    exit_code: int = given.run(given)
    return exit_code
