"""Two brokers that take each other's place: one name without replication, or one `brokerId` twice.

W1  `roquet doctor` names both of them, by their addresses
W2  the second slave with an id, which has another store, is refused, and the first one stays
    in sync: senders notice nothing, and it can step in
"""

from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, Outcome
from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    COPIES,
    CommandRefused,
    Replica,
    ReplicaSet,
    replica_settings,
    until_known,
    voters,
)
from tests.faults.rig import Rig, in_turn
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import happens, let_run, wait_until
from tests.support.topics import create_topic

_TOPIC: Final = "orders"
_MANY: Final = 50
# For the second one to try again and again.
_WATCHED_S: Final = 8.0
_SOON_S: Final = 20.0
# On a busy machine a slave takes its time, which is no fault here.
_ONE: Final = {ACKNOWLEDGE: "one", COPIES: "2", "slaveTimeout": "2500"}


def one_name_without_replication(directory: Path, _chance: Random) -> Findings:
    """Each is a master of its own, and the name server hears of both."""
    findings, ledger = Findings(), Ledger()
    masters = [{"brokerRole": "ASYNC_MASTER"}] * 2
    with ReplicaSet(directory, masters, has_secret=False) as on:
        on.start()
        for broker in on.brokers:
            create_topic(broker.address, _TOPIC)
        with ledger.sending(on.brokers[0].address, _TOPIC):
            findings.violations += _unnamed(on, on.brokers)
        findings.violations += ledger.check(on.brokers[0].address, [_TOPIC])
    findings.counts["twins"] = 1
    findings.add(ledger.counted())
    return findings


def one_id_by_hand(directory: Path, _chance: Random) -> Findings:
    with ReplicaSet(directory, replica_settings(2), _ONE) as on:
        twin = on.made({**_twin_of(on), "brokerRole": "SLAVE", "brokerId": "1"})
        findings, ledger = _with_a_twin(on, twin)
        master, slave = on.brokers
        master.kill()
        twin.kill()
        happens(lambda: not slave.runtime_info.get("followedMaster"))
        try:
            on.promote(slave)
        except CommandRefused as error:
            findings.violations.append(str(error))
        findings.violations += ledger.check(slave.address, [_TOPIC])
    findings.add(ledger.counted())
    return findings


def one_id_with_etcd(directory: Path, _chance: Random) -> Findings:
    with ReplicaSet(directory, voters(2), _ONE, etcd_count=1) as on:
        twin = on.made({**_twin_of(on), "brokerRole": "SLAVE", "brokerId": "2"})
        findings, ledger = _with_a_twin(on, twin)
        master, slave = on.brokers
        master.kill()
        # The twin is still there, and must not be taken for the one in sync.
        on.brokers.append(twin)
        successor = on.master(_SOON_S)
        if successor is not slave:
            findings.violations.append(f"W2: {successor} stepped in, and not {slave}")
        if successor is not None:
            findings.violations += ledger.check(successor.address, [_TOPIC])
    findings.add(ledger.counted())
    return findings


def _twin_of(on: ReplicaSet) -> dict[str, str]:
    """What the brokers of the set share."""
    own = {"brokerRole", "brokerId", "listenPort"}
    return {key: value for key, value in on.brokers[1].settings.items() if key not in own}


def _with_a_twin(on: ReplicaSet, twin: Replica) -> tuple[Findings, Ledger]:
    findings, ledger = Findings(), Ledger()
    master, slave = on.brokers
    on.start(master)
    # With etcd it is elected, and before a busy machine lets the other one be.
    wait_until(lambda: master.is_master)
    on.start(slave)
    create_topic(master.address, _TOPIC)
    until_known(_TOPIC, slave)
    if not happens(lambda: ledger.send(master.address, _TOPIC) is Outcome.ACKNOWLEDGED):
        findings.violations.append("with a slave nothing is acknowledged")
    in_sync = master.runtime_info.get("inSyncSet")
    ledger.send_many(master.address, _TOPIC, _MANY)
    # It need not serve.
    twin.begin()
    refused: list[Outcome] = []
    sets: set[str | None] = set()

    def note(outcome: Outcome) -> None:
        if outcome is not Outcome.ACKNOWLEDGED:
            refused.append(outcome)

    with ledger.sending(master.address, _TOPIC, note):
        for _ in range(int(_WATCHED_S)):
            let_run(1.0)
            sets.add(master.runtime_info.get("inSyncSet"))
        findings.violations += _unnamed(on, [slave, twin])
    if refused:
        findings.violations.append(f"W2: {len(refused)} sends were not acknowledged with a twin")
    if sets != {in_sync}:
        findings.violations.append(
            f"W2: in sync was {in_sync}, and with a twin {sorted(sets, key=str)}"
        )
    findings.counts["twins"] = 1
    return findings, ledger


def _unnamed(on: ReplicaSet, twins: list[Replica]) -> list[str]:
    """Which of them the doctor does not speak of, in one line with the other."""
    printed: list[str] = []

    def is_named() -> bool:
        printed[:] = on.examined().split("\n")
        return any(all(each.address in line for each in twins) for line in printed)

    if happens(is_named, _SOON_S):
        return []
    addresses = " and ".join(each.address for each in twins)
    return [f"W1: no line of the doctor names {addresses}: {printed}"]


TWINS: Final = Rig(
    "twins",
    "two brokers of one name without replication; two slaves with one brokerId",
    in_turn(one_name_without_replication, one_id_by_hand, one_id_with_etcd),
    few=3,
    many=30,
    missing=missing_etcd,
)
