"""Everything at once: two and three brokers, with etcd and by hand, lose their master all the time.

Plain messages, delays, timers, transactions, retries, commits and topics that are seconds old are
on their way while masters are killed, stopped, demoted and starved, and etcd with them. Where an
operator decides she keeps to docs/replication.md. After all of it:

    I1-I6  as always (`history`): nothing acknowledged is lost, no offset is asked to two senders,
           delays and transactions are delivered
    T1     a topic whose creation was answered has all of its queues
    E2     in the end all logs are the same, byte for byte
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from roquet.protocol.codes import ResponseCode
from tests.faults.findings import Findings
from tests.faults.ledgers import Ledger, queue_count_of
from tests.faults.pair_faults import rounds
from tests.faults.replica_logs import differing
from tests.faults.replica_sets import (
    ACKNOWLEDGE,
    COPIES,
    Replica,
    ReplicaSet,
    replica_settings,
    until_known,
    voters,
)
from tests.faults.rig import Rig
from tests.faults.stage import QUEUE_COUNT, queues_of, seen_by
from tests.faults.torture_faults import (
    BY_HAND,
    EVERYWHERE,
    WITH_ETCD,
    WITH_THREE_ETCD,
    Fault,
    NoSwitch,
    Nuisance,
    current_master,
)
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Mix, Traffic
from tests.support.blocking_peer import PeerGone
from tests.support.etcd_members import missing_etcd
from tests.support.topics import asked_for_topic, create_topic

_MIX: Final = Mix(senders_per_queue=1, ordered_members=0, pause_s=0.02)
_PATIENCE_S: Final = 60.0
# A fault need not end in a switch: a master may be awake again before its lease has ended.
_FAULTS_PER_SWITCH_MAX: Final = 4
_YOUNG_CHANCE: Final = 0.6
_YOUNG_QUEUE_COUNT_MAX: Final = 8
_WAITING: Final = "waiting"
_WAITING_COUNT: Final = 5
_SETTINGS: Final = BROKER_SETTINGS | {
    "haHousekeepingInterval": "20000",
    # As in `switches`: what a slow slave was not waited for may be read, and is not safe.
    "slaveTimeout": "60000",
}


class Mode(NamedTuple):
    broker_count: int
    # None where an operator decides who is master.
    etcd_count: int

    @property
    def name(self) -> str:
        decider = "with etcd" if self.etcd_count else "by hand"
        return f"{self.broker_count} brokers {decider}"

    @property
    def faults(self) -> Mapping[str, Fault]:
        return WITH_ETCD if self.etcd_count else BY_HAND

    @property
    def nuisances(self) -> Mapping[str, Nuisance]:
        return WITH_THREE_ETCD if self.etcd_count > 1 else EVERYWHERE

    def replicas(self, directory: Path, chance: Random) -> ReplicaSet:
        """With any policy that promises something, also one that only the first file has."""
        policy = chance.choice(("one", "quorum", None))
        settings = _SETTINGS | ({} if policy is None else {ACKNOWLEDGE: policy})
        settings |= {COPIES: str(self.broker_count)}
        make = voters if self.etcd_count else replica_settings
        return ReplicaSet(directory, make(self.broker_count), settings, etcd_count=self.etcd_count)


MODES: Final = (Mode(2, 0), Mode(3, 0), Mode(2, 1), Mode(3, 3))


class Ordeal:
    """One set of brokers under load, and what is done to it."""

    def __init__(self, mode: Mode, on: ReplicaSet, traffic: Traffic, chance: Random) -> None:
        self._mode = mode
        self._on = on
        self._traffic = traffic
        self._chance = chance
        self._ledger = Ledger()
        self._young: dict[str, int] = {}
        self._done: list[str] = []
        self.findings = Findings()

    async def play(self, switch_count: int) -> None:
        """So many switches, or as many as come of enough faults; then everything is judged."""
        switches = 0
        epoch = await self._recovered()
        try:
            for _ in range(switch_count * _FAULTS_PER_SWITCH_MAX):
                await self._fault()
                before, epoch = epoch, await self._recovered()
                switches += epoch != before
                if switches >= switch_count:
                    break
        except (NoSwitch, TimeoutError) as error:
            self.findings.violations.append(str(error) or "nothing is acknowledged any more")
        self.findings.counts[f"switches of {self._mode.name}"] = switches
        await self._judge()

    async def _fault(self) -> None:
        chance, mode = self._chance, self._mode
        name = chance.choice(list(mode.faults))
        beside = chance.choice(list(mode.nuisances))
        self._done.append(f"{name}, {beside}")
        self.findings.counts[name] += 1
        if beside != "calm":
            self.findings.counts[beside] += 1
        await self._promise()
        async with mode.nuisances[beside](self._on, chance):
            await mode.faults[name](self._on, chance)

    async def _promise(self) -> None:
        """What is acknowledged a moment before the fault: delays, timers, and young topics."""
        master = await current_master(self._on)
        delays = ({"DELAY": "1"}, {"TIMER_DELAY_MS": str(self._chance.randrange(500, 3000))})
        for delay in delays:
            await asyncio.to_thread(
                self._ledger.send_many, master.address, _WAITING, _WAITING_COUNT, 1, delay
            )
        if self._chance.random() < _YOUNG_CHANCE:
            queue_count = self._chance.randint(1, _YOUNG_QUEUE_COUNT_MAX)
            await asyncio.to_thread(self._make_topic, master, queue_count)

    def _make_topic(self, master: Replica, queue_count: int) -> None:
        topic = f"young-{len(self._young)}"
        with suppress(OSError, PeerGone):
            reply = asked_for_topic(master.address, topic, queue_count)
            if reply.code == ResponseCode.SUCCESS:
                self._young[topic] = queue_count
                self._ledger.send_many(master.address, topic, 2 * queue_count, queue_count)
                self.findings.counts["topics made before a fault"] += 1

    async def _recovered(self) -> int:
        """The epoch of the master, when senders hear of it and everybody follows it.

        Raises NoSwitch and TimeoutError.
        """
        await self._traffic.until_more(patience_s=_PATIENCE_S)
        master = await current_master(self._on)
        others = [each for each in self._on.brokers if each is not master]
        if not await asyncio.to_thread(self._on.until_followed, master, *others):
            reports = [_replication_report(each) for each in self._on.brokers]
            raise NoSwitch(f"not all slaves follow {master}: {'; '.join(reports)}")
        return int(master.runtime_info.get("replicationEpoch", 0))

    async def _judge(self) -> None:
        found = self.findings
        found.add(seen_by(self._traffic, await self._traffic.finish(_PATIENCE_S)))
        found.add(self._ledger.counted())
        master = await asyncio.to_thread(self._on.master)
        if master is None:
            found.violations.append("in the end there is no master")
            return
        topics = [_WAITING, *self._young]
        found.violations += await asyncio.to_thread(self._ledger.check, master.address, topics)
        for topic, wanted in self._young.items():
            count = await asyncio.to_thread(queue_count_of, master.address, topic)
            if count != wanted:
                found.violations.append(f"T1: {topic} had {wanted} queues and has {count}")
        stores = [each.store_directory for each in self._on.brokers]
        found.violations += await differing(stores, _PATIENCE_S)
        if found.violations:
            found.violations.append(f"what was done: {'; '.join(self._done)}")


def _replication_report(broker: Replica) -> str:
    info = broker.runtime_info
    keys = ("commitLogMaxOffset", "replicationEpoch", "followedMaster", "replicationProblem")
    return f"{broker.address}: {', '.join(f'{key}={info.get(key)}' for key in keys)}"


def torture(directory: Path, seed: int, count: int) -> Findings:
    """So many switches in each mode, as many modes at a time as there are cores."""
    findings = Findings()
    with ProcessPoolExecutor(min(len(MODES), os.cpu_count() or 1), get_context("spawn")) as pool:
        modes = [pool.submit(_mode, directory, seed, count, mode) for mode in MODES]
        for done in modes:
            findings.add(done.result())
    return findings


def _mode(directory: Path, seed: int, count: int, mode: Mode) -> Findings:
    logging.disable(logging.CRITICAL)
    findings = Findings()
    for number, share in enumerate(rounds(count)):
        chance = Random(f"{seed} {mode.name} {number}")
        with TemporaryDirectory(dir=directory) as place:
            found = ordeal(Path(place), mode, chance, share)
        found.violations = [f"{mode.name}, round {number}: {each}" for each in found.violations]
        findings.add(found)
    return findings


def ordeal(directory: Path, mode: Mode, chance: Random, switch_count: int) -> Findings:
    """One set of brokers from its beginning to its end."""
    with mode.replicas(directory, chance) as on:
        first, *others = on.brokers
        on.start()
        on.master()
        for topic, queue_count in ((TOPIC, QUEUE_COUNT), (_WAITING, 1)):
            create_topic(first.address, topic, queue_count)
            until_known(topic, *others)
        return asyncio.run(_played(mode, on, chance, switch_count))


async def _played(mode: Mode, on: ReplicaSet, chance: Random, switch_count: int) -> Findings:
    queues = queues_of(on.brokers[:1])
    async with Traffic(on.name_server, queues, chance.getrandbits(32), _MIX) as traffic:
        ordeal = Ordeal(mode, on, traffic, chance)
        await ordeal.play(switch_count)
        return ordeal.findings


TORTURE: Final = Rig(
    "torture",
    "two and three brokers, with etcd and by hand, under all faults; the count is switches a mode",
    torture,
    few=1,
    many=100,
    missing=missing_etcd,
)
