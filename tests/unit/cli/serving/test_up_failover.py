"""`roquet up --failover`: a failover that anybody can see."""

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from roquet import Admin, Message, Producer, TlsConfig
from roquet.broker.replication.failover.own_etcd import EtcdMissing
from roquet.grpc.schema import pb
from tests.support.eventually import wait_until
from tests.support.grpc_client import grpc_client
from tests.support.our_cluster import OurCluster, OurServerFailed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication")]


def masters(cluster: OurCluster, tls: TlsConfig | bool = False) -> list[str]:
    with Admin(cluster.name_server, tls=tls) as admin:
        return [each.address for each in admin.brokers(with_state=False) if each.is_master]


def test_a_slave_steps_in_for_a_process_that_is_killed(tmp_path: Path) -> None:
    words = ("--replicas", "1", "--failover", "--grpc", "127.0.0.1:0")
    with OurCluster(tmp_path, *words) as cluster:
        assert masters(cluster) == [cluster.broker]
        endpoints = cluster.ready_line.partition(" grpc=")[2].split(",")
        ports = [int(each.rpartition(":")[2]) for each in endpoints]
        with Admin(cluster.name_server) as admin:
            admin.create_topic("orders")
        assert [asyncio.run(routed_port(each)) for each in ports] == [ports[0]] * 2
        found = re.search(r"brokerId=1 started as process (\d+)", cluster.log_tail())
        assert found is not None
        os.kill(int(found[1]), signal.SIGKILL)
        slave = re.search(r"slave=(\S+)", cluster.ready_line)
        assert slave is not None
        wait_until(lambda: masters(cluster) == [slave[1]])
        wait_until(lambda: asyncio.run(routed_port(ports[1])) == ports[1])


async def routed_port(port: int) -> int:
    """Where the endpoint at `port` sends its clients."""
    endpoints = pb.Endpoints(scheme=1, addresses=[pb.Address(host="127.0.0.1", port=port)])
    request = pb.QueryRouteRequest(topic=pb.Resource(name="orders"), endpoints=endpoints)
    async with grpc_client(port) as client:
        route = await client.call("QueryRoute", request)
    return int(route.message_queues[0].broker.endpoints.addresses[0].port)


def test_grpc_is_served_where_brokers_listen(tmp_path: Path) -> None:
    words = ("--replicas", "1", "--failover", "--grpc", "0.0.0.0:8081")
    with pytest.raises(OurServerFailed, match=r"--grpc 127\.0\.0\.1:8081"):
        OurCluster(tmp_path, *words).start()


def test_it_works_with_nothing_but_encrypted_connections(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    certificate = directory / "tls" / "certificate.pem"
    words = ("--replicas", "1", "--failover", "--tls", "--dir", str(directory))
    with OurCluster(tmp_path, *words) as cluster:
        assert cluster.ready_line.endswith(f" tls-ca={certificate}")
        tls = TlsConfig(ca_file=certificate)
        assert masters(cluster, tls) == [cluster.broker]
        with Producer(cluster.name_server, "shop", tls=tls) as producer:
            # Only when both have it, so the link works, too.
            producer.send(Message("orders", b"secret"))
        config = (directory / "broker-a-1" / "broker.conf").read_text()
        assert "replication.etcd=https://" in config
        found = re.search(r"brokerId=1 started as process (\d+)", cluster.log_tail())
        slave = re.search(r"slave=(\S+)", cluster.ready_line)
        assert found is not None
        assert slave is not None
        os.kill(int(found[1]), signal.SIGKILL)
        wait_until(lambda: masters(cluster, tls) == [slave[1]])


def test_without_etcd_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OurServerFailed, match="apt-get install etcd-server"):
        OurCluster(tmp_path, "--replicas", "1", "--failover").start()
    assert "failover needs etcd" in str(EtcdMissing())


def test_it_needs_replicas(tmp_path: Path) -> None:
    cluster = OurCluster(tmp_path, "--failover")
    with pytest.raises(OurServerFailed, match="requires --replicas"):
        cluster.start()
