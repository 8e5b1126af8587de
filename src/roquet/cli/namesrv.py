"""`roquet namesrv`: runs a name server until it is told to stop."""

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from roquet.cli.numbers import port_number
from roquet.cli.serving.access_options import access_given, define_access
from roquet.cli.serving.namesrv_process import run_name_server
from roquet.cli.serving.observing_options import define_observing, http_given
from roquet.cli.serving.tls_options import define_tls, tls_given
from roquet.errors import RoquetError


def define(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        help="A properties file of an Apache name server.",
    )
    parser.add_argument("--host", help="The address to listen on. Without it, this machine only.")
    parser.add_argument("--port", type=port_number, help="The port to listen on; 0 takes any.")
    define_access(parser)
    define_tls(parser)
    define_observing(parser)
    # Taken because Apache takes it; means nothing here.
    parser.add_argument("-n", help=SUPPRESS)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    try:
        run_name_server(
            given.config,
            given.host,
            given.port,
            access_given(given) | tls_given(given) | http_given(given),
            given.log,
        )
    except (RoquetError, OSError) as error:
        print(f"roquet namesrv: {error}", file=sys.stderr)
        return 1
    return 0
