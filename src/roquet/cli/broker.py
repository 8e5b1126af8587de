"""`roquet broker`: runs a broker until it is told to stop."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from roquet.cli.argument_types import port_number, reachable_host_name, whole_number
from roquet.cli.serving.broker_process import PROCESS_COUNT_MAX, BrokerOptions, run_broker
from roquet.cli.serving.options import (
    access_given,
    define_access,
    define_monitoring,
    define_tls,
    http_given,
    tls_given,
)
from roquet.errors import RoquetError


def define(parser: ArgumentParser) -> None:
    parser.epilog = (
        "One that runs is looked after with: roquet broker status, roquet broker config, roquet"
        " broker writes, roquet broker promote, roquet broker demote."
    )
    parser.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        help="A properties file of an Apache broker.",
    )
    parser.add_argument(
        "-n",
        "--name-server",
        metavar="ADDRESSES",
        help="host:port of name servers, joined by ';', or http://host:port/path of a page that"
        " names them. Without it, what the file says, or NAMESRV_ADDR in the environment.",
    )
    parser.add_argument("--dir", type=Path, metavar="DIR", help="Where messages are kept.")
    parser.add_argument("--host", help="The address to listen on. Without it, this machine only.")
    parser.add_argument(
        "--advertise",
        type=reachable_host_name,
        metavar="HOST",
        help="The address that clients are told. Without it, the one that is listened on, or a"
        " guess if that is 0.0.0.0.",
    )
    parser.add_argument("--port", type=port_number, help="The port to listen on; 0 takes any.")
    parser.add_argument(
        "--processes",
        type=whole_number(1, PROCESS_COUNT_MAX),
        default=1,
        metavar="COUNT",
        help="How many brokers, each with a name, a directory and ports (10 apart) of its own; one"
        " if left out. A core is for one of them.",
    )
    parser.add_argument(
        "--found",
        action="store_true",
        help="With replication.etcd: be the first master with the store as it is, although etcd has"
        " lost what it knew of this broker name. Only for the broker with the longest log.",
    )
    define_access(parser)
    define_tls(parser)
    define_monitoring(parser)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    try:
        run_broker(
            BrokerOptions(
                config_file=given.config,
                name_servers=given.name_server,
                directory=given.dir,
                host=given.host,
                advertised_host=given.advertise,
                port=given.port,
                process_count=given.processes,
                is_to_found=given.found,
                settings=access_given(given) | tls_given(given) | http_given(given),
                log_form=given.log,
            )
        )
    except (RoquetError, OSError) as error:
        print(f"roquet broker: {error}", file=sys.stderr)
        return 1
    return 0
