"""What an operator sees of brokers that are not well: doctor, `cluster`, `/ready` and the log."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    BROKER_NAME,
    COPIES,
    CommandRefused,
    Replica,
    ReplicaSet,
    replica_settings,
    voters,
)
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication")]

PATIENCE_S: Final = 60.0
# Far below the 30 s after which brokers register again.
AT_ONCE_S: Final = 10.0
NO_SEND: Final = "no send is safe, all are answered with SLAVE_NOT_AVAILABLE"
ONE: Final = {ACKNOWLEDGE: "one", COPIES: "2"}


class WatchedSet(ReplicaSet):
    """Brokers that have pages, and an operator who looks at everything."""

    def __init__(
        self,
        directory: Path,
        own: Sequence[Mapping[str, str]],
        shared: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        pages = [{"httpListen": f"127.0.0.1:{free_port()}", **each} for each in own]
        super().__init__(directory, pages, shared, **options)

    def shown(self) -> Any:
        """What `roquet cluster` prints, whatever it has found."""
        try:
            return json.loads(self.command("cluster", "--json"))
        except CommandRefused as error:
            return json.loads(str(error).partition(": ")[2])

    def shown_of(self, broker: Replica) -> Any:
        """The row of one broker; None if it has none."""
        rows = {each["address"]: each for each in self.shown()["brokers"]}
        return rows.get(broker.address)


def obstacles(broker: Replica) -> str:
    """What `/ready` says against the broker; blank if it is ready."""
    try:
        answer = page_of(broker.settings["httpListen"], "/ready")
    except OSError as error:
        return str(error)  # It has just started.
    return "" if answer.status == 200 else answer.body.decode()


@pytest.mark.parametrize(
    ("settings", "has_secret"),
    [(ONE, True), ({ACKNOWLEDGE: "quorum", COPIES: "3"}, True), ({}, False)],
    ids=["one", "quorum", "SYNC_MASTER"],
)
def test_a_master_that_lost_its_slave_is_not_well(
    tmp_path: Path, settings: Mapping[str, str], *, has_secret: bool
) -> None:
    with WatchedSet(tmp_path, replica_settings(2), settings, has_secret=has_secret) as on:
        master, slave = on.brokers
        on.start()
        wait_until(lambda: not obstacles(master), PATIENCE_S)
        row = on.shown_of(master)
        assert (row["slaves"], row["lag_bytes"], row["problem"]) == (1, 0, None)
        slave.kill()
        wait_until(lambda: NO_SEND in obstacles(master), PATIENCE_S)
        row = on.shown_of(master)
        assert (row["slaves"], row["lag_bytes"], row["lag_s"]) == (0, None, None)
        assert row["acknowledge"] == settings.get(ACKNOWLEDGE, "one")
        assert NO_SEND in row["problem"]
        assert NO_SEND in on.examined()
        wait_until(lambda: NO_SEND in master.log_tail(), PATIENCE_S)
        slave.start()
        wait_until(lambda: not obstacles(master), PATIENCE_S)
        assert on.shown_of(master)["problem"] is None


@pytest.mark.skipif(missing_etcd() is not None, reason=str(missing_etcd()))
def test_an_elected_master_whose_predecessor_is_dead_is_not_well(tmp_path: Path) -> None:
    with WatchedSet(tmp_path, voters(2), ONE, etcd_count=1) as on:
        master, slave = on.brokers
        on.start()
        assert on.until_in_sync(master, [1, 2])
        master.kill()
        wait_until(lambda: slave.is_master, PATIENCE_S)
        wait_until(lambda: NO_SEND in obstacles(slave), PATIENCE_S)
        row = on.shown_of(slave)
        # The dead one is in the set still, because only it may be elected beside this one.
        assert (row["in_sync"], row["slaves"], row["lag_bytes"]) == ("1,2", 0, None)
        assert NO_SEND in row["problem"]
        assert NO_SEND in on.examined()


def test_two_brokers_of_one_name_are_named_everywhere(tmp_path: Path) -> None:
    alone = {"brokerRole": "ASYNC_MASTER", "registerNameServerPeriod": "30000"}
    with WatchedSet(tmp_path, [alone, alone], has_secret=False) as on:
        first, intruder = on.brokers
        first.start()
        wait_until(lambda: on.routed_master() == first.address, PATIENCE_S)
        intruder.start()
        both = (first.address, intruder.address)
        wait_until(lambda: all(each in obstacles(intruder) for each in both), PATIENCE_S)
        assert all(each in on.shown_of(intruder)["problem"] for each in both)
        lines = on.examined().split("\n")
        assert any(all(each in line for each in both) for line in lines)
        # The first learns of it when it registers again.
        wait_until(lambda: all(each in obstacles(first) for each in both), PATIENCE_S)
        wait_until(lambda: on.routed_master() == intruder.address, PATIENCE_S)
        intruder.kill()
        wait_until(lambda: on.routed_master() == first.address, AT_ONCE_S)
        assert [each["address"] for each in on.shown()["lost"]] == [intruder.address]
        assert on.shown_of(first)["broker"] == BROKER_NAME
