"""Files that follow the log, and never run ahead of it."""

import pytest

from roquet.broker.tables.durable_state import DurableState
from roquet.protocol.bodies.offset_table import DelayOffsetTable
from roquet.protocol.errors import BadBody


def table(offset: int) -> DelayOffsetTable:
    return DelayOffsetTable(offset_table={1: offset})


@pytest.fixture
def state() -> DurableState[DelayOffsetTable]:
    return DurableState(table(0))


def test_what_is_proposed_counts_when_the_log_is_safe(
    state: DurableState[DelayOffsetTable],
) -> None:
    state.propose(table(5), log_end=100)
    state.confirm(99)
    assert (state.value, state.change_count) == (table(0), 0)
    state.confirm(100)
    assert (state.value, state.change_count) == (table(5), 1)
    assert state.to_bytes() == b'{"offsetTable":{"1":5}}'


def test_a_proposal_that_waits_is_not_overtaken(state: DurableState[DelayOffsetTable]) -> None:
    state.propose(table(5), log_end=100)
    state.propose(table(6), log_end=200)
    state.confirm(150)
    assert state.value == table(5)
    state.propose(table(6), log_end=200)
    state.confirm(200)
    assert state.value == table(6)


def test_the_same_content_is_no_change(state: DurableState[DelayOffsetTable]) -> None:
    state.propose(table(0), log_end=100)
    state.confirm(100)
    state.confirm(300)
    assert state.change_count == 0


def test_a_file_is_read_as_it_was_written(state: DurableState[DelayOffsetTable]) -> None:
    assert state.load(b'{"offsetTable":{1:7}}') == []
    assert (state.value, state.change_count) == (table(7), 0)
    with pytest.raises(BadBody):
        state.load(b"{")


def test_new_content_is_announced_when_it_counts(state: DurableState[DelayOffsetTable]) -> None:
    seen: list[DelayOffsetTable] = []
    state.on_change = lambda: seen.append(state.value)
    state.load(b'{"offsetTable":{1:7}}')
    state.propose(table(8), log_end=100)
    assert seen == []
    state.confirm(100)
    assert seen == [table(8)]
