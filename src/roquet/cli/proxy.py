"""`roquet proxy`: SDKs of RocketMQ 5.x reach a cluster through it, by gRPC."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from roquet.cli.admin_commands.access import Access, access_of, define_access
from roquet.cli.admin_commands.failures import DONE, FAILED, MISUSED, Failed, failure_of
from roquet.cli.serving.log_lines import log_to_stderr
from roquet.cli.serving.options import (
    define_access as define_accounts,
    define_log,
    define_tls,
    listen_place,
    reloads_on_hangup,
    tls_given,
)
from roquet.clock import SystemClock
from roquet.errors import RoquetError
from roquet.net.loop import raise_file_limit, relax_garbage_collection, run_server, stop_signals
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.settings import TlsSettings, read_tls
from roquet.protocol.host import Address

PLACE_DEFAULT: Final = Address("127.0.0.1", 8081)


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Run a proxy until SIGINT or SIGTERM: SDKs of RocketMQ 5.x reach a cluster through it, by"
        " gRPC. Its brokers may be of Roquet or of Apache 5.x; to those of 4.x messages can be"
        " sent, but not received from. Prints a line that starts with 'ready' once it listens."
    )
    parser.add_argument(
        "--listen",
        type=listen_place,
        default=PLACE_DEFAULT,
        metavar="HOST:PORT",
        help="Address to listen on. A port alone listens on this machine only; 0 takes any free"
        " port. Default: %(default)s.",
    )
    define_accounts(parser)
    define_tls(parser, "--listen-tls")
    define_log(parser)
    define_access(parser)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    access = None
    try:
        access = access_of(given, os.environ)
        if given.namespace is not None:
            text = "--namespace: a proxy has none; names of its clients are used as they are"
            raise Failed(text, MISUSED)
        log_to_stderr(given.log)
        raise_file_limit()
        run_server(_serve(given, access, read_tls(tls_given(given)).settings))
    except RoquetError as error:
        failure = failure_of(error, access)
        print(f"roquet proxy: {failure.text}", file=sys.stderr)
        return failure.exit_code
    except OSError as error:
        print(f"roquet proxy: {error}", file=sys.stderr)
        return FAILED
    return DONE


async def _serve(given: Namespace, access: Access, own_tls: TlsSettings) -> None:
    # Loaded only here: it says what is missing, if it is not installed.
    from roquet.grpc import load_proxy  # noqa: PLC0415

    serve_proxy = load_proxy()
    from roquet.grpc.proxy.server import ProxyConfig  # noqa: PLC0415

    config = ProxyConfig(
        place=given.listen,
        name_server=access.name_server,
        timeout_s=access.timeout_s,
        credentials=access.credentials,
        tls=access.tls,
        accounts_file=given.acl_file,
    )
    clock = SystemClock()
    with stop_signals() as stop, reloads_on_hangup(has_files=own_tls.has_files) as reloading:
        tls = ServerTls(own_tls, clock)
        reloading.append(tls)
        async with serve_proxy(config, tls, clock) as place:
            relax_garbage_collection()
            print(f"ready grpc={place}", flush=True)
            await stop.wait()
