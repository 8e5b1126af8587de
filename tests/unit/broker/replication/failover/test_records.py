"""What etcd keeps, read and doubted."""

import msgspec
import pytest

from roquet.broker.replication.epochs import LogPlace
from roquet.broker.replication.failover.records import (
    BadEntry,
    Candidacy,
    Keys,
    KeyValue,
    MasterRecord,
    MembersRecord,
    RecordsView,
    view_of,
)
from roquet.broker.replication.in_sync import ANY_STORE, Replica

KEYS = Keys("cluster", "broker-a")
_MEMBERS = b'{"members":[1,2],"epoch_base":50,"stores":["a","b"],"copies":2}'


def test_everything_is_seen_at_once() -> None:
    found = [
        KeyValue(KEYS.master, b'{"replica_id":1,"address":"a:1","ha_address":"a:2"}', 7, 7),
        KeyValue(KEYS.members, _MEMBERS, 3, 9),
        KeyValue(KEYS.acknowledged, b'{"epoch":55,"end":800}', 4, 11),
        KeyValue(KEYS.candidate(2), b'{"replica_id":2,"vacancy":6,"epoch":55,"end":900}', 5, 5),
    ]
    view = view_of(KEYS, 12, found)
    assert view == RecordsView(
        12,
        MasterRecord(1, "a:1", "a:2"),
        7,
        frozenset({Replica(1, "a"), Replica(2, "b")}),
        9,
        50,
        2,
        LogPlace(55, 800),
        (Candidacy(2, 6, 55, 900),),
    )
    assert view.epoch == 57


def test_what_is_written_is_read_again() -> None:
    members = frozenset({Replica(2, "b"), Replica(1, "a")})
    record = MembersRecord.of(members, 50, 3)
    view = view_of(KEYS, 12, [KeyValue(KEYS.members, msgspec.json.encode(record), 3, 9)])
    assert (view.members, view.epoch_base, view.replicas_needed) == (members, 50, 3)


def test_a_record_of_older_brokers_has_neither_stores_nor_copies() -> None:
    view = view_of(KEYS, 12, [KeyValue(KEYS.members, b'{"members":[1,2],"epoch_base":50}', 3, 9)])
    assert view.members == frozenset({Replica(1, ANY_STORE), Replica(2, ANY_STORE)})
    assert view.replicas_needed is None


def test_what_is_no_record_is_named() -> None:
    with pytest.raises(BadEntry, match="/roquet/cluster/broker-a/members"):
        view_of(KEYS, 12, [KeyValue(KEYS.members, b"nonsense", 3, 9)])


@pytest.mark.parametrize(("seen_epoch", "base"), [(0, 50), (62, 50), (63, 63)])
def test_a_recreated_etcd_does_not_start_with_old_epochs(seen_epoch: int, base: int) -> None:
    view = RecordsView(12, epoch_base=50)
    assert view.base_above(seen_epoch) == base
    assert view.base_above(seen_epoch) + view.revision + 1 > seen_epoch
