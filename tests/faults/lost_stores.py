"""Brokers that elect their master with etcd, where a store or etcd itself comes back empty.

In sync is a store, and not a number: a broker of that number whose directory is empty has nothing
of what was acknowledged. And an etcd without its data knows neither masters nor epochs, while the
brokers still do.

    S1  a broker without the log is not the master before it has caught up
    S2  a broker with an old log is not the master while others of its name know a later epoch
    S3  no broker cuts its log: whatever one had, all of them had
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, Outcome
from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    COPIES,
    LAG_S,
    LEASE_S,
    Replica,
    ReplicaSet,
    until_known,
    voters,
)
from tests.faults.rig import Rig, in_turn
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import happens, let_run
from tests.support.topics import create_topic

_TOPIC: Final = "orders"
_QUEUE_COUNT: Final = 2
_MANY: Final = 200
_FEW: Final = 20
# A broker that would take the office does so within a lease and a half.
_WATCHED_S: Final = 3.0 * LEASE_S
_SOON_S: Final = 0.3


def alone_with_an_empty_disk_one(directory: Path, chance: Random) -> Findings:
    """Two in sync are lost at the same time, and the first to return has lost its disk, too."""
    own = {ACKNOWLEDGE: "one", COPIES: "2"}
    with ReplicaSet(directory, voters(2), own, etcd_count=1) as on:
        return _back_alone(on, chance)


def alone_with_an_empty_disk_quorum(directory: Path, chance: Random) -> Findings:
    """The same of three, after the third was gone for so long that it is not in sync."""
    own = {ACKNOWLEDGE: "quorum", COPIES: "3"}
    with ReplicaSet(directory, voters(3), own, etcd_count=1) as on:
        return _back_alone(on, chance)


def replaced_while_the_master_dies_one(directory: Path, chance: Random) -> Findings:
    """The slave gets its new disk, as the runbook has it, and has no time to fill it."""
    own = {ACKNOWLEDGE: "one", COPIES: "2"}
    with ReplicaSet(directory, voters(2), own, etcd_count=1) as on:
        return _replaced(on, chance)


def replaced_while_the_master_dies_quorum(directory: Path, chance: Random) -> Findings:
    own = {ACKNOWLEDGE: "quorum", COPIES: "3"}
    with ReplicaSet(directory, voters(3), own, etcd_count=1) as on:
        return _replaced(on, chance)


def _back_alone(on: ReplicaSet, chance: Random) -> Findings:
    ledger = Ledger()
    findings = _filled(on, ledger)
    one, two, *rest = on.brokers
    for broker in chance.sample((one, two), 2):
        broker.kill()
    two.lose_store()
    on.start(two)
    findings.violations += _usurped(ledger, [two], "S1: a broker with an empty store")
    on.start(one, *rest)
    findings.violations += _whole_again(on, ledger)
    findings.counts["empty disks"] = 1
    findings.add(ledger.counted())
    return findings


def _replaced(on: ReplicaSet, chance: Random) -> Findings:
    ledger = Ledger()
    findings = _filled(on, ledger)
    one, two, *rest = on.brokers
    two.kill()
    two.lose_store()
    on.start(two)
    let_run(chance.uniform(0, _SOON_S))
    one.kill()
    findings.violations += _usurped(ledger, [two], "S1: a broker with an empty store")
    on.start(one, *rest)
    findings.violations += _whole_again(on, ledger)
    findings.counts["empty disks"] = 1
    findings.add(ledger.counted())
    return findings


def _filled(on: ReplicaSet, ledger: Ledger) -> Findings:
    """All in sync have the same log; those beyond the second are gone, and known to be."""
    findings = Findings()
    one, two, *rest = on.brokers
    on.start()
    if on.master() is not one:
        findings.violations.append(f"the first master is not {one}")
    if not on.until_in_sync(one, range(1, len(on.brokers) + 1)):
        findings.violations.append("not all are in sync in the beginning")
    create_topic(one.address, _TOPIC, _QUEUE_COUNT)
    until_known(_TOPIC, two, *rest)
    ledger.send_many(one.address, _TOPIC, _MANY // 2, _QUEUE_COUNT)
    for broker in rest:
        on.until_followed(one, *on.brokers[1:])
        broker.kill()
    if rest and not on.until_in_sync(one, (1, 2)):
        findings.violations.append("who is gone is still in sync")
    ledger.send_many(one.address, _TOPIC, _MANY // 2, _QUEUE_COUNT)
    if not on.until_followed(one, two):
        findings.violations.append("the slave in sync does not have the whole log")
    return findings


def _usurped(ledger: Ledger, brokers: Iterable[Replica], what: str) -> list[str]:
    """Whether one of them is master while it is watched; it is sent messages all the time."""
    candidates = list(brokers)
    acknowledged = 0
    found: set[str] = set()
    deadline_s = time.monotonic() + _WATCHED_S
    while time.monotonic() < deadline_s:
        for broker in candidates:
            if broker.is_master:
                outcomes = ledger.send_many(broker.address, _TOPIC, _FEW, _QUEUE_COUNT)
                acknowledged += outcomes[Outcome.ACKNOWLEDGED]
                epoch = broker.runtime_info["replicationEpoch"]
                found.add(f"{what} became the master of epoch {epoch}")
        let_run(_SOON_S)
    return [f"{each}, and acknowledged {acknowledged}" for each in sorted(found)]


def _whole_again(on: ReplicaSet, ledger: Ledger) -> list[str]:
    """Everybody is back: one is master, all have everything, and the next switch keeps it."""
    violations: list[str] = []
    numbers = range(1, len(on.brokers) + 1)
    for attempt in ("when all are back", "after the next switch"):
        master = on.master()
        if master is None:
            return [*violations, f"no broker is master {attempt}"]
        if not on.until_in_sync(master, numbers):
            violations.append(f"in sync are only {master.runtime_info.get('inSyncSet')} {attempt}")
        # Numbers are not stores: only what is acknowledged proves that one in sync is there.
        if not happens(_is_acknowledged(ledger, master)):
            return [*violations, f"nothing is acknowledged {attempt}"]
        ledger.send_many(master.address, _TOPIC, _FEW, _QUEUE_COUNT)
        violations += ledger.check(master.address, [_TOPIC])
        slaves = [each for each in on.brokers if each is not master]
        if not on.until_followed(master, *slaves):
            violations.append(f"not everybody has the log of the master {attempt}")
        violations += _cut(on)
        if violations:
            return violations
        if attempt == "when all are back":
            # A store that is lost counts as in sync until it has been behind for so long.
            let_run(2 * LAG_S)
            master.kill()
            successor = on.master(other_than=master)
            on.start(master)
            if successor is None:
                violations.append("no slave replaces the next master that is lost")
    return violations


def _is_acknowledged(ledger: Ledger, master: Replica) -> Callable[[], bool]:
    return lambda: ledger.send(master.address, _TOPIC) is Outcome.ACKNOWLEDGED


def _cut(on: ReplicaSet) -> list[str]:
    return [f"S3: {each} cut off {each.cut_off}" for each in on.brokers if each.cut_off]


def etcd_wiped_below_brokers(directory: Path, _chance: Random) -> Findings:
    """The brokers with the later epoch run on, and the old first master is started."""
    with _with_a_stale_first(directory) as on:
        ledger = Ledger()
        findings = _made_stale(on, ledger)
        _wipe(on)
        on.start(on.brokers[0])
        return _founded(on, ledger, findings)


def etcd_wiped_while_all_are_down(directory: Path, _chance: Random) -> Findings:
    """The old first master is the first to be started, and the others a moment later."""
    with _with_a_stale_first(directory) as on:
        ledger = Ledger()
        findings = _made_stale(on, ledger)
        for broker in on.brokers[1:]:
            broker.kill()
        _wipe(on)
        on.start()
        return _founded(on, ledger, findings)


def _with_a_stale_first(directory: Path) -> ReplicaSet:
    own = {ACKNOWLEDGE: "one", COPIES: "3"}
    return ReplicaSet(directory, voters(3), own, etcd_count=1)


def _made_stale(on: ReplicaSet, ledger: Ledger) -> Findings:
    """The first master is gone, and most of what was acknowledged came after it."""
    findings = Findings()
    one, two, three = on.brokers
    on.start()
    if on.master() is not one or not on.until_in_sync(one, (1, 2, 3)):
        findings.violations.append(f"the first master is not {one}, or not followed")
    create_topic(one.address, _TOPIC, _QUEUE_COUNT)
    until_known(_TOPIC, two, three)
    ledger.send_many(one.address, _TOPIC, _FEW, _QUEUE_COUNT)
    on.until_followed(one, two, three)
    one.kill()
    master = on.master(other_than=one)
    if master is None or not on.until_in_sync(master, (2, 3)):
        findings.violations.append("no slave replaces the first master, or is followed")
        return findings
    ledger.send_many(master.address, _TOPIC, _MANY, _QUEUE_COUNT)
    on.until_followed(master, two if master is three else three)
    return findings


def _wipe(on: ReplicaSet) -> None:
    for member in on.etcd:
        member.kill()
    for member in on.etcd:
        member.wipe()
        member.start()
    happens(lambda: any(each.can_write() for each in on.etcd))


def _founded(on: ReplicaSet, ledger: Ledger, findings: Findings) -> Findings:
    """With the old one alone nothing starts; with the others, or their leave, all is there."""
    one, *others = on.brokers
    findings.violations += _usurped(ledger, [one], "S2: the first master of an old epoch")
    if on.master(LEASE_S) is None:
        # No broker became master: the runbook has the operator name one, with the longest log.
        longest = max(others, key=lambda each: each.log_end)
        longest.kill()
        longest.words = ("--found",)
        on.start(longest)
        # Once; its next start finds the others.
        longest.words = ()
    findings.violations += _whole_again(on, ledger)
    findings.counts["etcd wiped"] = 1
    findings.add(ledger.counted())
    return findings


EMPTY_DISKS: Final = Rig(
    "empty-disks",
    "a broker in sync comes back with an empty store directory before all others; `one`, `quorum`",
    in_turn(
        alone_with_an_empty_disk_one,
        alone_with_an_empty_disk_quorum,
        replaced_while_the_master_dies_one,
        replaced_while_the_master_dies_quorum,
    ),
    few=4,
    many=60,
    missing=missing_etcd,
)
WIPED_ETCD: Final = Rig(
    "wiped-etcd",
    "etcd comes back without its data, and the first to ask is a broker with an old log",
    in_turn(etcd_wiped_below_brokers, etcd_wiped_while_all_are_down),
    few=2,
    many=40,
    missing=missing_etcd,
)
