"""Brokers of one name and their etcd, without sockets and disks: random steps, real decisions.

Every decision is the one that brokers make: who is admitted and cut, what is confirmed, who stays
in sync, who is elected, how long a lease is trusted, which table counts and which progress. Around
them is as little as possible: logs are lists, time is a number, and the network does what the
schedule says. What must never happen is noted in `violations`.

A log has messages (1, 2, ...), copies of delayed messages that were delivered (-2 of 2; every even
one is delayed), and records of topics. Every tenth message needs a topic of its own.
"""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from roquet.broker.replication import in_sync, leadership
from roquet.broker.replication.decisions import admission, check_cut
from roquet.broker.replication.epochs import START, EpochHistory, LogPlace
from roquet.broker.replication.errors import LinkError
from roquet.broker.replication.failover.election import (
    Action,
    ElectionResult,
    Self,
    election_result,
    next_action,
)
from roquet.broker.replication.failover.records import Candidacy, MasterRecord, RecordsView
from roquet.broker.replication.handshake import Registration
from roquet.broker.replication.in_sync import AckPolicy, AckRule, Replica, is_in_set, next_members
from roquet.broker.settings.config import BrokerConfig, BrokerRole
from roquet.broker.tables.durable_state import DurableState
from roquet.broker.tables.versions import changed, gives_way, in_part, is_later, led
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.store.config import StoreConfig

TTL_S = 4.0
# What the first broker is asked to promise, by the number of replicas.
POLICIES: dict[int, dict[str, Any]] = {
    1: {"role": BrokerRole.ASYNC_MASTER},
    2: {"role": BrokerRole.SYNC_MASTER},
    3: {"role": BrokerRole.ASYNC_MASTER, "ack_policy": AckPolicy.QUORUM, "replica_count": 5},
}
# How much slower than that of etcd the clock of a broker may run.
SLOWEST = 0.85
REPLICAS = (1, 2, 3)


# For bugs that are put in on purpose.
WRITES_TABLES = True


def true_at(end: int) -> int:
    """From which end of its log on a slave may use progress that is true there."""
    return end


SLAVE = BrokerConfig(store=StoreConfig(root=Path("nowhere")), role=BrokerRole.SLAVE)


class TopicRecord(NamedTuple):
    topic: int
    version: DataVersion


@dataclass
class Node:
    replica_id: int
    # Which disk it has by now.
    disk: int = 1
    log: list[int | TopicRecord] = field(default_factory=list)
    # Topics, and how far delayed messages are delivered: tables beside the log.
    topics: frozenset[int] = frozenset()
    version: DataVersion = field(default_factory=DataVersion)
    progress: DurableState[DelayOffsetTable] = field(
        default_factory=lambda: DurableState(DelayOffsetTable())
    )
    delivered_count: int = 0
    history: EpochHistory = field(default_factory=EpochHistory)
    seen: int = 0
    # What its file says, what it has learned from its master, and what it obeys as a master.
    config: BrokerConfig = SLAVE
    learned: AckRule | None = None
    replicas_needed: int = 1
    has_electorate: bool = False
    is_alive: bool = True
    can_reach_etcd: bool = True
    # As a master.
    epoch: int | None = None
    trusted_until_s: float = 0.0
    members: frozenset[Replica] = frozenset()
    confirmed: dict[Replica, int] = field(default_factory=dict)
    acknowledged_end: int = 0
    # As a slave: whom it is linked to, in which epoch.
    link: tuple[int, int] | None = None
    is_held: bool = False

    @property
    def delayed(self) -> list[int]:
        """Delayed messages, in the order of their queue."""
        return [each for each in self.log if isinstance(each, int) and each > 0 and each % 2 == 0]

    @property
    def delivered(self) -> set[int]:
        return {-each for each in self.log if isinstance(each, int) and each < 0}

    @property
    def known_topics(self) -> frozenset[int]:
        """With what the log knows and the table does not: what promotion replays."""
        records = [each for each in self.log if isinstance(each, TopicRecord)]
        return self.topics.union(
            each.topic for each in records if is_later(each.version, self.version)
        )

    @property
    def rule(self) -> AckRule:
        return self.config.as_master(self.learned).ack_rule

    @property
    def replica(self) -> Replica:
        return Replica(self.replica_id, f"{self.replica_id}-{self.disk}")


def vouched_end(master: Node) -> int:
    """Up to where a master says that its progress is true."""
    is_waited_for = master.replicas_needed > 1 and len(master.members) > 1
    return master.acknowledged_end if is_waited_for else len(master.log)


class FailoverModel:
    def __init__(self, seed: int, replicas_needed: int) -> None:
        """`replicas_needed` is what the first broker's settings promise; the others have none."""
        self._random = Random(seed)
        self._is_promised = replicas_needed > 1
        self.violations: list[str] = []
        self.acknowledged: dict[int, int] = {}  # message -> epoch
        self.election_count = 0
        self._now_s = 100.0
        self.replicas = {each: Node(each) for each in REPLICAS}
        first = replace(SLAVE, **POLICIES[replicas_needed])
        self.replicas[1].config = first.as_slave(1)
        self._rates = {each: self._random.uniform(SLOWEST, 1.0) for each in REPLICAS}
        self._next_message = 0
        # etcd.
        self._revision = 1
        self._master: int | None = None
        self._master_epoch = 0
        self._lease_end_s = 0.0
        self._epoch_base = 0
        self._members: frozenset[Replica] | None = None
        self._members_revision = 0
        self._replicas_recorded: int | None = None
        self._acknowledged_place = START
        # What was last asked of a master besides its log: its epoch, and its tables.
        self._snapshot: tuple[int | None, frozenset[int], DataVersion, DelayOffsetTable] | None = (
            None
        )
        self._candidates: dict[int, Candidacy] = {}
        self.look(self.replicas[1])

    def run(self, steps: int) -> None:
        # Some bugs need calm to be seen, and some need trouble.
        trouble = self._random.randint(1, 5)
        actions = [
            *[self.send] * 3,
            *[self._copy] * self._random.choice((4, 8, 16)),
            *[self._acknowledge] * 6,
            *[self._deliver, self._confirm_progress, self._copy_tables, self._take_snapshot] * 2,
            *[self._renew] * 8,
            *[self._look] * 6,
            *[self._review_members] * 2,
            *[self._wait, self._kill, self._start, self._cut_off, self._join] * trouble,
            *[self._lose_disk, self._lose_etcd, self._found] * self._random.randint(0, 1),
            *[self._note_acknowledged] * 2,
        ]
        for _ in range(steps):
            self._random.choice(actions)()
            if self.violations:
                return

    # Time, and what breaks.

    def _wait(self) -> None:
        self.wait(self._random.choice((0.2, 1.0, 2.0, 4.0)))

    def wait(self, seconds: float) -> None:
        self._now_s += seconds
        if self._master is not None and self._now_s >= self._lease_end_s:
            self._master = None

    def _clock_s(self, replica: Node) -> float:
        return self._now_s * self._rates[replica.replica_id]

    def _some(self) -> Node:
        return self.replicas[self._random.choice(REPLICAS)]

    def _kill(self) -> None:
        if self._random.random() < 0.3:
            self.kill(self._some())

    def kill(self, replica: Node) -> None:
        replica.is_alive = False
        replica.epoch = replica.link = None

    def _start(self) -> None:
        self._some().is_alive = True

    def _lose_disk(self) -> None:
        if self._random.random() < 0.01 and self._members is not None:
            self.lose_disk(self._some())

    def lose_disk(self, replica: Node) -> None:
        """It comes back under its number with nothing but its settings."""
        self.kill(replica)
        self.replicas[replica.replica_id] = Node(
            replica.replica_id,
            replica.disk + 1,
            config=replica.config,
            can_reach_etcd=replica.can_reach_etcd,
        )

    def _lose_etcd(self) -> None:
        # Brokers that lost their disks at that time, too, are more than anybody is promised.
        if self._random.random() < 0.01 and all(each.log for each in self.replicas.values()):
            self.lose_etcd()

    def lose_etcd(self) -> None:
        """It comes back without its data, and counts from the beginning."""
        self._revision, self._epoch_base = 1, 0
        self._master, self._master_epoch = None, 0
        self._members, self._members_revision, self._replicas_recorded = None, 0, None
        self._acknowledged_place = START
        self._candidates.clear()

    def _found(self) -> None:
        """What the runbook says: all that there are, and of them the one with the longest log."""
        nodes = list(self.replicas.values())
        if self._members is None and all(each.is_alive for each in nodes):
            self.look(max(nodes, key=self._place), is_to_found=True)

    def _cut_off(self) -> None:
        if self._random.random() < 0.4:
            self._some().can_reach_etcd = False

    def _join(self) -> None:
        self._some().can_reach_etcd = True

    # A master.

    def send(self) -> None:
        for replica in self.replicas.values():
            if replica.is_alive and replica.epoch is not None:
                self._next_message += 1
                self._make_topic(replica, self._next_message // 10)
                replica.log.append(self._next_message)

    def _make_topic(self, master: Node, topic: int) -> None:
        if topic not in master.topics:
            master.topics |= {topic}
            master.version = changed(master.version, int(self._now_s * 1000))
            if WRITES_TABLES:
                master.log.append(TopicRecord(topic, master.version))

    def _deliver(self) -> None:
        self.deliver(self._some())

    def deliver(self, master: Node) -> None:
        """The next delayed message of a master; that it is done is proposed with it."""
        if master.epoch is None or master.delivered_count >= len(master.delayed):
            return
        master.log.append(-master.delayed[master.delivered_count])
        master.delivered_count += 1
        table = DelayOffsetTable(offset_table={1: master.delivered_count})
        master.progress.propose(table, len(master.log))

    def _confirm_progress(self) -> None:
        self.confirm_progress(self._some())

    def confirm_progress(self, master: Node) -> None:
        """By what replicas confirmed, where they are waited for."""
        if master.epoch is not None:
            master.progress.confirm(vouched_end(master))

    def _take_snapshot(self) -> None:
        self.take_snapshot(self._some())

    def take_snapshot(self, master: Node) -> None:
        """A master answers a slave; the answer may arrive much later."""
        if master.epoch is not None:
            value = master.progress.value
            self._snapshot = (master.epoch, master.topics, master.version, value)

    def _copy_tables(self) -> None:
        self.copy_tables(self._some())

    def copy_tables(self, slave: Node) -> None:
        if self._snapshot is None or slave.epoch is not None or slave.link is None:
            return
        epoch, topics, version, progress = self._snapshot
        if slave.link[1] != epoch:
            return  # It was asked by another link.
        if gives_way(slave.version, version, has_epochs=True):
            slave.topics, slave.version = topics, version
        if progress.true_at is not None:
            slave.progress.propose(progress, true_at(progress.true_at))
            slave.progress.confirm(len(slave.log))

    def _renew(self) -> None:
        for replica in self.replicas.values():
            if replica.epoch is None or not replica.can_reach_etcd:
                continue
            if self._master_epoch == replica.epoch and self._master == replica.replica_id:
                self._lease_end_s = self._now_s + TTL_S
                replica.trusted_until_s = leadership.trusted_until_s(self._clock_s(replica), TTL_S)
            else:
                replica.epoch = None

    def _acknowledge(self) -> None:
        self.acknowledge(self._some())

    def acknowledge(self, replica: Node) -> None:
        if replica.epoch is None or self._clock_s(replica) >= replica.trusted_until_s:
            return
        ends = [end for each, end in replica.confirmed.items() if is_in_set(each, replica.members)]
        end = len(replica.log)
        if replica.replicas_needed > 1:
            end = in_sync.end_at_replicas(ends, replica.replicas_needed - 1)
        replica.acknowledged_end = max(replica.acknowledged_end, end)
        # Senders of what earlier masters took do not wait at this one. That matters: a replica that
        # has nothing of this epoch may lose an election to one that has less, of a later epoch.
        for message in replica.log[replica.history.starts[-1].start : end]:
            if isinstance(message, TopicRecord) or message < 0:
                continue
            if message not in self.acknowledged:
                self.acknowledged[message] = replica.epoch
                if self._master_epoch > replica.epoch:
                    self.violations.append(f"epoch {replica.epoch} acknowledges after its end")

    def _review_members(self) -> None:
        others = self._random.sample(REPLICAS, self._random.randint(0, 3))
        self.review_members(self._some(), *others)

    def review_members(self, replica: Node, *others: int) -> None:
        is_master = replica.epoch is not None and replica.epoch == self._master_epoch
        if not is_master or self._master is None or not replica.can_reach_etcd:
            return
        assert self._members is not None
        proposed = next_members(
            self._members,
            frozenset({replica.replica, *(self.replicas[each].replica for each in others)}),
            ends={**replica.confirmed, replica.replica: len(replica.log)},
            acknowledged_end=replica.acknowledged_end,
            replicas_needed=replica.replicas_needed,
        )
        self._revision += 1
        self._members = replica.members = proposed
        self._members_revision = self._revision

    def _note_acknowledged(self) -> None:
        replica = self._some()
        is_master = replica.epoch is not None and replica.epoch == self._master_epoch
        if is_master and self._master is not None and replica.can_reach_etcd:
            end = replica.acknowledged_end
            self._acknowledged_place = LogPlace(replica.history.at(end).number, end)

    # A slave.

    def _copy(self) -> None:
        masters = [each for each in self.replicas.values() if each.epoch is not None]
        if masters:
            self.copy(self._some(), self._random.choice(masters), self._random.randint(0, 8))

    def copy(self, slave: Node, master: Node, count: int) -> None:
        if slave is master or not (slave.is_alive and master.is_alive) or slave.is_held:
            return
        if master.epoch is None or slave.epoch is not None:
            return
        if slave.link != (master.replica_id, master.epoch) and not self._linked(slave, master):
            return
        arrived = master.log[len(slave.log) :][:count]
        slave.log += arrived
        for record in arrived:
            if isinstance(record, TopicRecord) and is_later(record.version, slave.version):
                slave.topics, slave.version = slave.topics | {record.topic}, in_part(record.version)
        slave.progress.confirm(len(slave.log))
        master.confirmed[slave.replica] = len(slave.log)

    def _linked(self, slave: Node, master: Node) -> bool:
        """The handshake."""
        assert master.epoch is not None
        registration = Registration(
            slave.replica.store, slave.seen, slave.history.starts, 0, len(slave.log)
        )
        try:
            admitted = admission(
                registration,
                master.history,
                0,
                len(master.log),
                is_elected=True,
                ack_rule=master.rule,
            )
            if admitted.go_on_at < len(slave.log):
                check_cut(
                    slave.history,
                    0,
                    len(slave.log),
                    cut_end=admitted.go_on_at,
                    acknowledged=self._acknowledged_place,
                )
        except LinkError:
            return False
        del slave.log[admitted.go_on_at :]
        slave.learned = admitted.ack_rule
        slave.history = EpochHistory(admitted.epochs)
        slave.seen = max(slave.seen, admitted.epoch)
        slave.link = (master.replica_id, master.epoch)
        slave.progress.withdraw()
        # What it confirmed before may be gone.
        master.confirmed[slave.replica] = len(slave.log)
        return True

    # Elections.

    def _look(self) -> None:
        self.look(self._some())

    def look(self, replica: Node, *, is_to_found: bool = False) -> None:
        if not (replica.is_alive and replica.can_reach_etcd):
            return
        replica.has_electorate |= self._members is not None
        me = Self(
            replica.replica_id,
            str(replica.replica_id),
            is_first=replica.config.own_ack_rule is not None,
            was_known=replica.has_electorate,
            is_to_found=is_to_found,
        )
        match next_action(self._view(), me, replica.epoch):
            case Action.STEP_DOWN:
                replica.epoch = None
            case Action.CLEAR:
                replica.is_held = False
                self._master = None  # It was killed, and is back.
            case Action.FOLLOW:
                replica.is_held = False
                replica.seen = max(replica.seen, self._master_epoch)
            case Action.FOUND:
                self._members = frozenset({replica.replica})
                self._elect(replica)
            case Action.RUN:
                self._vote(replica)

    def _view(self) -> RecordsView:
        address = str(self._master)
        return RecordsView(
            self._revision,
            None if self._master is None else MasterRecord(self._master, address, address),
            self._master_epoch - self._epoch_base,
            self._members,
            self._members_revision,
            self._epoch_base,
            self._replicas_recorded,
            self._acknowledged_place,
        )

    def _place(self, replica: Node) -> LogPlace:
        end = len(replica.log)
        return LogPlace(replica.history.at(end).number, end)

    def _vote(self, replica: Node) -> None:
        replica.is_held = True
        replica.link = None
        place = self._place(replica)
        me = Candidacy(
            replica.replica_id, self._members_revision, *place, store=replica.replica.store
        )
        others = list(self._candidates.values())
        self._candidates[replica.replica_id] = me
        assert self._members is not None
        assert self._replicas_recorded is not None
        result = election_result(
            me,
            others,
            self._members,
            replicas_needed=self._replicas_recorded,
            is_patient=False,
            acknowledged=self._acknowledged_place,
        )
        if result is ElectionResult.STAND:
            self._elect(replica)

    def _elect(self, replica: Node) -> None:
        assert self._members is not None
        self._epoch_base = self._view().base_above(replica.seen)
        self._revision += 1
        epoch = self._epoch_base + self._revision
        self._members_revision = self._revision
        self._master, self._master_epoch, replica.epoch = replica.replica_id, epoch, epoch
        self._lease_end_s = self._now_s + TTL_S
        self.election_count += 1
        replica.trusted_until_s = leadership.trusted_until_s(self._clock_s(replica), TTL_S)
        self._acknowledged_place = self._place(replica)
        start, store = len(replica.log), replica.replica.store
        replica.history = replica.history.with_epoch(epoch, start, store)
        replica.seen = epoch
        replica.replicas_needed = self._replicas_recorded = replica.rule.replicas_needed
        replica.members = self._members
        replica.confirmed = {}
        replica.acknowledged_end = len(replica.log)
        replica.link = None
        replica.progress.truncate(len(replica.log))
        replica.delivered_count = replica.progress.value.offset_table.get(1, 0)
        replica.topics = replica.known_topics
        replica.version = led(replica.version, epoch, int(self._now_s * 1000))
        if self._is_promised:
            self._look_for_losses(replica)

    def _look_for_losses(self, master: Node) -> None:
        lost = self.acknowledged.keys() - {each for each in master.log if isinstance(each, int)}
        if lost:
            self.violations.append(f"epoch {master.epoch} lacks {sorted(lost)}")
        hidden = [each for each in self.acknowledged if each // 10 not in master.topics]
        if hidden:
            self.violations.append(f"epoch {master.epoch} has no topics for {hidden}")
        passed = set(master.delayed[: master.delivered_count]) - master.delivered
        if passed & self.acknowledged.keys():
            self.violations.append(f"epoch {master.epoch} never delivers {sorted(passed)}")
