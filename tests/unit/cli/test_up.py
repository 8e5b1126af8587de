"""`roquet up`: which addresses it is found at, and what it leaves behind."""

from pathlib import Path

import pytest

from roquet.net.addresses import reachable_host
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import ClusterInfo
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.command_line import roquet
from tests.support.drafts import draft
from tests.support.our_cluster import OurCluster
from tests.support.stores import opened

EVERYWHERE = "0.0.0.0"  # noqa: S104


def registered_addresses(cluster: OurCluster) -> set[str]:
    with BlockingPeer(cluster.name_server) as peer:
        reply = peer.call(RequestCode.GET_BROKER_CLUSTER_INFO)
    table = read_body(ClusterInfo, reply.body).broker_addr_table
    return {address for broker in table.values() for address in broker.broker_addrs.values()}


@pytest.mark.slow
def test_a_wildcard_is_never_registered_but_a_guess(tmp_path: Path) -> None:
    host = reachable_host(EVERYWHERE)
    with OurCluster(tmp_path, "--host", EVERYWHERE) as cluster:
        assert cluster.broker.startswith(f"{host}:")
        assert cluster.name_server.startswith(f"{host}:")
        assert cluster.ready_line.endswith(f" listening-on={EVERYWHERE}")
        assert registered_addresses(cluster) == {cluster.broker}
    assert (
        f"advertised host {host} was detected; set it with --advertise HOST" in cluster.log_tail()
    )


@pytest.mark.slow
def test_an_advertised_host_is_what_clients_get(tmp_path: Path) -> None:
    arguments = ("--host", EVERYWHERE, "--advertise", "localhost")
    with OurCluster(tmp_path, *arguments) as cluster:
        assert cluster.broker.startswith("localhost:")
        assert registered_addresses(cluster) == {cluster.broker}
    assert "was detected" not in cluster.log_tail()


@pytest.mark.slow
def test_a_host_may_be_a_name(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--host", "localhost") as cluster:
        assert registered_addresses(cluster) == {cluster.broker}
        assert "listening-on" not in cluster.ready_line


@pytest.mark.parametrize("command", ["up", "broker", "namesrv"])
def test_a_host_that_is_unknown_is_named(tmp_path: Path, command: str) -> None:
    directory = () if command == "namesrv" else ("--dir", tmp_path)
    finished = roquet(command, "--host", "nowhere.invalid", *directory)
    complaint = f"roquet {command}: cannot resolve host 'nowhere.invalid'\n"
    assert (finished.exit_code, finished.stderr) == (1, complaint)


def left_behind(directory: Path) -> list[Path]:
    return list(directory.glob("roquet-*"))


@pytest.mark.slow
def test_a_cluster_takes_little_space_and_what_a_killed_one_left_goes_with_the_next_start(
    tmp_path: Path,
) -> None:
    cluster = OurCluster(tmp_path)
    cluster.start()
    cluster.kill()
    (left,) = left_behind(tmp_path)
    assert sum(path.stat().st_blocks * 512 for path in left.rglob("*")) < 64 << 20
    with cluster:
        assert not left.exists()
    assert f"removed {left} (" in cluster.log_tail()
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_a_directory_with_large_files_is_gone_on_with(tmp_path: Path) -> None:
    store = tmp_path / "kept" / "broker-a"
    # As an earlier broker has made it.
    with opened(store, commit_log_file_size=32 << 20, queue_file_size=20_000) as made:
        made.append(draft(b"old"))
    with OurCluster(tmp_path, "--dir", str(tmp_path / "kept")):
        pass
    assert {path.stat().st_size for path in (store / "commitlog").iterdir()} == {32 << 20}


@pytest.mark.slow
def test_slaves_are_registered_beside_their_masters(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--brokers", "2", "--replicas", "1") as cluster:
        with BlockingPeer(cluster.name_server) as peer:
            reply = peer.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        table = read_body(ClusterInfo, reply.body).broker_addr_table
        masters = [table[name].broker_addrs[0] for name in ("broker-a", "broker-b")]
        slaves = [table[name].broker_addrs[1] for name in ("broker-a", "broker-b")]
        assert cluster.broker == ",".join(masters)
        assert cluster.ready_line.endswith(f" slave={','.join(slaves)}")
