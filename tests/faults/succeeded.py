"""Without etcd: a master is succeeded and comes back to life, awake or started from its own file.

    M1  awake after SIGSTOP it acknowledges nothing later than its next question to a name server
    M2  started from its own file it acknowledges nothing at all, and does not take the route back
    M3  no offset is acknowledged to two senders

What it acknowledges between waking up and that question is lost with the rest of its log; no master
without a lease can exclude that. It is counted, and docs/replication.md has how much it may be.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Final

from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, Outcome
from tests.faults.replica_sets import (
    Replica,
    ReplicaSet,
    replica_settings,
    until_known,
)
from tests.faults.rig import Rig, in_turn
from tests.support.eventually import happens, let_run
from tests.support.topics import create_topic

_TOPIC: Final = "orders"
_MANY: Final = 100
# M1: how long a master that runs again may not know of its successor.
_AWARE_S_MAX: Final = 3.0
_WATCHED_S: Final = 10.0
_STOPPED_S: Final = 1.0
_PAUSE_S: Final = 0.1


def awake_after_its_successor(directory: Path, chance: Random) -> Findings:
    with ReplicaSet(directory, replica_settings(2, "ASYNC_MASTER")) as on:
        one, two = on.brokers
        ledger = Ledger()
        findings = _filled(on, ledger)
        lost = Ledger()
        with one.paused():
            let_run(chance.uniform(0, _STOPPED_S))
            # The link is open still, and silent.
            on.promote(two, "--force")
            ledger.send_many(two.address, _TOPIC, _MANY)
        awake_s = time.monotonic()
        late = _answered_late(on, one, lost, awake_s)
        findings.figures["acknowledged by a succeeded master within its bound"] = len(
            [each for each in lost.history.acknowledged if each.ended_s - awake_s <= _AWARE_S_MAX]
        )
        findings.figures["s until a succeeded master was silent"] = round(
            max((each.ended_s - awake_s for each in lost.history.acknowledged), default=0.0), 3
        )
        if late:
            findings.violations.append(
                f"M1: {late} were acknowledged more than {_AWARE_S_MAX:g} s after a succeeded "
                "master was awake"
            )
        findings.violations += ledger.check(two.address, [_TOPIC])
        findings.violations += _follows(on, one, two, ledger)
    findings.counts["masters awake again"] = 1
    findings.add(ledger.counted())
    return findings


def _answered_late(on: ReplicaSet, old: Replica, lost: Ledger, awake_s: float) -> int:
    """What the old master acknowledges is no part of the ledger: it is lost, and counted."""
    with lost.sending(old.address, _TOPIC):
        happens(lambda: time.monotonic() > awake_s + _WATCHED_S)
    assert on.routed_master() is not None, "the name server is gone"
    return sum(each.ended_s - awake_s > _AWARE_S_MAX for each in lost.history.acknowledged)


def started_from_its_own_file(directory: Path, chance: Random) -> Findings:
    return _started_again(directory, chance, "ASYNC_MASTER")


def started_from_its_own_file_sync(directory: Path, chance: Random) -> Findings:
    return _started_again(directory, chance, "SYNC_MASTER")


def _started_again(directory: Path, chance: Random, role: str) -> Findings:
    with ReplicaSet(directory, replica_settings(2, role)) as on:
        one, two = on.brokers
        ledger = Ledger()
        findings = _filled(on, ledger)
        one.kill()
        on.promote(two)
        ledger.send_many(two.address, _TOPIC, _MANY)
        happens(lambda: on.routed_master() == two.address)
        acknowledged: list[Outcome] = []

        def note(outcome: Outcome) -> None:
            if outcome is Outcome.ACKNOWLEDGED:
                acknowledged.append(outcome)

        with (
            _routes(on) as routes,
            ledger.sending(two.address, _TOPIC),
            ledger.sending(one.address, _TOPIC, note),
        ):
            let_run(chance.uniform(0, _STOPPED_S))
            # What `Restart=on-failure` of a unit does. It need not serve.
            one.begin()
            let_run(_WATCHED_S)
        flips = [each for each in routes if each != two.address]
        if flips:
            findings.violations.append(
                f"M2: the route named {flips[0]} in {len(flips)} of {len(routes)} looks"
            )
        if acknowledged:
            findings.violations.append(
                f"M2: {len(acknowledged)} were acknowledged by a succeeded {role}"
            )
        findings.violations += ledger.check(two.address, [_TOPIC])
        findings.violations += _follows(on, one, two, ledger)
    findings.counts["masters started again"] = 1
    findings.add(ledger.counted())
    return findings


def _filled(on: ReplicaSet, ledger: Ledger) -> Findings:
    findings = Findings()
    one, two = on.brokers
    on.start(one)
    create_topic(one.address, _TOPIC)
    on.start(two)
    until_known(_TOPIC, two)
    on.until_followed(one, two)
    ledger.send_many(one.address, _TOPIC, _MANY)
    if not on.until_followed(one, two):
        findings.violations.append("the slave does not follow")
    return findings


def _follows(on: ReplicaSet, old: Replica, master: Replica, ledger: Ledger) -> list[str]:
    """The runbook: what is not a slave yet is made one, and has all that the new master has."""
    if old.has_ended:
        old.kill()
        old.set(brokerRole="SLAVE", brokerId="2")
        on.start(old)
    elif old.is_master:
        on.demote(old, "--force", "--id", "2")
    if not on.until_followed(master, old):
        return ["the old master does not follow the new one"]
    ledger.send_many(master.address, _TOPIC, _MANY)
    on.until_followed(master, old)
    return ledger.check(old.address, [_TOPIC])


@contextmanager
def _routes(on: ReplicaSet) -> Iterator[list[str | None]]:
    """Whom the name server names as the master, looked at again and again."""
    seen: list[str | None] = []
    is_over = Event()

    def look() -> None:
        while not is_over.wait(_PAUSE_S):
            seen.append(on.routed_master())

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


SUCCEEDED: Final = Rig(
    "succeeded",
    "without etcd, a master that was succeeded runs again: after SIGSTOP, and from its own file",
    in_turn(awake_after_its_successor, started_from_its_own_file, started_from_its_own_file_sync),
    few=3,
    many=60,
)
