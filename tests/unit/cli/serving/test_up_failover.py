"""`roquet up --failover`: a failover that anybody can see."""

import os
import re
import signal
from pathlib import Path

import pytest

from roquet import Admin, Message, Producer, TlsConfig
from roquet.broker.replication.failover.own_etcd import EtcdMissing
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurCluster, OurServerFailed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication")]


def masters(cluster: OurCluster, tls: TlsConfig | bool = False) -> list[str]:
    with Admin(cluster.name_server, tls=tls) as admin:
        return [each.address for each in admin.brokers(with_state=False) if each.is_master]


def test_a_slave_steps_in_for_a_process_that_is_killed(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--replicas", "1", "--failover") as cluster:
        assert masters(cluster) == [cluster.broker]
        found = re.search(r"brokerId=1 started as process (\d+)", cluster.log_tail())
        assert found is not None
        os.kill(int(found[1]), signal.SIGKILL)
        slave = re.search(r"slave=(\S+)", cluster.ready_line)
        assert slave is not None
        wait_until(lambda: masters(cluster) == [slave[1]])


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
