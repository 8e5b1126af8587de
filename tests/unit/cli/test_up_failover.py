"""`roquet up --failover`: a failover that anybody can see."""

import os
import re
import signal
from pathlib import Path

import pytest

from roquet import Admin
from roquet.broker.replication.failover.own_etcd import EtcdMissing
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurCluster, OurServerFailed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication")]


def masters(cluster: OurCluster) -> list[str]:
    with Admin(cluster.name_server) as admin:
        return [each.address for each in admin.brokers(with_state=False) if each.is_master]


def test_a_slave_steps_in_for_a_process_that_is_killed(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--replicas", "1", "--failover") as cluster:
        assert masters(cluster) == [cluster.broker]
        found = re.search(r"brokerId=1 is process (\d+)", cluster.log_tail())
        assert found is not None
        os.kill(int(found[1]), signal.SIGKILL)
        slave = re.search(r"slave=(\S+)", cluster.said_ready)
        assert slave is not None
        wait_until(lambda: masters(cluster) == [slave[1]])


def test_without_etcd_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OurServerFailed, match="apt-get install etcd-server"):
        OurCluster(tmp_path, "--replicas", "1", "--failover").start()
    assert "failover needs etcd" in str(EtcdMissing())


def test_it_needs_replicas(tmp_path: Path) -> None:
    cluster = OurCluster(tmp_path, "--failover")
    with pytest.raises(OurServerFailed, match="needs --replicas"):
        cluster.start()
