"""How a command for operators is defined and run.

commands = Commands(parser)
show = commands.add("show", "Show a topic.", _show)
show.add_argument("topic")

async def _show(session: Session) -> int:
    session.finish(Report(...))
    return DONE
"""

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import final

from roquet.cli.operating.access import Access, access_of, define_access
from roquet.cli.operating.failures import failure_of
from roquet.client.admin.admin import AsyncAdmin
from roquet.errors import RoquetError
from roquet.net.loop import run
from roquet.reporting import Report, Reporter


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with: what was given, and a cluster to ask."""

    given: Namespace
    access: Access
    admin: AsyncAdmin
    reporter: Reporter

    def finish(self, report: Report) -> None:
        self.reporter.finish(report)


# Returns the exit code; raises RoquetError.
Act = Callable[[Session], Awaitable[int]]


@final
class Commands:
    """The commands of one group, as `topic`."""

    def __init__(self, parser: ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(self, name: str, summary: str, act: Act, more: str = "") -> ArgumentParser:
        """`more` is said by --help alone. Its options are added to what is returned."""
        parser = self.parser(name, summary, more)
        define_command(parser, act)
        return parser

    def parser(self, name: str, summary: str, more: str = "") -> ArgumentParser:
        """For commands below this one."""
        return self._parsers.add_parser(
            name,
            help=summary,
            description=f"{summary}\n\n{more}".rstrip(),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )


def define_command(parser: ArgumentParser, act: Act) -> None:
    parser.add_argument("--json", action="store_true", help="Print JSON, for programs.")
    define_access(parser)
    parser.set_defaults(run=lambda given: run_act(parser.prog, given, act))


def run_act(command: str, given: Namespace, act: Act) -> int:
    """The exit code. What keeps a command from its work is told in one line."""
    reporter = Reporter(command, as_json=given.json)
    access = None
    try:
        access = access_of(given, os.environ)
        return run(_acted(given, access, reporter, act))
    except RoquetError as error:
        failure = failure_of(error, access)
        reporter.say(" ".join(failure.text.split()))
        return failure.exit_code


async def _acted(given: Namespace, access: Access, reporter: Reporter, act: Act) -> int:
    async with AsyncAdmin(access.name_server, **access.options()) as admin:
        return await act(Session(given, access, admin, reporter))
