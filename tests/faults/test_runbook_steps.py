"""What docs/replication.md tells an operator to do, done: its commands are read from the page.

Every entry of its runbook has a test, here or in `test_runbook.py`; one that is new is missed.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from tests.faults import test_runbook
from tests.faults.ledgers import Ledger, Outcome
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
from tests.support.blocking_peer import BlockingPeer
from tests.support.certificates import Authority
from tests.support.common_requests import common_send_header
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import happens, let_run, wait_until
from tests.support.runbook import entries
from tests.support.topics import create_topic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("replication"),
    pytest.mark.skipif(missing_etcd() is not None, reason=str(missing_etcd())),
]

MORE: Final = pytest.mark.full("the other steps of the runbook")
TOPIC: Final = "orders"
QUEUE_COUNT: Final = 2
MANY: Final = 20
ONE: Final = {ACKNOWLEDGE: "one", COPIES: "2"}
ENTRIES: Final = entries()
NOT_SAFE: Final = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
# How often a master of ours has etcd remember what was acknowledged, and a little more.
REMEMBERED_S: Final = 12.0
# By the beginning of the title: who takes the steps.
COVERED: Final[dict[str, tuple[str, ...]]] = {
    "A planned switch": (
        "test_a_planned_switch_with_etcd",
        "test_a_planned_switch_by_hand",
        "test_a_planned_switch_without_a_secret",
    ),
    "The master is lost for an hour": (
        "test_a_master_is_away_with_etcd",
        "test_a_master_is_away_and_readers_continue",
    ),
    "The master is lost for good": (
        "test_a_lost_master_with_etcd_is_replaced",
        "test_a_lost_master_has_its_slave_promoted",
        "test_a_lost_master_without_a_secret",
    ),
    "The old master comes back after that": (
        "test_the_old_master_returns",
        "test_the_old_master_returns_late_with_etcd",
    ),
    "With etcd, no master is elected": ("test_the_last_broker_founds_again",),
    "etcd has lost its data": ("test_an_etcd_that_has_lost_its_data",),
    "etcd is full": ("test_a_full_etcd",),
    "`/ready` or doctor reports that two brokers": ("test_two_brokers_of_one_name_are_parted",),
    "The log contains `nothing is cut": ("test_nothing_is_cut_until_a_person_decides",),
    "A split network": ("test_a_split_network_by_hand",),
    "A slave has to be rebuilt": ("test_a_slave_is_rebuilt",),
    "The log contains `the slave's log ends at": ("test_a_master_that_has_lost_its_end",),
    "The log contains `it does not know the secret": ("test_two_secrets",),
    "The log contains `refusing slave ...: it does not speak TLS": ("test_a_slave_without_tls",),
    "The log contains `what follows has expired": ("test_a_slave_that_was_away_too_long",),
    "The log contains `mappedFileSizeCommitLog": ("test_files_of_another_size",),
}


def test_every_entry_of_the_runbook_has_a_test() -> None:
    for title in ENTRIES:
        assert any(title.startswith(each) for each in COVERED), f"no test takes: {title}"
    for begin, names in COVERED.items():
        assert any(title.startswith(begin) for title in ENTRIES), f"the page has no {begin!r}"
        for name in names:
            assert name in globals() or hasattr(test_runbook, name), name


@contextmanager
def filled(
    on: ReplicaSet, prepare: Callable[[ReplicaSet], None] = lambda _: None
) -> Iterator[tuple[ReplicaSet, Ledger]]:
    """Brokers that all have some messages that were acknowledged."""
    ledger = Ledger()
    with on:
        prepare(on)
        master, *slaves = on.brokers
        on.start(master)
        assert on.master() is master
        create_topic(master.address, TOPIC, QUEUE_COUNT)
        if slaves:
            on.start(*slaves)
        assert until_known(TOPIC, *slaves)
        assert on.until_followed(master, *slaves)
        acknowledge(ledger, master)
        assert on.until_followed(master, *slaves)
        yield on, ledger


def by_hand(directory: Path, role: str = "SYNC_MASTER", *, has_secret: bool = True) -> ReplicaSet:
    shared = ONE if has_secret and role == "SYNC_MASTER" else None
    return ReplicaSet(directory, replica_settings(2, role), shared, has_secret=has_secret)


def with_etcd(directory: Path) -> ReplicaSet:
    return ReplicaSet(directory, voters(2), ONE, etcd_count=1)


def acknowledge(ledger: Ledger, master: Replica) -> None:
    """Some more messages. On a busy machine a slave may be late, and one of them unknown."""
    sent = partial(ledger.send_many, master.address, TOPIC, MANY, QUEUE_COUNT)
    wait_until(lambda: sent() == {Outcome.ACKNOWLEDGED: MANY})


def nothing_lost(ledger: Ledger, broker: Replica) -> None:
    assert ledger.check(broker.address, [TOPIC]) == []


def do(on: ReplicaSet, title: str, begin: str, **examples: str) -> None:
    """A command of the page, with our addresses in the place of its examples."""
    # Words of Python cannot have dots and colons.
    ours = {_EXAMPLES.get(key, key): value for key, value in examples.items()}
    words = ENTRIES[title].words(begin, {"broker-a": BROKER_NAME, **ours})
    on.command(*words)


_EXAMPLES: Final = {"first": "10.0.0.1:10911", "second": "10.0.0.2:10911"}


def becomes_master(broker: Replica) -> None:
    wait_until(lambda: broker.is_master)


# Planned switches.


def test_a_planned_switch_with_etcd(tmp_path: Path) -> None:
    with filled(with_etcd(tmp_path)) as (on, ledger):
        one, two = on.brokers
        assert on.until_in_sync(one, (1, 2))
        do(on, "A planned switch", "broker demote")
        becomes_master(two)
        assert on.until_followed(two, one)
        acknowledge(ledger, two)
        nothing_lost(ledger, two)


@MORE
def test_a_planned_switch_by_hand(tmp_path: Path) -> None:
    with filled(by_hand(tmp_path)) as (on, ledger):
        one, two = on.brokers
        do(on, "A planned switch", "broker demote")
        do(on, "A planned switch", "broker promote", second=two.address)
        assert on.until_followed(two, one)
        acknowledge(ledger, two)
        # It is remembered, whatever broker.conf says.
        for broker in (one, two):
            broker.kill()
        on.start(two, one)
        assert two.is_master
        assert not one.is_master
        assert on.until_followed(two, one)
        nothing_lost(ledger, two)


# The master is lost.


@MORE
def test_a_master_is_away_with_etcd(tmp_path: Path) -> None:
    with filled(with_etcd(tmp_path)) as (on, ledger):
        one, two = on.brokers
        assert on.until_in_sync(one, (1, 2))
        one.kill()
        becomes_master(two)
        on.start(one)
        assert on.until_followed(two, one)
        acknowledge(ledger, two)
        nothing_lost(ledger, two)


@MORE
def test_a_master_is_away_and_readers_continue(tmp_path: Path) -> None:
    with filled(by_hand(tmp_path)) as (on, ledger):
        one, two = on.brokers
        one.kill()
        nothing_lost(ledger, two)
        assert ledger.send(two.address, TOPIC) is Outcome.FAILED
        on.start(one)
        assert on.until_followed(one, two)
        acknowledge(ledger, one)
        nothing_lost(ledger, one)


@MORE
def test_a_lost_master_with_etcd_is_replaced(tmp_path: Path) -> None:
    with filled(with_etcd(tmp_path)) as (on, ledger):
        one, two = on.brokers
        assert on.until_in_sync(one, (1, 2))
        one.kill()
        becomes_master(two)
        one.lose_store()
        on.start(one)
        assert on.until_followed(two, one)
        assert on.until_in_sync(two, (1, 2))
        acknowledge(ledger, two)
        nothing_lost(ledger, two)
        nothing_lost(ledger, one)


def test_a_lost_master_has_its_slave_promoted(tmp_path: Path) -> None:
    with filled(by_hand(tmp_path)) as (on, ledger):
        one, two = on.brokers
        one.kill()
        wait_until(lambda: not two.runtime_info.get("followedMaster"))
        do(on, "The master is lost for good", "broker promote", second=two.address)
        # A new slave, with nothing.
        one.lose_store()
        one.set(brokerRole="SLAVE", brokerId="2")
        on.start(one)
        assert on.until_followed(two, one)
        acknowledge(ledger, two)
        nothing_lost(ledger, two)


@MORE
def test_a_slave_is_not_promoted_while_another_may_have_more(tmp_path: Path) -> None:
    with ReplicaSet(tmp_path, replica_settings(3)) as on:
        on.start()
        one, two, three = on.brokers
        assert on.until_followed(one, two, three)
        one.kill()
        wait_until(lambda: not two.runtime_info.get("followedMaster"))
        with three.paused(), pytest.raises(CommandRefused, match="does not answer"):
            on.promote(two)
        assert not two.is_master
        on.promote(two)
        assert on.until_followed(two, three)


@MORE
def test_a_lost_master_without_a_secret(tmp_path: Path) -> None:
    with filled(by_hand(tmp_path, has_secret=False)) as (on, ledger):
        one, two = on.brokers
        one.kill()
        two.stop()
        two.set(brokerRole="SYNC_MASTER")
        on.start(two)
        nothing_lost(ledger, two)
        # The old one does not follow as it is.
        shutil.move(one.store_directory, one.directory / "moved-away")
        one.set(brokerRole="SLAVE", brokerId="1")
        on.start(one)
        assert on.until_followed(two, one)
        acknowledge(ledger, two)
        nothing_lost(ledger, two)


def test_the_old_master_returns(tmp_path: Path) -> None:
    """With what no other has, from its own file, which says that it is the master."""
    with filled(by_hand(tmp_path, "ASYNC_MASTER")) as (on, ledger):
        one, two = on.brokers
        two.kill()
        body = b"what only the old master has"
        with BlockingPeer(one.address) as peer:
            peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC), body)
        one.kill()
        on.start(two)
        do(on, "The master is lost for good", "broker promote", second=two.address)
        wait_until(lambda: on.routed_master() == two.address)
        on.start(one)
        assert on.until_followed(two, one)
        assert not one.is_master
        # It restarts in place to cut its log, and may have followed before.
        divergent = one.store_directory / "divergent"
        wait_until(lambda: any(body in path.read_bytes() for path in divergent.glob("*")))
        acknowledge(ledger, two)
        nothing_lost(ledger, two)


@MORE
def test_the_old_master_returns_late_with_etcd(tmp_path: Path) -> None:
    """Others have acknowledged much since then, none of which is among what it has to cut."""
    own = {ACKNOWLEDGE: "one", COPIES: "3", "replication.lagSeconds": "20"}
    with filled(ReplicaSet(tmp_path, voters(3), own, etcd_count=1)) as (on, ledger):
        one, two, three = on.brokers
        assert on.until_in_sync(one, (1, 2, 3))
        with two.paused(), three.paused():
            # More than sockets hold for those who do not read.
            send_large(one, 6)
            end = one.log_end
            one.kill()
        master = on.master(other_than=one)
        assert master is not None
        acknowledge(ledger, master)
        assert master.log_end < end
        let_run(REMEMBERED_S)
        acknowledge(ledger, master)
        on.start(one)
        slaves = [each for each in on.brokers if each is not master]
        assert on.until_followed(master, *slaves), one.log_tail()
        assert one.cut_off
        nothing_lost(ledger, one)


@MORE
def test_a_split_network_by_hand(tmp_path: Path) -> None:
    """The old master is out of reach while its slave is promoted, and then it is not."""
    with filled(by_hand(tmp_path)) as (on, ledger):
        one, two = on.brokers
        with one.paused():
            on.promote(two, "--force")
            wait_until(lambda: on.routed_master() == two.address)
        assert on.until_followed(two, one)
        assert not one.is_master
        acknowledge(ledger, two)
        nothing_lost(ledger, two)
        nothing_lost(ledger, one)


# Stores.


def test_a_slave_is_rebuilt(tmp_path: Path) -> None:
    with filled(with_etcd(tmp_path)) as (on, ledger):
        one, two = on.brokers
        assert on.until_in_sync(one, (1, 2))
        two.stop()
        shutil.move(two.store_directory, two.directory / "moved-away")
        on.start(two)
        assert on.until_followed(one, two)
        assert on.until_in_sync(one, (1, 2))
        acknowledge(ledger, one)
        nothing_lost(ledger, two)


@pytest.mark.parametrize("is_master_right", [True, False])
def test_nothing_is_cut_until_a_person_decides(tmp_path: Path, *, is_master_right: bool) -> None:
    """A broker without anything was promoted, and the one with the log is to follow it."""
    with filled(by_hand(tmp_path)) as (on, ledger):
        one, two = on.brokers
        one.kill()
        two.kill()
        two.lose_store()
        on.start(two)
        on.promote(two)
        one.set(brokerRole="SLAVE", brokerId="2")
        on.start(one)
        wait_until(lambda: "nothing is cut, because" in two.log_tail() + one.log_tail())
        assert one.cut_off == []
        if is_master_right:
            one.kill()
            shutil.move(one.store_directory, one.directory / "moved-away")
            on.start(one)
            assert on.until_followed(two, one)
            return
        on.demote(two, "--force", "--id", "2")
        wait_until(lambda: two.runtime_info and not two.is_master)
        if one.has_ended:
            one.kill()
            on.start(one)
        on.promote(one)
        nothing_lost(ledger, one)
        assert on.until_followed(one, two)
        acknowledge(ledger, one)
        nothing_lost(ledger, two)


@MORE
def test_a_master_that_has_lost_its_end(tmp_path: Path) -> None:
    """Without a secret, and the master is right: the slave goes on without what it had."""
    with filled(by_hand(tmp_path, "ASYNC_MASTER", has_secret=False)) as (on, _ledger):
        one, two = on.brokers
        lost = Ledger()
        one.stop()
        shutil.copytree(one.store_directory, tmp_path / "older")
        on.start(one)
        assert on.until_followed(one, two)
        lost.send_many(one.address, TOPIC, MANY, QUEUE_COUNT)
        assert on.until_followed(one, two)
        one.kill()
        one.lose_store()
        shutil.move(tmp_path / "older", one.store_directory)
        on.start(one)
        printed = "the slave's log ends at"
        wait_until(lambda: printed in one.log_tail() + two.log_tail())
        two.kill()
        shutil.move(two.store_directory, two.directory / "moved-away")
        on.start(two)
        assert on.until_followed(one, two)
        assert two.log_bytes() == one.log_bytes()


def send_large(broker: Replica, count: int) -> None:
    """So much that a few of them fill a file."""
    with BlockingPeer(broker.address) as peer:
        for _ in range(count):
            reply = peer.call(
                RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC), bytes(3_500_000)
            )
            assert reply.code in NOT_SAFE, reply.remark


@MORE
def test_a_slave_that_was_away_too_long(tmp_path: Path) -> None:
    with filled(by_hand(tmp_path)) as (on, _ledger):
        one, two = on.brokers
        two.kill()
        send_large(one, 6)
        # As when its time has come: the log starts with a later file.
        one.stop()
        (one.store_directory / "commitlog" / ("0" * 20)).unlink()
        on.start(one)
        on.start(two)
        wait_until(lambda: "what follows has expired" in one.log_tail() + two.log_tail())
        two.kill()
        shutil.move(two.store_directory, two.directory / "moved-away")
        on.start(two)
        assert on.until_followed(one, two)


@MORE
def test_files_of_another_size(tmp_path: Path) -> None:
    size = "mappedFileSizeCommitLog"

    def prepare(on: ReplicaSet) -> None:
        on.brokers[0].set(**{size: str(16 * 1024 * 1024)})
        on.brokers[1].set(**{size: str(16 * 1024 * 1024)})

    with filled(by_hand(tmp_path), prepare) as (on, ledger):
        one, two = on.brokers
        two.kill()
        two.lose_store()
        two.set(**{size: str(8 * 1024 * 1024)})
        send_large(one, 4)
        on.start(two)
        printed = "mappedFileSizeCommitLog must be that of the master"
        wait_until(lambda: printed in one.log_tail() + two.log_tail())
        two.kill()
        two.lose_store()
        two.set(**{size: one.settings[size]})
        on.start(two)
        assert on.until_followed(one, two)
        ledger.history.found = {}
        acknowledge(ledger, one)


# Links.


@MORE
def test_two_secrets(tmp_path: Path) -> None:
    with filled(by_hand(tmp_path)) as (on, ledger):
        one, two = on.brokers
        key = "replication.secretFile"
        right = two.settings[key]
        other = tmp_path / "another-secret"
        other.write_text("what only brokers of another name know\n")
        two.kill()
        two.set(**{key: str(other)})
        on.start(two)
        printed = "it does not know the secret of this broker"
        wait_until(lambda: printed in one.log_tail() + two.log_tail())
        two.kill()
        two.set(**{key: right})
        on.start(two)
        assert on.until_followed(one, two)
        acknowledge(ledger, one)


@MORE
def test_a_slave_without_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    holder = authority.vouch_for("broker")
    encrypting = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(holder.certificate),
        "tls.server.keyPath": str(holder.key),
    }
    with filled(by_hand(tmp_path)) as (on, _ledger):
        one, two = on.brokers
        for broker in on.brokers:
            broker.kill()
        one.set(**encrypting)
        host, _, port = one.address.rpartition(":")
        # The name server of the tests has no certificate, so a slave with TLS cannot ask it.
        two.set(haMasterAddress=f"{host}:{int(port) + 1}")
        on.start(one, two)
        wait_until(lambda: "it does not speak TLS" in one.log_tail())
        two.kill()
        trusted = {"tls.client.trustCertPath": str(authority.certificate)}
        two.set(**{"tls.enable": "true"}, **trusted)
        on.start(two)
        wait_until(lambda: two.runtime_info.get("followedMaster"))


@MORE
def test_two_brokers_of_one_name_are_parted(tmp_path: Path) -> None:
    """Without replication one gets another name; with it the second slave gets its own number."""
    with ReplicaSet(tmp_path, [{}, {}], has_secret=False) as on:
        one, two = on.brokers
        on.start()
        assert happens(lambda: both_named(on, one, two))
        two.kill()
        two.set(brokerName="another")
        on.start(two)
        assert happens(lambda: not both_named(on, one, two))


def both_named(on: ReplicaSet, one: Replica, two: Replica) -> bool:
    printed = on.examined()
    return any(one.address in line and two.address in line for line in printed.split("\n"))


@MORE
def test_a_slave_with_the_number_of_another_gets_its_own(tmp_path: Path) -> None:
    with filled(with_etcd(tmp_path)) as (on, ledger):
        one, two = on.brokers
        shared = {
            key: value
            for key, value in two.settings.items()
            if key not in ("listenPort", "brokerId")
        }
        third = on.made({**shared, "brokerId": "2"})
        third.begin()
        wait_until(lambda: "is in use by" in one.log_tail() + third.log_tail())
        third.kill()
        third.set(brokerId="3")
        third.start()
        assert on.until_in_sync(one, (1, 2, 3))
        acknowledge(ledger, one)
        nothing_lost(ledger, one)


# etcd itself.


@MORE
@pytest.mark.skipif(shutil.which("etcdctl") is None, reason="etcdctl (Debian's etcd-client)")
def test_a_full_etcd(tmp_path: Path) -> None:
    """The block of the page, as it stands, in a shell."""
    on = with_etcd(tmp_path)
    on.etcd_words = ("--quota-backend-bytes=2000000",)
    with filled(on) as (on, ledger):
        one, two = on.brokers
        (member,) = on.etcd
        assert on.until_in_sync(one, (1, 2))
        while member.can_write(bytes(100_000)):
            pass
        two.kill()
        on.start(two)
        wait_until(lambda: "database space exceeded" in two.log_tail())
        (block,) = next(
            entry.blocks for title, entry in ENTRIES.items() if title.startswith("etcd is full")
        )
        environment = {**os.environ, "ETCDCTL_ENDPOINTS": member.address, "ETCDCTL_API": "3"}
        subprocess.run(("sh", "-ec", block), env=environment, check=True)
        assert on.until_in_sync(one, (1, 2))
        acknowledge(ledger, one)
