"""What etcd stores for the brokers of one name.

    /roquet/<cluster>/<broker name>/master         the master; deleted with its lease
    /roquet/<cluster>/<broker name>/members        who is in sync, by number and store, and on how
                                                   many an acknowledged message is; rewritten by
                                                   every election
    /roquet/<cluster>/<broker name>/acknowledged   how far the log was acknowledged, a while ago
    /roquet/<cluster>/<broker name>/candidates/2   its vote; deleted with its lease

The epoch of a master is the revision of etcd that made its record, which is greater than all before
it, plus a base: what was known of epochs when etcd was new.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from roquet.broker.replication.epochs import START, LogPlace
from roquet.broker.replication.in_sync import ANY_STORE, Replica
from roquet.errors import RoquetError

T = TypeVar("T")


class BadEntry(RoquetError):
    """A record in etcd is not in the format that brokers write."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"invalid record at {key} in etcd: {reason}")
        self.key = key


class KeyValue(NamedTuple):
    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class MasterRecord(msgspec.Struct, frozen=True):
    replica_id: int
    address: str
    ha_address: str


class MembersRecord(msgspec.Struct, frozen=True):
    """Brokers of before 0.2 write numbers alone, and read nothing else."""

    members: tuple[int, ...]
    epoch_base: int
    stores: tuple[str, ...] = ()  # in the order of `members`
    # How many brokers an acknowledged message is on.
    replicas_needed: int | None = msgspec.field(default=None, name="copies")

    @classmethod
    def of(
        cls, members: frozenset[Replica], epoch_base: int, replicas_needed: int
    ) -> "MembersRecord":
        numbers, stores = zip(*sorted(members), strict=True)
        return cls(numbers, epoch_base, stores, replicas_needed)

    @property
    def as_set(self) -> frozenset[Replica]:
        stores = self.stores or (ANY_STORE,) * len(self.members)
        return frozenset(map(Replica, self.members, stores))


class AcknowledgedRecord(msgspec.Struct, frozen=True):
    epoch: int  # of the byte before `end`
    end: int


class Candidacy(msgspec.Struct, frozen=True):
    """The vote of one broker while there is no master: how far its log is."""

    replica_id: int
    # The revision of the in-sync set when the master was missing: earlier votes are outdated.
    vacancy: int
    epoch: int  # of the last byte of its log
    end: int
    # It has just stepped down, and yields to others whose log is as long.
    abstains: bool = False
    store: str = ANY_STORE

    @property
    def replica(self) -> Replica:
        return Replica(self.replica_id, self.store)

    @property
    def place(self) -> LogPlace:
        return LogPlace(self.epoch, self.end)

    @property
    def rank(self) -> tuple[LogPlace, bool, int]:
        # Of two that are equal, the one with the lower id.
        return self.place, not self.abstains, -self.replica_id


class Keys(msgspec.Struct, frozen=True):
    cluster: str
    broker_name: str

    @property
    def prefix(self) -> str:
        return f"/roquet/{self.cluster}/{self.broker_name}/"

    @property
    def master(self) -> str:
        return self.prefix + "master"

    @property
    def members(self) -> str:
        return self.prefix + "members"

    @property
    def acknowledged(self) -> str:
        return self.prefix + "acknowledged"

    def candidate(self, replica_id: int) -> str:
        return f"{self.prefix}candidates/{replica_id}"


class RecordsView(msgspec.Struct, frozen=True):
    """All of it, at one revision."""

    revision: int
    master: MasterRecord | None = None
    master_revision: int = 0
    members: frozenset[Replica] | None = None
    members_revision: int = 0
    epoch_base: int = 0
    replicas_needed: int | None = None
    acknowledged: LogPlace = START
    candidates: tuple[Candidacy, ...] = ()

    @property
    def epoch(self) -> int:
        return self.epoch_base + self.master_revision

    def base_above(self, seen_epoch: int) -> int:
        """The base of the next epoch, which must be later than those a broker has seen."""
        is_enough = self.epoch_base + self.revision >= seen_epoch
        return self.epoch_base if is_enough else seen_epoch


def view_of(keys: Keys, revision: int, found: Iterable[KeyValue]) -> RecordsView:
    """Raises BadEntry."""
    view = RecordsView(revision)
    for each in found:
        if each.key == keys.master:
            record = _decoded(each, MasterRecord)
            view = replace(view, master=record, master_revision=each.create_revision)
        elif each.key == keys.members:
            members = _decoded(each, MembersRecord)
            view = replace(
                view,
                members=members.as_set,
                members_revision=each.mod_revision,
                epoch_base=members.epoch_base,
                replicas_needed=members.replicas_needed,
            )
        elif each.key == keys.acknowledged:
            reached = _decoded(each, AcknowledgedRecord)
            view = replace(view, acknowledged=LogPlace(reached.epoch, reached.end))
        elif each.key.startswith(keys.prefix + "candidates/"):
            candidates = (*view.candidates, _decoded(each, Candidacy))
            view = replace(view, candidates=candidates)
    return view


def _decoded(each: KeyValue, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(each.value, type=kind)
    except msgspec.MsgspecError as error:
        raise BadEntry(each.key, str(error)) from None
