"""The etcd of the rigs loses its leader and goes on, as an etcd of three has to."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd_members import EtcdMember, etcd_members, leader_of, missing_etcd
from tests.support.namespaces import Drop, Network, missing_network

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
REASON = missing_network() or missing_etcd() or (None if IS_LONG else "needs ROQUET_LONG=1")
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.slow,
    pytest.mark.xdist_group("faults-0"),
]

HOSTS = ("a", "b", "c")


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(*HOSTS, "clients") as network, network.inside("clients"):
        yield network


@pytest.fixture
def members(network: Network, tmp_path: Path) -> Iterator[list[EtcdMember]]:
    with etcd_members(tmp_path, network, *HOSTS) as members:
        yield members


def test_a_leader_that_is_killed_has_a_successor(members: list[EtcdMember]) -> None:
    first = leader_of(members)
    first.kill()
    second = leader_of([each for each in members if each is not first])
    assert second.can_write()


def test_a_leader_that_is_cut_off_can_write_nothing(
    network: Network, members: list[EtcdMember]
) -> None:
    first = leader_of(members)
    others = [each for each in members if each is not first]
    ends = [(first.host, each.host) for each in others]
    drops = [Drop(*pair) for one, other in ends for pair in ((one, other), (other, one))]
    with network.dropping(*drops):
        assert leader_of(others).can_write()
        assert not first.can_write()
    leader_of(members)
