"""`roquet up`: a whole cluster as one command."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.argument_types import port_number, reachable_host_name, whole_number
from roquet.cli.serving.options import define_monitoring, listen_place
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
        "Run a name server and brokers until SIGINT or SIGTERM. Prints a line that starts with"
        " 'ready' once clients can connect."
    )
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="Directory for messages. If omitted, messages are deleted when the cluster stops.",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="Address to listen on. Default: %(default)s, for this machine only.",
    )
    parser.add_argument(
        "--advertise",
        type=reachable_host_name,
        metavar="HOST",
        help="Host that clients connect to. Default: the listen address; if that is 0.0.0.0, it is"
        " detected and logged.",
    )
    parser.add_argument(
        "--name-server-port",
        type=port_number,
        default=9876,
        metavar="PORT",
        help="Default: %(default)s; 0 takes any free port.",
    )
    parser.add_argument(
        "--broker-port",
        type=port_number,
        default=10911,
        metavar="PORT",
        help="Port of the first broker; the next one is 10 higher. Default: %(default)s; 0 takes"
        " free ports.",
    )
    parser.add_argument(
        "--brokers",
        type=whole_number(1, BROKER_COUNT_MAX),
        default=1,
        metavar="COUNT",
        help="Number of brokers. Default: %(default)s.",
    )
    parser.add_argument(
        "--replicas",
        type=whole_number(0, REPLICA_COUNT_MAX),
        default=0,
        metavar="COUNT",
        help="Number of slaves per broker, which replicate its messages. Default: %(default)s.",
    )
    parser.add_argument(
        "--failover",
        action="store_true",
        help="Elect a slave when its master fails. Every broker is a process of its own, and etcd,"
        " which has to be installed, is started with them. Requires --replicas.",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="Accept TLS only, with a generated certificate; the ready line names its file.",
    )
    parser.add_argument(
        "--dashboard",
        type=listen_place,
        metavar="HOST:PORT",
        help="Serve the dashboard, read-only. A port alone listens on this machine only; 0 takes"
        " any free port. Default: off.",
    )
    define_monitoring(parser)
    parser.add_argument(
        "--grpc",
        type=listen_place,
        metavar="HOST:PORT",
        help="Serve SDKs of RocketMQ 5.x, by gRPC; further brokers take the ports after it."
        " A port alone listens on this machine only; 0 takes any free port. Default: off.",
    )
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
                dashboard_place=given.dashboard,
                grpc_place=given.grpc,
                log_form=given.log,
                has_failover=given.failover,
            )
        )
    except (RoquetError, OSError) as error:
        print(f"roquet up: {error}", file=sys.stderr)
        return 1
    return 0


def _no_failover(given: Namespace) -> str | None:
    """Why --failover cannot be used, or None."""
    if not given.replicas:
        return "requires --replicas"
    if given.dashboard:
        return "cannot be combined with --dashboard; run roquet dashboard beside it"
    if given.http:
        return "cannot be combined with --http"
    if given.grpc and given.grpc.ip != given.host:
        return f"its brokers serve gRPC where they listen: --grpc {given.host}:{given.grpc.port}"
    return None
