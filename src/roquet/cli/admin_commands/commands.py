"""How an admin command is defined, confirmed and run.

commands = Commands(parser)
show = commands.add("show", "Show a topic.", _show)
show.add_argument("topic")

async def _show(session: Session) -> int:
    session.finish(Report(...))
    return DONE

A command that only shows something asks `session.partial`: brokers that do not answer are in the
table `problem`, and the command ends with 3. One that changes something asks `session.admin`, which
raises.
"""

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

from roquet.cli.admin_commands.access import Access, access_of, define_access
from roquet.cli.admin_commands.failures import (
    DONE,
    FAILED,
    NOT_FOUND,
    UNREACHABLE,
    Failed,
    failure_of,
)
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.missing import MissingBroker
from roquet.client.errors import ClientError, Unreachable
from roquet.errors import RoquetError
from roquet.net.loop import run, stop_signals
from roquet.reporting import Report, Reporter, ReportTable


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with: its arguments, the cluster, the output."""

    given: Namespace
    access: Access
    admin: AsyncAdmin
    # The same, for answers without the brokers that do not answer.
    partial: AsyncAdmin
    reporter: Reporter

    def finish(self, report: Report) -> None:
        """Prints the result, and which brokers it is without."""
        if missing := self.partial.missing:
            report = report._replace(tables=[*report.tables, _missing_table(missing)])
        self.reporter.finish(report)


# Returns the exit code; raises RoquetError.
Act = Callable[[Session], Awaitable[int]]


@final
class Commands:
    """The commands of one group, as `topic`."""

    def __init__(self, parser: ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(self, name: str, summary: str, act: Act, more: str = "") -> ArgumentParser:
        """`more` is shown by --help only. Add its options to the returned parser."""
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
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    define_access(parser)
    parser.set_defaults(run=lambda given: run_act(parser.prog, given, act))


def run_act(command: str, given: Namespace, act: Act) -> int:
    """The exit code. A failure is reported in one line."""
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
        session = Session(given, access, admin, admin.partial(), reporter)
        try:
            exit_code = await act(session)
        except ClientError as error:
            # It may be at a broker that was not asked.
            if failure_of(error, access).exit_code != NOT_FOUND or not session.partial.missing:
                raise
            session.finish(Report({}))
            exit_code = DONE
        return exit_code or _exit_code_in_part(session)


def _exit_code_in_part(session: Session) -> int:
    """Says whether the answer is whole."""
    missing = session.partial.missing
    if not missing:
        return DONE
    names = ", ".join(each.broker_name for each in missing)
    session.reporter.say(f"this answer is not whole, see problem: {names}; why: roquet doctor")
    is_unreachable = any(isinstance(each.error, Unreachable) for each in missing)
    return UNREACHABLE if is_unreachable else FAILED


def _missing_table(missing: Sequence[MissingBroker]) -> ReportTable:
    rows = [(each.broker_name, each.address, each.reason) for each in missing]
    return ReportTable("problem", ("broker", "address", "problem"), rows)


def define_confirmation(parser: ArgumentParser) -> None:
    words = parser.add_mutually_exclusive_group()
    words.add_argument("--yes", action="store_true", help="Do not ask for confirmation.")
    words.add_argument("--dry-run", action="store_true", help="Only show what would be done.")


def is_confirmed(session: Session, question: str) -> bool:
    """Whether to continue, after the effects were shown. Asks at a terminal.

    False is a dry run. Raises Failed without a confirmation.
    """
    if session.given.yes:
        return True
    if session.given.dry_run:
        return False
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        raise Failed("nothing was changed")
    raise Failed("nothing was changed: confirm with --yes")


async def until_stopped(work: Coroutine[Any, Any, object]) -> None:
    """Returns when `work` is done, or cancels it after SIGINT or SIGTERM: that is no failure."""
    with stop_signals() as stop:
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working


async def brokers_named(session: Session, wanted: str) -> list[BrokerInfo]:
    """Master and slaves of a name, the master first; or the one at an address. Raises Failed."""
    known = await session.admin.brokers(with_state=False)
    found = [each for each in known if wanted in (each.broker_name, each.address)]
    if not found:
        names = ", ".join(sorted({each.broker_name for each in known})) or "none"
        raise Failed(f"broker {wanted!r} is not registered; registered brokers: {names}", NOT_FOUND)
    return found


async def broker_name(session: Session, wanted: str | None) -> str | None:
    """The name of the given broker, if one was given. Raises Failed."""
    return None if wanted is None else (await brokers_named(session, wanted))[0].broker_name
