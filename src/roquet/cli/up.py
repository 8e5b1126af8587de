"""`roquet up`: a whole cluster as one command."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.argument_types import port_number, reachable_host_name, whole_number
from roquet.cli.serving.options import define_monitoring
from roquet.cli.serving.up_cluster import (
    BROKER_COUNT_MAX,
    REPLICA_COUNT_MAX,
    ClusterPlan,
    run_cluster,
)
from roquet.errors import RoquetError

_MISUSED: Final = 2


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Run a name server and brokers until SIGINT or SIGTERM; one line on stdout says ready."
    )
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="Where messages are kept. Without it they are gone when the cluster stops.",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="The address to listen on. Without it, this machine only.",
    )
    parser.add_argument(
        "--advertise",
        type=reachable_host_name,
        metavar="HOST",
        help="The address that clients are told. Without it, the one that is listened on, or a"
        " guess if that is 0.0.0.0.",
    )
    parser.add_argument(
        "--name-server-port",
        type=port_number,
        default=9876,
        metavar="PORT",
        help="%(default)s if left out; 0 takes any free port.",
    )
    parser.add_argument(
        "--broker-port",
        type=port_number,
        default=10911,
        metavar="PORT",
        help="Of the first broker, the others follow. %(default)s if left out; 0 takes any free"
        " ports.",
    )
    parser.add_argument(
        "--brokers",
        type=whole_number(1, BROKER_COUNT_MAX),
        default=1,
        metavar="COUNT",
        help="How many brokers; one if left out.",
    )
    parser.add_argument(
        "--replicas",
        type=whole_number(0, REPLICA_COUNT_MAX),
        default=0,
        metavar="COUNT",
        help="How many slaves each broker has, which copy what it takes; none if left out.",
    )
    parser.add_argument(
        "--failover",
        action="store_true",
        help="A slave steps in for a master that is lost: every broker is a process of its own, and"
        " an etcd is started with them, which has to be installed. Needs --replicas.",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="Speak nothing but TLS, with a certificate that is made for it; the line that says"
        " ready names its file.",
    )
    define_monitoring(parser)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    if given.failover and (reason := _no_failover(given)) is not None:
        print(f"roquet up: --failover: {reason}", file=sys.stderr)
        return _MISUSED
    try:
        run_cluster(
            ClusterPlan(
                directory=given.dir,
                host=given.host,
                advertised_host=given.advertise,
                name_server_port=given.name_server_port,
                broker_port=given.broker_port,
                broker_count=given.brokers,
                replica_count=given.replicas,
                is_encrypted=given.tls,
                http_place=given.http,
                log_form=given.log,
                has_failover=given.failover,
            )
        )
    except (RoquetError, OSError) as error:
        print(f"roquet up: {error}", file=sys.stderr)
        return 1
    return 0


def _no_failover(given: Namespace) -> str | None:
    """What it does not go together with."""
    if not given.replicas:
        return "needs --replicas"
    return "not with --http" if given.http else None
