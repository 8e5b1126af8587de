"""How far a master is with what waits, and what its slave makes of that."""

import pytest

from roquet.broker.tables.durable_state import DurableState
from roquet.broker.tables.progress import ProgressTables
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offsets import (
    AllProgress,
    DelayOffsetTable,
    TimerProgress,
    TransactionProgress,
)


def tables() -> ProgressTables:
    return ProgressTables(
        DurableState(DelayOffsetTable()),
        DurableState(TimerProgress()),
        DurableState(TransactionProgress()),
    )


def at(progress: ProgressTables) -> tuple[int, int, int]:
    return (
        progress.levels.value.offset_table.get(1, 0),
        progress.timers.value.next_offset,
        progress.transactions.value.half_offset,
    )


def told(offset: int, true_at: int | None = None) -> AllProgress:
    return AllProgress(
        offset_table={1: offset},
        timers=TimerProgress(next_offset=offset, true_at=true_at),
        transactions=TransactionProgress(half_offset=offset, true_at=true_at),
        true_at=true_at,
    )


@pytest.fixture
def master() -> ProgressTables:
    made = tables()
    made.follow(told(7, true_at=100), 0)
    made.confirm(100)
    return made


def test_a_slave_uses_what_its_master_says_when_its_log_has_it(master: ProgressTables) -> None:
    slave = tables()
    said = read_body(AllProgress, write_body(master.snapshot()))
    assert slave.follow(said, 0)
    slave.confirm(99)
    assert at(slave) == (0, 0, 0)
    slave.confirm(100)
    assert at(slave) == (7, 7, 7)
    assert slave.snapshot() == master.snapshot()


def test_what_is_said_of_no_log_waits_for_the_end_that_was_asked_for() -> None:
    slave = tables()
    slave.follow(told(7), 300)
    slave.confirm(299)
    assert at(slave) == (0, 0, 0)
    slave.confirm(300)
    assert at(slave) == (7, 7, 7)
    assert slave.levels.value.true_at == 300


def test_what_a_master_has_never_done_is_true_for_every_log() -> None:
    slave = tables()
    assert slave.follow(tables().snapshot(), 0)
    slave.confirm(0)
    assert at(slave) == (0, 0, 0)


def test_what_a_master_does_not_speak_of_stays(master: ProgressTables) -> None:
    assert master.follow(AllProgress(offset_table={1: 9}), 100)
    master.confirm(100)
    assert at(master) == (9, 7, 7)


def test_what_cannot_be_taken_yet_is_said(master: ProgressTables) -> None:
    assert master.follow(told(8, true_at=200), 0)
    assert not master.follow(told(9, true_at=300), 0)
    master.confirm(200)
    assert master.follow(told(9, true_at=300), 0)


@pytest.mark.parametrize(("log_end", "expected"), [(200, 8), (199, 7), (99, 0)])
def test_a_log_settles_all_of_them(master: ProgressTables, log_end: int, expected: int) -> None:
    master.follow(told(8, true_at=200), 0)
    master.settle(log_end)
    master.confirm(1000)
    assert at(master) == (expected,) * 3


def test_what_waits_is_forgotten_with_the_link(master: ProgressTables) -> None:
    master.follow(told(8, true_at=200), 0)
    master.withdraw()
    master.confirm(1000)
    assert at(master) == (7, 7, 7)


def test_every_change_makes_another_version(master: ProgressTables) -> None:
    version = master.version
    assert version == master.version != tables().version
    master.transactions.propose(TransactionProgress(half_offset=8), 200)
    assert master.version == version
    master.confirm(200)
    assert master.version != version
