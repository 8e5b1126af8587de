"""What follows from what etcd says."""

import pytest

from roquet.broker.replication.failover.records import MasterRecord, RecordsView
from roquet.broker.replication.failover.steps import Me, Step, next_step
from roquet.broker.replication.in_sync import Replica

HERE = "10.0.0.1:10911"
MEMBERS = frozenset({Replica(1, "a"), Replica(2, "b")})


def view(master: int | None, revision: int = 8, address: str = HERE) -> RecordsView:
    record = None if master is None else MasterRecord(master, address, "10.0.0.1:10912")
    return RecordsView(20, record, 0 if master is None else revision, MEMBERS, 9, 100)


NEW = RecordsView(3)


@pytest.mark.parametrize(
    ("seen", "office_epoch", "is_first", "step"),
    [
        (NEW, None, True, Step.FOUND),
        (NEW, None, False, Step.WAIT),
        (view(None), None, True, Step.RUN),
        (view(2), None, True, Step.FOLLOW),
        (view(1), 108, True, Step.LEAD),
        (view(1, revision=9), 108, True, Step.STEP_DOWN),
        (view(2), 108, True, Step.STEP_DOWN),
        (view(None), 108, True, Step.STEP_DOWN),
        (view(1), None, True, Step.CLEAR),
        (view(1, address="10.0.0.9:10911"), None, True, Step.DOUBTED),
    ],
)
def test_every_case_has_its_step(
    seen: RecordsView, office_epoch: int | None, *, is_first: bool, step: Step
) -> None:
    assert next_step(seen, Me(1, HERE, is_first), office_epoch) is step


@pytest.mark.parametrize("is_first", [False, True])
def test_what_etcd_has_lost_is_founded_again_only_by_a_deliberate_word(*, is_first: bool) -> None:
    me = Me(1, HERE, is_first, was_known=True)
    assert next_step(NEW, me, None) is Step.LOST
    assert next_step(NEW, me._replace(is_to_found=True), None) is Step.FOUND
    assert next_step(view(None), me._replace(is_to_found=True), None) is Step.FOUND
    assert next_step(view(2), me._replace(is_to_found=True), None) is Step.FOLLOW
