"""The table of brokers that left without unregistering, without sockets."""

from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.namesrv import lost_brokers
from roquet.namesrv.lost_brokers import KEPT_MS, LostBrokers
from roquet.namesrv.route_table import BrokerIdentity
from roquet.state_file import StateFile
from tests.support.fake_clock import FakeClock

MASTER = BrokerIdentity("c", "a", 0, "10.0.0.1:10911")
SLAVE = BrokerIdentity("c", "a", 1, "10.0.0.2:10911")
OTHER = BrokerIdentity("c", "b", 0, "10.0.0.3:10911")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lost(clock: FakeClock) -> LostBrokers:
    return LostBrokers(clock)


def names(lost: LostBrokers) -> list[str]:
    return [each.broker_addr for each in lost.known()]


def test_a_lost_broker_is_lost_since_its_last_sign_of_life(
    lost: LostBrokers, clock: FakeClock
) -> None:
    lost.note(MASTER, "no heartbeat", silent_s=120.5)
    (found,) = lost.known()
    assert found.lost_since == clock.now_ms() - 120_500
    assert (found.cluster_name, found.broker_name, found.broker_id, found.reason) == (
        "c",
        "a",
        0,
        "no heartbeat",
    )


def test_the_one_lost_first_comes_first_and_a_second_loss_counts_again(lost: LostBrokers) -> None:
    for identity in (MASTER, OTHER, MASTER):
        lost.note(identity, "closed")
    assert names(lost) == [OTHER.address, MASTER.address]


def test_a_broker_that_registers_again_is_not_lost(lost: LostBrokers) -> None:
    lost.note(MASTER, "closed")
    lost.returned(MASTER._replace(broker_id=2), is_new=True)
    assert names(lost) == []


def test_a_new_broker_replaces_the_lost_one_of_its_name_and_id(lost: LostBrokers) -> None:
    lost.note(MASTER, "closed")
    lost.returned(OTHER, is_new=True)
    assert names(lost) == [MASTER.address]
    lost.returned(MASTER._replace(address="10.0.0.9:10911"), is_new=True)
    assert names(lost) == []


def test_a_promoted_slave_does_not_hide_that_its_master_is_lost(lost: LostBrokers) -> None:
    lost.note(MASTER, "closed")
    lost.returned(SLAVE._replace(broker_id=0), is_new=False)
    assert names(lost) == [MASTER.address]


def test_a_broker_that_is_unregistered_is_forgotten(lost: LostBrokers) -> None:
    lost.note(MASTER, "closed")
    assert lost.forget(MASTER.key)
    assert not lost.forget(MASTER.key)
    assert names(lost) == []


def test_a_day_is_enough(lost: LostBrokers, clock: FakeClock) -> None:
    changes: list[int] = []
    lost.note(MASTER, "closed")
    lost.on_change = lambda: changes.append(1)
    clock.advance(KEPT_MS / 1000)
    lost.expire()
    assert names(lost) == [MASTER.address]
    assert changes == []
    clock.advance(0.001)
    assert names(lost) == []
    lost.expire()
    assert changes == [1]


def test_the_longest_lost_makes_room(lost: LostBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_brokers, "LOST_COUNT_MAX", 2)
    for identity in (MASTER, SLAVE, OTHER):
        lost.note(identity, "closed")
    assert names(lost) == [SLAVE.address, OTHER.address]


def test_a_server_that_stops_loses_no_broker(lost: LostBrokers) -> None:
    lost.close()
    lost.note(MASTER, "closed")
    assert names(lost) == []


def test_the_table_survives_a_restart(lost: LostBrokers, clock: FakeClock, tmp_path: Path) -> None:
    file = StateFile(SystemDisk(), tmp_path / lost_brokers.FILE_NAME)
    lost.load(file)
    lost.note(MASTER, "closed")
    lost.note(OTHER, "closed")
    file.save(lost.to_bytes())
    restarted = LostBrokers(clock)
    restarted.load(StateFile(SystemDisk(), tmp_path / lost_brokers.FILE_NAME))
    assert restarted.known() == lost.known()


def test_a_damaged_table_is_set_aside(
    lost: LostBrokers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / lost_brokers.FILE_NAME
    path.write_bytes(b'{"brokers":7}')
    lost.load(StateFile(SystemDisk(), path))
    assert names(lost) == []
    assert "starting without the table of lost brokers" in caplog.text
    assert path.with_name(path.name + ".damaged").exists()
