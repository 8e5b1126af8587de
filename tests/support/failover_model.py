"""Brokers of one name and their etcd, without sockets and disks: random steps, real decisions.

Every decision is the one that brokers make: who is admitted and cut, what is confirmed, who stays
in sync, who is elected, how long a lease is trusted. Around them is as little as possible: logs
are lists, time is a number, and the network does what the schedule says. What must never happen is
noted in `violations`.
"""

from dataclasses import dataclass, field
from random import Random

from roquet.broker.replication import acknowledging, lease
from roquet.broker.replication.decisions import admission
from roquet.broker.replication.epochs import EpochHistory
from roquet.broker.replication.errors import LinkError
from roquet.broker.replication.failover.election import Candidacy, ElectionVerdict, verdict
from roquet.broker.replication.handshake import Registration
from roquet.broker.replication.in_sync import Replica, is_in_set, next_members

TTL_S = 4.0
# How much slower than that of etcd the clock of a broker may run.
SLOWEST = 0.85
REPLICAS = (1, 2, 3)


@dataclass
class Node:
    replica_id: int
    # Which disk it has by now.
    disk: int = 1
    log: list[int] = field(default_factory=list)
    history: EpochHistory = field(default_factory=EpochHistory)
    seen: int = 0
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
    def replica(self) -> Replica:
        return Replica(self.replica_id, f"{self.replica_id}-{self.disk}")


class FailoverModel:
    def __init__(self, seed: int, copies: int) -> None:
        self._random = Random(seed)
        self._copies = copies
        self.violations: list[str] = []
        self.acknowledged: dict[int, int] = {}  # message -> epoch
        self.election_count = 0
        self._now_s = 100.0
        self.replicas = {each: Node(each) for each in REPLICAS}
        self._rates = {each: self._random.uniform(SLOWEST, 1.0) for each in REPLICAS}
        self._next_message = 0
        # etcd.
        self._revision = 1
        self._master: int | None = None
        self._master_epoch = 0
        self._lease_end_s = 0.0
        self._members = frozenset({self.replicas[1].replica})
        self._members_revision = 1
        self._candidates: dict[int, Candidacy] = {}
        self._elect(self.replicas[1])

    def run(self, steps: int) -> None:
        # Some bugs need calm to be seen, and some need trouble.
        trouble = self._random.randint(1, 5)
        actions = [
            *[self.send] * 3,
            *[self._copy] * self._random.choice((2, 4, 8)),
            *[self._acknowledge] * 6,
            *[self._renew] * 8,
            *[self._look] * 6,
            *[self._review_members] * 2,
            *[self._wait, self._kill, self._start, self._cut_off, self._join] * trouble,
            *[self._lose_disk] * self._random.randint(0, 1),
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
        if self._random.random() < 0.02:
            self.lose_disk(self._some())

    def lose_disk(self, replica: Node) -> None:
        """It comes back under its number with nothing."""
        self.kill(replica)
        self.replicas[replica.replica_id] = Node(
            replica.replica_id, replica.disk + 1, can_reach_etcd=replica.can_reach_etcd
        )

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
                replica.log.append(self._next_message)

    def _renew(self) -> None:
        for replica in self.replicas.values():
            if replica.epoch is None or not replica.can_reach_etcd:
                continue
            if self._master_epoch == replica.epoch and self._master == replica.replica_id:
                self._lease_end_s = self._now_s + TTL_S
                replica.trusted_until_s = lease.trusted_until_s(self._clock_s(replica), TTL_S)
            else:
                replica.epoch = None

    def _acknowledge(self) -> None:
        self.acknowledge(self._some())

    def acknowledge(self, replica: Node) -> None:
        if replica.epoch is None or self._clock_s(replica) >= replica.trusted_until_s:
            return
        ends = [end for each, end in replica.confirmed.items() if is_in_set(each, replica.members)]
        end = len(replica.log)
        if self._copies > 1:
            end = acknowledging.end_with_copies(ends, self._copies - 1)
        replica.acknowledged_end = max(replica.acknowledged_end, end)
        for message in replica.log[:end]:
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
        proposed = next_members(
            self._members,
            frozenset({replica.replica, *(self.replicas[each].replica for each in others)}),
            ends={**replica.confirmed, replica.replica: len(replica.log)},
            acknowledged_end=replica.acknowledged_end,
            copies=self._copies,
        )
        self._revision += 1
        self._members = replica.members = proposed
        self._members_revision = self._revision

    # A slave.

    def _copy(self) -> None:
        masters = [each for each in self.replicas.values() if each.epoch is not None]
        if masters:
            self.copy(self._some(), self._random.choice(masters), self._random.randint(0, 3))

    def copy(self, slave: Node, master: Node, count: int) -> None:
        if slave is master or not (slave.is_alive and master.is_alive) or slave.is_held:
            return
        if master.epoch is None or slave.epoch is not None:
            return
        if slave.link != (master.replica_id, master.epoch) and not self._linked(slave, master):
            return
        slave.log += master.log[len(slave.log) :][:count]
        master.confirmed[slave.replica] = len(slave.log)

    def _linked(self, slave: Node, master: Node) -> bool:
        """The handshake."""
        assert master.epoch is not None
        registration = Registration(
            slave.replica.store, slave.seen, slave.history.starts, 0, len(slave.log)
        )
        try:
            admitted = admission(registration, master.history, 0, len(master.log), is_elected=True)
        except LinkError:
            return False
        del slave.log[admitted.go_on_at :]
        slave.history = EpochHistory(admitted.epochs)
        slave.seen = max(slave.seen, admitted.epoch)
        slave.link = (master.replica_id, master.epoch)
        # What it confirmed before may be gone.
        master.confirmed[slave.replica] = len(slave.log)
        return True

    # Elections.

    def _look(self) -> None:
        self.look(self._some())

    def look(self, replica: Node) -> None:
        if not (replica.is_alive and replica.can_reach_etcd):
            return
        if replica.epoch is not None:
            if (self._master, self._master_epoch) != (replica.replica_id, replica.epoch):
                replica.epoch = None
            return
        if self._master is not None:
            replica.is_held = False
            if self._master != replica.replica_id:
                replica.seen = max(replica.seen, self._master_epoch)
            else:
                self._master = None  # It was killed, and is back.
            return
        replica.is_held = True
        replica.link = None
        end = len(replica.log)
        me = Candidacy(
            replica.replica_id,
            self._members_revision,
            replica.history.at(end).number,
            end,
            store=replica.replica.store,
        )
        others = list(self._candidates.values())
        self._candidates[replica.replica_id] = me
        judged = verdict(me, others, self._members, copies=self._copies, is_patient=False)
        if judged is ElectionVerdict.STAND:
            self._elect(replica)

    def _elect(self, replica: Node) -> None:
        self._revision += 1
        self._members_revision = self._master_epoch = replica.epoch = self._revision
        self._master = replica.replica_id
        self._lease_end_s = self._now_s + TTL_S
        self.election_count += 1
        replica.trusted_until_s = lease.trusted_until_s(self._clock_s(replica), TTL_S)
        start, store = len(replica.log), replica.replica.store
        replica.history = replica.history.begun(self._revision, start, store)
        replica.seen = self._revision
        replica.members = self._members
        replica.confirmed = {}
        replica.acknowledged_end = len(replica.log)
        if self._copies > 1:
            lost = self.acknowledged.keys() - set(replica.log)
            if lost:
                self.violations.append(f"epoch {self._revision} lacks {sorted(lost)}")
