"""A topic or a group is made, used, and its master killed a moment later.

A switch takes over what was acknowledged, and so whatever it needs to be found: the topic with all
of its queues, and the settings of groups.

    T1  who has a successor after the answer has one that knows the topic, with all its queues
    T2  the same of a group and its settings
"""

from pathlib import Path
from random import Random
from typing import Final

from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import AddressedHeader
from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, Outcome, queue_count_of
from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    COPIES,
    CommandRefused,
    Replica,
    ReplicaSet,
    replica_settings,
    voters,
)
from tests.faults.rig import Rig, in_turn
from tests.support.blocking_peer import BlockingPeer
from tests.support.etcd_members import missing_etcd
from tests.support.eventually import happens
from tests.support.topics import asked_for_topic

# Made by an operator, and by the first message sent to it.
_ORDERED, _SENT = "made-by-an-operator", "made-by-a-send"
_QUEUE_COUNTS: Final = {_ORDERED: 8, _SENT: 4}
_EACH: Final = 10
_GROUP: Final = GroupConfig(group_name="young-group", retry_max_times=3, consume_enable=False)
_WARM: Final = "warm"
_ONE: Final = {ACKNOWLEDGE: "one", COPIES: "2"}


def killed_and_promoted(directory: Path, _chance: Random) -> Findings:
    findings, ledger = Findings(), Ledger()
    with ReplicaSet(directory, replica_settings(2), _ONE) as on:
        one, two = on.brokers
        on.start()
        on.until_followed(one, two)
        findings.violations += _made(ledger, one)
        one.kill()
        on.promote(two)
        findings.violations += _missing(ledger, two, "after the switch")
        one.set(brokerRole="SLAVE", brokerId="2")
        on.start(one)
        if not on.until_followed(two, one):
            findings.violations.append("the old master does not follow")
        try:
            on.demote(two)
            on.promote(one)
        except CommandRefused as error:
            findings.violations.append(str(error))
        findings.violations += _missing(ledger, one, "when the old master is master again")
    findings.counts["switches"] = 2
    findings.add(ledger.counted())
    return findings


def killed_and_elected(directory: Path, _chance: Random) -> Findings:
    findings, ledger = Findings(), Ledger()
    with ReplicaSet(directory, voters(2), _ONE, etcd_count=1) as on:
        one, two = on.brokers
        on.start()
        if on.master() is not one or not on.until_in_sync(one, (1, 2)):
            findings.violations.append(f"the first master is not {one}, or not followed")
        findings.violations += _made(ledger, one)
        one.kill()
        if on.master(other_than=one) is not two:
            findings.violations.append("no master is elected")
        findings.violations += _missing(ledger, two, "after the switch")
        on.start(one)
        on.until_in_sync(two, (1, 2))
        if not on.until_followed(two, one):
            findings.violations.append("the old master does not follow")
        two.kill()
        if on.master(other_than=two) is not one:
            findings.violations.append("the old master is not elected again")
        findings.violations += _missing(ledger, one, "when the old master is master again")
    findings.counts["switches"] = 2
    findings.add(ledger.counted())
    return findings


def _made(ledger: Ledger, master: Replica) -> list[str]:
    """Everything that is young, within fractions of a second."""
    # So that nothing but the new topics is new.
    if not happens(lambda: ledger.send(master.address, _WARM) is Outcome.ACKNOWLEDGED):
        return ["with a slave nothing is acknowledged"]
    reply = asked_for_topic(master.address, _ORDERED, _QUEUE_COUNTS[_ORDERED])
    if reply.code != ResponseCode.SUCCESS:
        return [f"no topic can be made: {reply.remark}"]
    with BlockingPeer(master.address) as peer:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        reply = peer.call(code, AddressedHeader(), write_body(_GROUP))
        if reply.code != ResponseCode.SUCCESS:
            return [f"no group can be made: {reply.remark}"]
    for topic, queue_count in _QUEUE_COUNTS.items():
        ledger.send_many(master.address, topic, queue_count * _EACH, queue_count)
    return []


def _missing(ledger: Ledger, broker: Replica, when: str) -> list[str]:
    violations = []
    for topic, wanted in _QUEUE_COUNTS.items():
        found = queue_count_of(broker.address, topic)
        if found != wanted:
            violations.append(f"T1: {topic} had {wanted} queues and has {found} {when}")
    if _group_at(broker) != _GROUP:
        violations.append(f"T2: {_GROUP.group_name} is not as it was made {when}")
    return violations + [f"{each} {when}" for each in ledger.check(broker.address, _topics(), 5.0)]


def _topics() -> list[str]:
    return [_WARM, *_QUEUE_COUNTS]


def _group_at(broker: Replica) -> GroupConfig | None:
    with BlockingPeer(broker.address) as peer:
        reply = peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = read_body(GroupConfigTable, reply.body).subscription_group_table
    return table.get(_GROUP.group_name)


YOUNG_TOPICS: Final = Rig(
    "young-topics",
    "a topic and a group are made less than a second before their master is killed",
    in_turn(killed_and_promoted, killed_and_elected),
    few=2,
    many=60,
    missing=missing_etcd,
)
