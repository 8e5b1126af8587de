"""What etcd keeps, read and doubted."""

import pytest

from roquet.broker.replication.failover.election import Candidacy
from roquet.broker.replication.failover.records import (
    BadEntry,
    Keys,
    KeyValue,
    MasterRecord,
    RecordsView,
    view_of,
)

KEYS = Keys("cluster", "broker-a")


def test_everything_is_seen_at_once() -> None:
    found = [
        KeyValue(KEYS.master, b'{"replica_id":1,"address":"a:1","ha_address":"a:2"}', 7, 7),
        KeyValue(KEYS.members, b'{"members":[1,2],"epoch_base":50}', 3, 9),
        KeyValue(KEYS.candidate(2), b'{"replica_id":2,"vacancy":6,"epoch":55,"end":900}', 5, 5),
    ]
    view = view_of(KEYS, 12, found)
    assert view == RecordsView(
        12,
        MasterRecord(1, "a:1", "a:2"),
        7,
        frozenset({1, 2}),
        9,
        50,
        (Candidacy(2, 6, 55, 900),),
    )
    assert view.epoch == 57


def test_what_is_no_record_is_named() -> None:
    with pytest.raises(BadEntry, match="/roquet/cluster/broker-a/members"):
        view_of(KEYS, 12, [KeyValue(KEYS.members, b"nonsense", 3, 9)])


@pytest.mark.parametrize(("seen_epoch", "base"), [(0, 50), (62, 50), (63, 63)])
def test_an_etcd_that_was_made_anew_does_not_begin_with_old_epochs(
    seen_epoch: int, base: int
) -> None:
    view = RecordsView(12, epoch_base=50)
    assert view.base_above(seen_epoch) == base
    assert view.base_above(seen_epoch) + view.revision + 1 > seen_epoch
