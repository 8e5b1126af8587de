"""The root of the command line: the commands and their exit codes."""

import gc
import os
import sys
from argparse import Action, ArgumentParser, HelpFormatter
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from roquet.cli.lazy_modules import load_lazily


class _Command(NamedTuple):
    """`module` has a function `define`, which adds the options and sets `run`.

    `run` gets what was given and returns the exit code. Where the next word is one of `words`, it
    is `words_module` instead: starting a server must not load the admin commands.
    """

    module: str
    summary: str
    words: Collection[str] = ()
    words_module: str = ""

    def module_for(self, next_words: Sequence[str]) -> str:
        return self.words_module if set(next_words).intersection(self.words) else self.module


_COMMANDS: Final = {
    "up": _Command("roquet.cli.up", "Run a name server and brokers, a whole cluster."),
    "namesrv": _Command(
        "roquet.cli.namesrv", "Run a name server: it gives clients the routes of topics."
    ),
    "broker": _Command(
        "roquet.cli.broker",
        "Run a broker, which stores and delivers messages; or administer a running one.",
        ("status", "config", "writes", "promote", "demote", "forget"),
        "roquet.cli.broker_admin",
    ),
    "proxy": _Command(
        "roquet.cli.proxy", "Run a proxy: SDKs of RocketMQ 5.x reach a cluster through it, by gRPC."
    ),
    "cluster": _Command("roquet.cli.cluster", "Show all brokers: roles, versions, rates, disks."),
    "topic": _Command("roquet.cli.topic", "List, show, create, change and delete topics."),
    "group": _Command("roquet.cli.group", "List and show consumer groups, their lag and members."),
    "producers": _Command("roquet.cli.producers", "List connected producers, by group."),
    "message": _Command("roquet.cli.message", "Send, find and follow messages."),
    "offset": _Command("roquet.cli.offset", "Show and reset the offsets of consumer groups."),
    "dlq": _Command("roquet.cli.dlq", "Show and resend dead letters."),
    "doctor": _Command("roquet.cli.doctor", "Diagnose why messages are not sent or consumed."),
    "top": _Command("roquet.cli.top", "Watch topics, groups and brokers live."),
    "dashboard": _Command(
        "roquet.cli.dashboard", "Show the cluster as pages in a browser, and change it there."
    ),
    "account": _Command(
        "roquet.cli.account", "List, show, add, change and remove accounts for access control."
    ),
    "bench": _Command("roquet.cli.bench", "Run benchmarks, with the flags of Apache's."),
    "mqadmin": _Command(
        "roquet.cli.mqadmin", "The same commands under the names of Apache's mqadmin."
    ),
    "completion": _Command("roquet.cli.completion", "Print a completion script for a shell."),
    "store": _Command(
        "roquet.cli.store", "Inspect, verify, dump and repair the files of a broker."
    ),
    "sql": _Command(
        "roquet.cli.sql", "Query topics, a store directory or a lake in SQL, without Spark."
    ),
    "spark": _Command("roquet.cli.spark", "Run the jobs of the data pipeline on Spark."),
    "frames": _Command("roquet.cli.frames", "Decode recorded frames of the wire protocol."),
}
# Commands by their former names.
_NAME_NOW: Final = {"wire": "frames"}


class _SayVersion(Action):
    """Computed only on request: in a checkout it runs git."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        from roquet.cli.version import version_text  # noqa: PLC0415

        print(version_text())
        parser.exit()


_MISUSED: Final = 2
# Loading a server makes less than a hundred thousand objects, and none of them is garbage: a
# collection would take a tenth of the start.
_GC_THRESHOLD: Final = 200_000
# Asyncio and msgspec import them, and together they take nearly five megabytes.
_SELDOM_USED: Final = ("asyncio.sslproto", "msgspec.inspect", "ssl")
_INTERRUPTED: Final = 130  # as shells have it
# Of help, where there is no terminal to ask.
_HELP_WIDTH: Final = 80


def main() -> None:
    gc.set_threshold(_GC_THRESHOLD)
    load_lazily(*_SELDOM_USED)
    try:
        exit_code = _run_to_the_end(sys.argv[1:])
    except BrokenPipeError:
        # The reader of the output has closed it.
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

    Raises OSError if it cannot be, and SystemExit if the command has reported an error.
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
    """Python would try to write it again at exit, print an error, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(arguments: Sequence[str]) -> int:
    """The exit code. Raises SystemExit for a mistake in the arguments, and after help."""
    arguments = [_NAME_NOW.get(word, word) for word in arguments[:1]] + list(arguments[1:])
    root = parser_for(arguments)
    if not arguments:
        root.print_help()
        return _MISUSED
    given = root.parse_args(arguments)
    exit_code: int = given.run(given)
    return exit_code


def parser_for(arguments: Sequence[str]) -> ArgumentParser:
    """Loads the command that they start with and no other, so that servers and help start fast."""
    first, next_words = arguments[:1], arguments[1:2]
    return _root_parser(
        {name: [_COMMANDS[name].module_for(next_words)] for name in first if name in _COMMANDS}
    )


def whole_parser() -> ArgumentParser:
    """With all commands loaded."""
    return _root_parser(
        {
            name: [module for module in (command.module, command.words_module) if module]
            for name, command in _COMMANDS.items()
        }
    )


def _root_parser(modules: Mapping[str, Sequence[str]]) -> ArgumentParser:
    """`modules` are loaded, by the name of the command that they are for.

    Commands without modules are left out, unless all are: then help lists every command.
    """
    root = ArgumentParser(
        prog="roquet",
        description="RocketMQ in Python: name server, broker, client and tools.",
        formatter_class=_help_formatter,
        allow_abbrev=False,
    )
    root.add_argument(
        "--version", action=_SayVersion, nargs=0, help="Print version and commit, and exit."
    )
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    for name in modules or _COMMANDS:
        summary = _COMMANDS[name].summary
        parser = commands.add_parser(
            name,
            help=summary,
            description=summary,
            formatter_class=_help_formatter,
            allow_abbrev=False,
        )
        for module in modules.get(name, ()):
            import_module(module).define(parser)
    return root


def _help_formatter(*, prog: str) -> HelpFormatter:
    """As wide as the terminal; called for every option that is defined.

    Left alone, the formatter would load `shutil` for that, and with it everything that packs files:
    half a megabyte in every server.
    """
    return HelpFormatter(prog, width=_terminal_width() - 2)


def _terminal_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size().columns or _HELP_WIDTH
    except OSError:
        return _HELP_WIDTH
