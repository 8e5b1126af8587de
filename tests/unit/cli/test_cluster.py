"""`roquet cluster`."""

import json

import pytest

from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import Shop


def test_what_is_printed(at: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    check_snapshot(monkeypatch, "cluster", "cluster")


def test_a_broker_that_is_gone_is_a_problem(roquet_cluster: BlockingCluster) -> None:
    address = roquet_cluster.name_server
    with dead_broker(address, "broker-z"):
        finished = roquet("cluster", "-n", address, "--timeout", "2", "--json")
    problems = {each["broker"]: each["problem"] for each in json.loads(finished.stdout)["brokers"]}
    assert finished.exit_code == 1
    assert problems["broker-a"] is None
    assert "cannot be asked" in problems["broker-z"]
