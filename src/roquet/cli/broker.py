"""`roquet broker`: runs a broker until SIGINT or SIGTERM."""

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
        "Commands for a running broker: roquet broker status, roquet broker config, roquet broker"
        " writes, roquet broker promote, roquet broker demote."
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
        help="host:port of name servers, separated by ';', or http://host:port/path of a page that"
        " lists them. Default: namesrvAddr of the file, or NAMESRV_ADDR in the environment.",
    )
    parser.add_argument("--dir", type=Path, metavar="DIR", help="Directory of the store.")
    parser.add_argument(
        "--host", help="Address to listen on. Default: that of the file, or 127.0.0.1."
    )
    parser.add_argument(
        "--advertise",
        type=reachable_host_name,
        metavar="HOST",
        help="Host that clients connect to. Default: the listen address; if that is 0.0.0.0, it is"
        " detected and logged.",
    )
    parser.add_argument(
        "--port", type=port_number, help="Port to listen on; 0 takes any free port."
    )
    parser.add_argument(
        "--processes",
        type=whole_number(1, PROCESS_COUNT_MAX),
        default=1,
        metavar="COUNT",
        help="Number of brokers, each a process with its own name, directory and ports (10 apart)."
        " A broker uses one core. Default: %(default)s.",
    )
    parser.add_argument(
        "--found",
        action="store_true",
        help="With replication.etcd: become the first master with the existing store, although etcd"
        " has lost its record of this broker name. Only for the broker with the longest log.",
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
