"""`roquet up`: which addresses it is found at, and what it leaves behind."""

from pathlib import Path

import pytest

from roquet.net.own_addresses import reachable_host
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.route import ClusterInfo
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.command_line import roquet
from tests.support.our_cluster import OurCluster

EVERYWHERE = "0.0.0.0"  # noqa: S104


def registered_addresses(cluster: OurCluster) -> set[str]:
    with BlockingPeer(cluster.name_server) as peer:
        reply = peer.call(RequestCode.GET_BROKER_CLUSTER_INFO)
    table = read_body(ClusterInfo, reply.body).broker_addr_table
    return {address for broker in table.values() for address in broker.broker_addrs.values()}


def test_a_wildcard_is_never_registered_but_a_guess(tmp_path: Path) -> None:
    host = reachable_host(EVERYWHERE)
    with OurCluster(tmp_path, "--host", EVERYWHERE) as cluster:
        assert cluster.broker.startswith(f"{host}:")
        assert cluster.name_server.startswith(f"{host}:")
        assert cluster.said_ready.endswith(f" listening-on={EVERYWHERE}")
        assert registered_addresses(cluster) == {cluster.broker}
    assert f"clients are told {host}, which is a guess; --advertise HOST" in cluster.log_tail()


def test_an_advertised_host_is_what_clients_are_told(tmp_path: Path) -> None:
    arguments = ("--host", EVERYWHERE, "--advertise", "localhost")
    with OurCluster(tmp_path, *arguments) as cluster:
        assert cluster.broker.startswith("localhost:")
        assert registered_addresses(cluster) == {cluster.broker}
    assert "a guess" not in cluster.log_tail()


def test_a_host_may_be_a_name(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--host", "localhost") as cluster:
        assert registered_addresses(cluster) == {cluster.broker}
        assert "listening-on" not in cluster.said_ready


@pytest.mark.parametrize("command", ["up", "broker", "namesrv"])
def test_a_host_that_nobody_knows_is_named(tmp_path: Path, command: str) -> None:
    directory = () if command == "namesrv" else ("--dir", tmp_path)
    finished = roquet(command, "--host", "nowhere.invalid", *directory)
    complaint = f"roquet {command}: no address is known for host 'nowhere.invalid'\n"
    assert (finished.exit_code, finished.stderr) == (1, complaint)
