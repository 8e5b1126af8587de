"""Stories of brokers with replicas, or of one name: doctor, `cluster`, `/ready` and the log."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from roquet import Admin, Message, Producer
from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    BROKER_NAME,
    COPIES,
    CommandRefused,
    Replica,
    ReplicaSet,
    replica_settings,
    until_known,
    voters,
)
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.our_cluster import PROGRAM
from tests.support.ports import free_port
from tests.support.topics import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication")]

PATIENCE_S: Final = 60.0
# Far below the 20 s after which brokers register again.
AT_ONCE_S: Final = 10.0
NO_SEND: Final = "no send is safe, all are answered with SLAVE_NOT_AVAILABLE"
TOPIC: Final = "orders"
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

    def command_alone(self, *words: str) -> str:
        """A command with a name server, or one that needs none."""
        done = subprocess.run(
            [PROGRAM, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        if done.returncode:
            raise CommandRefused(done.stdout + done.stderr)
        return done.stdout

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
        # The dead one stays in the set for a while.
        assert row["in_sync"] in ("1,2", "2")
        assert (row["slaves"], row["lag_bytes"]) == (0, None)
        assert NO_SEND in row["problem"]
        assert NO_SEND in on.examined()


def test_what_a_switch_leaves_behind_is_shown_and_sent_again_once(tmp_path: Path) -> None:
    with WatchedSet(tmp_path, replica_settings(2, "ASYNC_MASTER"), {COPIES: "2"}) as on:
        old, new = on.brokers
        on.start()
        create_topic(old.address, TOPIC)
        until_known(TOPIC, new)
        assert on.until_followed(old, new)
        new.kill()
        with Producer(on.name_server, "till") as producer:
            sent = [
                producer.send(Message(TOPIC, b"%d" % number, keys=(f"k{number}",))).message_id
                for number in range(3)
            ]
        old.kill()
        new.start()
        on.promote(new)
        old.start()
        wait_until(lambda: old.cut_off, PATIENCE_S)
        wait_until(lambda: on.shown()["displaced"], PATIENCE_S)
        (row,) = on.shown()["displaced"]
        assert (row["address"], row["displaced_by"]) == (old.address, new.address)
        assert (row["was_master_in_epoch"], row["in_epoch"]) == (1, 2)
        assert row["since"]
        assert (row["divergent_messages"], row["not_resent"]) == (3, 3)
        assert "3 messages that no other replica had were cut off its log" in on.examined()

        words = ("store", "divergent", str(old.store_directory), "--json")
        shown = json.loads(on.command_alone(*words))
        assert [each["message_id"] for each in shown["divergent"] if not each["resent"]] == sent
        resend = ("--resend", "-n", on.name_server)
        with pytest.raises(CommandRefused, match="3 messages would be; confirm with --yes"):
            on.command_alone(*words, *resend)
        on.command_alone(*words, *resend, "--yes")
        assert json.loads(on.command_alone(*words, *resend, "--yes"))["to_resend"] == 0
        with Admin(on.name_server) as admin:
            found = [admin.messages_by_key(TOPIC, f"k{number}") for number in range(3)]
        assert [[each.body for each in some] for some in found] == [[b"0"], [b"1"], [b"2"]]
        marks = [some[0].properties["DIVERGENT_MESSAGE_ID"] for some in found]
        assert marks == sent
        assert on.shown()["displaced"][0]["not_resent"] == 0
        assert "were cut off its log" not in on.examined()


@pytest.mark.full("waits until two brokers have registered in turns; twins are a rig, too")
def test_two_brokers_of_one_name_are_named_everywhere(tmp_path: Path) -> None:
    alone = {"brokerRole": "ASYNC_MASTER", "registerNameServerPeriod": "20000"}
    with WatchedSet(tmp_path, [alone, alone], has_secret=False) as on:
        first, intruder = on.brokers
        first.start()
        wait_until(lambda: on.routed_master() == first.address, PATIENCE_S)
        intruder.start()
        both = (first.address, intruder.address)
        wait_until(lambda: all(each in obstacles(intruder) for each in both), PATIENCE_S)
        # The first learns of it at once, too, not when it registers again.
        wait_until(lambda: all(each in obstacles(first) for each in both), AT_ONCE_S)
        (row,) = on.shown()["brokers"]
        assert all(each in row["problem"] for each in both)
        lines = on.examined().split("\n")
        assert any(all(each in line for each in both) for line in lines)
        wait_until(lambda: on.routed_master() == intruder.address, PATIENCE_S)
        intruder.kill()
        wait_until(lambda: on.routed_master() == first.address, AT_ONCE_S)
        wait_until(lambda: not obstacles(first), AT_ONCE_S)
        assert [each["address"] for each in on.shown()["lost"]] == [intruder.address]
        assert on.shown_of(first)["broker"] == BROKER_NAME
