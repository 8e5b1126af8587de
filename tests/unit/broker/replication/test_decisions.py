"""Where slaves and readers go on."""

import pytest

from roquet.broker.replication.decisions import (
    admission,
    check_cut,
    first_position,
    suggested_broker,
)
from roquet.broker.replication.epochs import START, EpochHistory, EpochStart, LogPlace
from roquet.broker.replication.errors import (
    CutRefused,
    NothingInCommon,
    Outdated,
    SlaveAhead,
    SlaveBehind,
)
from roquet.broker.replication.handshake import Registration
from roquet.protocol.bodies.groups import GroupConfig
from tests.support.raising import raises


@pytest.mark.parametrize(
    ("reported", "position"),
    [(0, 4096), (4096, 4096), (5000, 5000), (9000, 9000)],
    ids=["has nothing", "has all that expired", "in between", "has everything"],
)
def test_a_slave_continues_where_it_is(reported: int, position: int) -> None:
    assert first_position(reported, 4096, 9000) == position


def test_a_slave_that_has_more_than_its_master_learns_what_to_do() -> None:
    with raises(SlaveAhead, reported=9001, log_end=9000):
        first_position(9001, 4096, 9000)


def test_a_slave_that_was_away_for_too_long_learns_what_to_do() -> None:
    with raises(SlaveBehind, reported=4095, log_start=4096):
        first_position(4095, 4096, 9000)


def test_a_group_is_sent_to_the_brokers_that_it_names() -> None:
    group = GroupConfig(group_name="group", broker_id=2, which_broker_when_consume_slowly=3)
    assert suggested_broker(group, is_behind=False) == 2
    assert suggested_broker(group, is_behind=True) == 3
    assert suggested_broker(None, is_behind=True) == 0


MASTER = EpochHistory((EpochStart(1, 0, "old"), EpochStart(2, 6000, "new")))


def registration(
    end: int, *, author: str = "old", seen: int = 1, start: int = 0, **epochs: int
) -> Registration:
    starts = tuple(EpochStart(epoch, 0, name) for name, epoch in epochs.items())
    return Registration(author, seen, starts or MASTER.starts[:1], start, end)


def admitted(slave: Registration, *, is_elected: bool = False, log_start: int = 0) -> int:
    return admission(slave, MASTER, log_start, 9000, is_elected=is_elected).go_on_at


def test_a_copy_continues_where_it_ends() -> None:
    assert admitted(registration(5000)) == 5000
    assert admitted(registration(0)) == 0


def test_an_old_master_cuts_off_what_its_successor_never_had() -> None:
    assert admitted(registration(7000)) == 6000


def test_a_slave_that_has_more_than_its_master_is_cut_only_after_an_election() -> None:
    ahead = registration(7000, author="another")
    with pytest.raises(SlaveAhead):
        admitted(ahead)
    assert admitted(ahead, is_elected=True) == 6000


def test_a_slave_that_knows_a_later_master_is_not_let_in() -> None:
    with raises(Outdated, epoch=2, seen_epoch=3):
        admitted(registration(5000, seen=3))


def test_where_nothing_is_left_in_common_a_person_has_to_act() -> None:
    with pytest.raises(NothingInCommon, match="store directory"):
        admitted(registration(7000, start=6500))
    with pytest.raises(SlaveBehind):
        admitted(registration(5000), log_start=5500)


OWN = EpochHistory(
    (EpochStart(1, 0, "a"), EpochStart(2, 3000, "b"), EpochStart(4, 5000, "b"), EpochStart(5, 7000))
)


@pytest.mark.parametrize("cut_end", [3000, 5000, 6500])
def test_what_one_master_wrote_last_may_be_cut(cut_end: int) -> None:
    """Epochs that it held one after the other count as one: no other wrote in between."""
    check_cut(OWN, 0, 7000, cut_end=cut_end, acknowledged=START)


@pytest.mark.parametrize(
    ("cut_end", "acknowledged", "history"),
    [
        (2999, START, OWN),
        (6500, LogPlace(4, 6501), OWN),
        (0, START, EpochHistory((EpochStart(1, 0, "a"),))),
    ],
    ids=["of an earlier master", "acknowledged", "everything"],
)
def test_what_may_have_been_acknowledged_is_not_cut(
    cut_end: int, acknowledged: LogPlace, history: EpochHistory
) -> None:
    with pytest.raises(CutRefused) as raised:
        check_cut(history, 0, 7000, cut_end=cut_end, acknowledged=acknowledged)
    assert (raised.value.cut_end, raised.value.log_end) == (cut_end, 7000)


@pytest.mark.parametrize("acknowledged", [LogPlace(6, 6900), LogPlace(6, 9000)])
def test_what_a_successor_acknowledged_is_not_what_this_broker_has(acknowledged: LogPlace) -> None:
    """An old master that comes back late: its successor has gone on at the same places."""
    check_cut(OWN, 0, 7000, cut_end=6500, acknowledged=acknowledged)
