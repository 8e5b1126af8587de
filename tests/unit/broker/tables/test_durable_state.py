"""Files that follow the log, and never run ahead of it."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from roquet.broker.tables.durable_state import (
    KNOWN_COUNT_MAX,
    DurableState,
    ProgressTables,
    with_newest,
)
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offsets import (
    AllProgress,
    DelayOffsetTable,
    PopProgress,
    TimerProgress,
    TransactionProgress,
)
from roquet.protocol.errors import BadBody


def table(offset: int, true_at: int | None = None) -> DelayOffsetTable:
    return DelayOffsetTable(offset_table={1: offset}, true_at=true_at)


def loaded(*known: DelayOffsetTable) -> DurableState[DelayOffsetTable]:
    state = DurableState(DelayOffsetTable())
    state.adopt(known)
    return state


@pytest.fixture
def state() -> DurableState[DelayOffsetTable]:
    return DurableState(DelayOffsetTable())


def test_what_is_proposed_counts_when_the_log_is_safe(
    state: DurableState[DelayOffsetTable],
) -> None:
    state.propose(table(5), log_end=100)
    state.confirm(99)
    assert (state.value, state.change_count) == (DelayOffsetTable(), 0)
    state.confirm(100)
    assert (state.value, state.change_count) == (table(5, true_at=100), 1)


def test_a_proposal_that_waits_is_not_overtaken(state: DurableState[DelayOffsetTable]) -> None:
    assert state.propose(table(5), log_end=100)
    assert not state.propose(table(6), log_end=200)
    state.confirm(150)
    assert state.value == table(5, true_at=100)
    assert state.propose(table(6), log_end=200)
    state.confirm(200)
    assert state.value == table(6, true_at=200)


def test_a_proposal_that_is_withdrawn_never_counts(state: DurableState[DelayOffsetTable]) -> None:
    state.propose(table(5), log_end=100)
    state.withdraw()
    state.confirm(100)
    assert state.value == DelayOffsetTable()


def test_the_same_content_is_no_change_and_keeps_the_end_of_the_shorter_log() -> None:
    state = loaded(table(5, true_at=70))
    state.propose(table(5), log_end=100)
    state.confirm(100)
    state.confirm(300)
    assert (state.value, state.change_count) == (table(5, true_at=70), 0)


def test_new_content_is_reported_when_it_counts(state: DurableState[DelayOffsetTable]) -> None:
    seen: list[DelayOffsetTable] = []
    state.on_change = lambda: seen.append(state.value)
    state.load(b'{"offsetTable":{1:7}}')
    state.propose(table(8), log_end=100)
    assert seen == []
    state.confirm(100)
    assert seen == [table(8, true_at=100)]


# --- in a file ---


def test_a_file_is_read_as_it_was_written(state: DurableState[DelayOffsetTable]) -> None:
    for offset in (1, 2, 3):
        state.propose(table(offset), log_end=offset * 100)
        state.confirm(offset * 100)
    data = state.to_bytes()
    assert data == (
        b'{"offsetTable":{"1":3},"trueAt":300,"earlier":'
        b'[{"offsetTable":{"1":1},"trueAt":100},{"offsetTable":{"1":2},"trueAt":200}]}'
    )
    again = DurableState(DelayOffsetTable())
    assert again.load(data) == []
    assert list(again.known) == list(state.known)
    assert again.change_count == 0


@pytest.mark.parametrize(
    "data", [b"{", b'{"offsetTable":{"1":1},"earlier":[7]}', b'{"earlier":7}', b'{"trueAt":"x"}']
)
def test_a_file_that_is_none_changes_nothing(data: bytes) -> None:
    state = loaded(table(5, true_at=70))
    with pytest.raises(BadBody):
        state.load(data)
    assert list(state.known) == [table(5, true_at=70)]


def test_no_more_is_read_than_would_be_written(state: DurableState[DelayOffsetTable]) -> None:
    earlier = b",".join(b'{"offsetTable":{"1":%d},"trueAt":%d}' % (n, n) for n in range(1000))
    state.load(b'{"offsetTable":{"1":1000},"trueAt":1000,"earlier":[%b]}' % earlier)
    assert [each.true_at for each in state.known] == list(range(1001 - KNOWN_COUNT_MAX, 1001))


# --- with a log that is shorter than that of the file ---


@pytest.mark.parametrize(
    ("log_end", "expected"), [(300, 3), (299, 2), (200, 2), (199, 1), (100, 1), (99, None)]
)
def test_a_log_uses_the_newest_content_that_it_reaches(log_end: int, expected: int | None) -> None:
    state = loaded(*(table(offset, true_at=offset * 100) for offset in (1, 2, 3)))
    found = DelayOffsetTable() if expected is None else table(expected, true_at=expected * 100)
    assert state.value_at(log_end) == found
    state.truncate(log_end)
    assert state.value == found


def test_what_a_cut_log_does_not_reach_never_returns() -> None:
    state = loaded(table(1, true_at=100), table(2, true_at=200))
    state.truncate(150)
    assert state.change_count == 1
    assert b"200" not in state.to_bytes()
    state.truncate(300)
    state.confirm(300)
    assert state.value == table(1, true_at=100)


def test_a_log_that_reaches_everything_changes_nothing() -> None:
    state = loaded(table(1, true_at=100), table(2, true_at=200))
    state.truncate(200)
    assert (len(state.known), state.change_count) == (2, 0)


def test_a_file_without_an_end_is_true_for_the_log_it_lies_beside() -> None:
    state = loaded(table(7))
    state.truncate(500)
    assert (state.value, state.change_count) == (table(7, true_at=500), 1)


@pytest.mark.parametrize(("log_end", "expected"), [(200, 2), (199, 1)])
def test_a_proposal_counts_for_a_log_that_has_it_when_that_is_settled(
    log_end: int, expected: int
) -> None:
    state = loaded(table(1, true_at=100))
    state.propose(table(2), log_end=200)
    state.truncate(log_end)
    state.confirm(1000)
    assert state.value == table(expected, true_at=expected * 100)


def test_what_a_master_takes_back_is_taken_back_by_its_slave() -> None:
    state = loaded(table(1, true_at=100), table(5, true_at=500))
    state.propose(table(3), log_end=300)
    state.confirm(600)
    assert list(state.known) == [table(1, true_at=100), table(3, true_at=300)]


def test_what_is_gone_is_forgotten() -> None:
    state = loaded(table(1, true_at=100))
    state.propose(table(2), log_end=200)
    state.forget()
    state.confirm(200)
    assert (state.value, state.change_count) == (DelayOffsetTable(), 1)


# --- how many are kept ---


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=200))
def test_a_few_contents_reach_far_back(steps: list[int]) -> None:
    known: list[DelayOffsetTable] = []
    end = 0
    for step in steps:
        end += step
        known = with_newest(known, table(end, true_at=end))
    ends = [each.true_at or 0 for each in known]
    assert len(known) <= KNOWN_COUNT_MAX
    assert all(one < other for one, other in pairwise(ends))
    assert (ends[0], ends[-1]) == (steps[0], end)


def test_contents_become_rarer_with_the_distance_from_the_end() -> None:
    known: list[DelayOffsetTable] = []
    for end in range(1, 1001):
        known = with_newest(known, table(end, true_at=end))
    distances = [1000 - (each.true_at or 0) for each in known]
    assert distances[-2] <= 4
    assert all(far <= 8 * near for far, near in pairwise(distances[:-1]))


def tables() -> ProgressTables:
    return ProgressTables(
        DurableState(DelayOffsetTable()),
        DurableState(TimerProgress()),
        DurableState(TransactionProgress()),
        DurableState(PopProgress()),
    )


def at(progress: ProgressTables) -> tuple[int, int, int, int]:
    return (
        progress.levels.value.offset_table.get(1, 0),
        progress.timers.value.next_offset,
        progress.transactions.value.half_offset,
        progress.pops.value.offset_table.get(0, 0),
    )


def progress_of(offset: int, true_at: int | None = None) -> AllProgress:
    return AllProgress(
        offset_table={1: offset},
        timers=TimerProgress(next_offset=offset, true_at=true_at),
        transactions=TransactionProgress(half_offset=offset, true_at=true_at),
        pops=PopProgress(offset_table={0: offset}, true_at=true_at),
        true_at=true_at,
    )


@pytest.fixture
def master() -> ProgressTables:
    made = tables()
    made.follow(progress_of(7, true_at=100), 0)
    made.confirm(100)
    return made


def test_a_slave_uses_what_its_master_says_when_its_log_has_it(master: ProgressTables) -> None:
    slave = tables()
    printed = read_body(AllProgress, write_body(master.snapshot()))
    assert slave.follow(printed, 0)
    slave.confirm(99)
    assert at(slave) == (0, 0, 0, 0)
    slave.confirm(100)
    assert at(slave) == (7, 7, 7, 7)
    assert slave.snapshot() == master.snapshot()


def test_progress_of_no_known_log_waits_for_the_requested_end() -> None:
    slave = tables()
    slave.follow(progress_of(7), 300)
    slave.confirm(299)
    assert at(slave) == (0, 0, 0, 0)
    slave.confirm(300)
    assert at(slave) == (7, 7, 7, 7)
    assert slave.levels.value.true_at == 300


def test_what_a_master_has_never_done_is_true_for_every_log() -> None:
    slave = tables()
    assert slave.follow(tables().snapshot(), 0)
    slave.confirm(0)
    assert at(slave) == (0, 0, 0, 0)


def test_what_a_master_does_not_speak_of_stays(master: ProgressTables) -> None:
    assert master.follow(AllProgress(offset_table={1: 9}), 100)
    master.confirm(100)
    assert at(master) == (9, 7, 7, 7)


def test_what_cannot_be_taken_yet_is_reported(master: ProgressTables) -> None:
    assert master.follow(progress_of(8, true_at=200), 0)
    assert not master.follow(progress_of(9, true_at=300), 0)
    master.confirm(200)
    assert master.follow(progress_of(9, true_at=300), 0)


@pytest.mark.parametrize(("log_end", "expected"), [(200, 8), (199, 7), (99, 0)])
def test_a_log_settles_all_of_them(master: ProgressTables, log_end: int, expected: int) -> None:
    master.follow(progress_of(8, true_at=200), 0)
    master.truncate(log_end)
    master.confirm(1000)
    assert at(master) == (expected,) * 4


def test_what_waits_is_forgotten_with_the_link(master: ProgressTables) -> None:
    master.follow(progress_of(8, true_at=200), 0)
    master.withdraw()
    master.confirm(1000)
    assert at(master) == (7, 7, 7, 7)


def test_every_change_makes_another_version(master: ProgressTables) -> None:
    version = master.version
    assert version == master.version != tables().version
    master.transactions.propose(TransactionProgress(half_offset=8), 200)
    assert master.version == version
    master.confirm(200)
    assert master.version != version
