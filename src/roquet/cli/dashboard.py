"""`roquet dashboard`: the cluster as pages in a browser."""

import getpass
import os
import sys
from argparse import ArgumentParser, Namespace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roquet.cli.admin_commands.access import Access, access_of, define_access
from roquet.cli.admin_commands.failures import DONE, Failed, failure_of
from roquet.cli.argument_types import port_number, time_span
from roquet.cli.serving.log_lines import log_to_stderr
from roquet.cli.serving.options import define_log
from roquet.cli.spark.arguments import define_storage, place_text
from roquet.dashboard.errors import check_installed, check_lakes_installed
from roquet.errors import RoquetError
from roquet.net.loop import run, stop_signals
from roquet.protocol.host import Address

if TYPE_CHECKING:
    from roquet.dashboard.pipelines import LakeReader

PORT_DEFAULT: Final = 8088


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Show the cluster as pages in a browser, until SIGINT or SIGTERM: brokers, topics, groups"
        " and messages. Prints a line that starts with 'ready' once it listens. Changes nothing"
        " unless --allow-changes is given."
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="Address to listen on. Default: %(default)s, for this machine only; any other requires"
        " a login.",
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=PORT_DEFAULT,
        help="Default: %(default)s; 0 takes any free port.",
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="Allow viewers to change topics, move groups, and send messages.",
    )
    parser.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="Users who may log in. Without it, on another address than loopback, administrators"
        " among the accounts of the cluster may.",
    )
    parser.add_argument(
        "--new-password",
        metavar="NAME",
        help="Ask for a password, print the line of the password file for this user, and exit.",
    )
    parser.add_argument(
        "--interval",
        type=time_span,
        default=timedelta(seconds=5),
        metavar="SPAN",
        help="Interval between two polls of the cluster, however many viewers there are. Default:"
        " 5s.",
    )
    parser.add_argument(
        "--prometheus",
        metavar="URL",
        help="A Prometheus that scrapes the brokers, such as http://127.0.0.1:9090: charts reach"
        " further back than the day in memory.",
    )
    parser.add_argument(
        "--lake",
        action="append",
        default=[],
        type=place_text,
        metavar="DIR|URI",
        help="Show the state of this lake of roquet spark ingest, by its own log. Repeatable.",
    )
    define_storage(parser)
    define_log(parser)
    define_access(parser)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    access = None
    try:
        if given.new_password is not None:
            return _print_password_line(given.new_password)
        check_installed()
        access = access_of(given, os.environ)
        log_to_stderr(given.log)
        run(_serve(given, access))
    except RoquetError as error:
        failure = failure_of(error, access)
        print(f"roquet dashboard: {failure.text}", file=sys.stderr)
        return failure.exit_code
    return DONE


async def _serve(given: Namespace, access: Access) -> None:
    # Loaded when it is known to be installed.
    from roquet.dashboard.web.server import DashboardConfig, serve_dashboard  # noqa: PLC0415

    config = DashboardConfig(
        place=Address(given.host, given.port),
        name_server=access.name_server,
        options=access.options(),
        allows_changes=given.allow_changes,
        password_file=given.password_file,
        poll_s=given.interval.total_seconds(),
        lakes=_lakes(given),
        prometheus=given.prometheus,
    )
    with stop_signals() as stop:
        async with serve_dashboard(config) as place:
            print(f"ready dashboard=http://{place}/", flush=True)
            await stop.wait()


def _lakes(given: Namespace) -> tuple["LakeReader", ...]:
    """Raises NotInstalled."""
    if not given.lake:
        return ()
    check_lakes_installed()
    # Loaded only when needed: Arrow comes with them.
    from roquet.cli.lake_reports import LakeReporter  # noqa: PLC0415
    from roquet.pipeline.lake.places import read_place  # noqa: PLC0415

    return tuple(LakeReporter(read_place(each, given.storage_options)) for each in given.lake)


def _print_password_line(user: str) -> int:
    # Loaded only when needed.
    from roquet.dashboard.web.logins import password_line  # noqa: PLC0415

    if sys.stdin.isatty():
        password = getpass.getpass()
        if getpass.getpass("Again: ") != password:
            raise Failed("the passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise Failed("the password is empty")
    print(password_line(user, password))
    return DONE
