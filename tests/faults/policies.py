"""A SYNC_MASTER whose slaves have no policy of their own, and what is left of its promise.

P1  whoever is master afterwards does not answer SEND_OK without a slave, either
P2  with a slave it does
"""

from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, Outcome
from tests.faults.replica_sets import (
    CommandRefused,
    Replica,
    ReplicaSet,
    replica_settings,
    until_known,
    voters,
)
from tests.faults.rig import Rig, in_turn
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import happens
from tests.support.topics import create_topic

_TOPIC: Final = "orders"
_QUEUE_COUNT: Final = 2
# Each may be answered after `slaveTimeout` only.
_FEW: Final = 10
_MANY: Final = 40
_VACANCY_S: Final = 12.0


def promoted_by_hand(directory: Path, _chance: Random) -> Findings:
    findings, ledger = Findings(), Ledger()
    with ReplicaSet(directory, replica_settings(2)) as on:
        one, two = on.brokers
        on.start(one)
        create_topic(one.address, _TOPIC, _QUEUE_COUNT)
        on.start(two)
        until_known(_TOPIC, two)
        on.until_followed(one, two)
        findings.violations += _with_a_slave(ledger, one)
        one.kill()
        on.promote(two)
        findings.violations += _alone(ledger, two, "promoted")
        two.kill()
        on.start(two)
        findings.violations += _alone(ledger, two, "promoted and started again")
        one.set(brokerRole="SLAVE", brokerId="2")
        on.start(one)
        on.until_followed(two, one)
        findings.violations += _with_a_slave(ledger, two)
        one.kill()
        findings.violations += _alone(ledger, two, "promoted, whose slave is gone")
        two.kill()
        on.start(one)
        try:
            on.promote(one)
        except CommandRefused as error:
            findings.violations.append(str(error))
        ledger.send_many(one.address, _TOPIC, _FEW, _QUEUE_COUNT)
        findings.violations += ledger.check(one.address, [_TOPIC])
    findings.counts["switches"] = 2
    findings.add(ledger.counted())
    return findings


def elected(directory: Path, _chance: Random) -> Findings:
    findings, ledger = Findings(), Ledger()
    with ReplicaSet(directory, voters(3), etcd_count=1) as on:
        one, two, three = on.brokers
        on.start()
        if on.master() is not one or not on.until_in_sync(one, (1, 2, 3)):
            findings.violations.append(f"the first master is not {one}, or not followed")
        create_topic(one.address, _TOPIC, _QUEUE_COUNT)
        until_known(_TOPIC, two, three)
        findings.violations += _with_a_slave(ledger, one)
        # At the same time, so that the set of those in sync cannot follow.
        two.kill()
        three.kill()
        findings.violations += _alone(ledger, one, "elected, whose slaves are gone")
        one.kill()
        on.start(two, three)
        if on.master(_VACANCY_S) is None:
            # Those that are there were not in sync: the one that was has to come back.
            on.start(one)
        master = on.master()
        if master is None:
            findings.violations.append("no master is elected")
        else:
            happens(lambda: int(master.runtime_info.get("slaveCount", 0)) > 0)
            findings.violations += _with_a_slave(ledger, master)
            findings.violations += ledger.check(master.address, [_TOPIC])
    findings.counts["switches"] = 1
    findings.add(ledger.counted())
    return findings


def _alone(ledger: Ledger, broker: Replica, which: str) -> list[str]:
    """Sends while no slave is there; all of them are unknown, or fail."""
    outcomes = ledger.send_many(broker.address, _TOPIC, _FEW, _QUEUE_COUNT)
    count = outcomes[Outcome.ACKNOWLEDGED]
    info = broker.runtime_info.get("replicationAcknowledge")
    if not count:
        return []
    return [f"P1: a master that was {which} acknowledged {count} without a slave ({info})"]


def _with_a_slave(ledger: Ledger, broker: Replica) -> list[str]:
    """Sends while slaves follow; as soon as one does, all of them are acknowledged."""

    def is_acknowledged() -> bool:
        return ledger.send(broker.address, _TOPIC) is Outcome.ACKNOWLEDGED

    if not happens(is_acknowledged):
        return ["P2: with a slave nothing is acknowledged"]
    ledger.send_many(broker.address, _TOPIC, _MANY, _QUEUE_COUNT)
    return []


POLICIES: Final = Rig(
    "policies",
    "a slave without a policy becomes the master after a SYNC_MASTER, by hand and with etcd",
    in_turn(promoted_by_hand, elected),
    few=2,
    many=40,
    missing=missing_etcd,
)
