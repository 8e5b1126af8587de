"""Popped messages under any order of pops, acks, changes, moves, saves and kills; and bugs, put in
on purpose, that this has to find.
"""

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from roquet.broker.pop import journal as journal_module
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.journal_writing import check_point_body
from tests.support.pop_model import PopWorld

# Few, so that check points are written again.
RECORD_COUNT_MAX = 6

Step = tuple[str, tuple[Any, ...]]

steps = st.one_of(
    st.tuples(
        st.just("pop"),
        st.tuples(st.sampled_from((1, 2, 5, 31, 32)), st.sampled_from((5, 1_000, 60_000))),
    ),
    st.tuples(st.just("ack"), st.tuples(st.integers(0, 30))),
    st.tuples(st.just("change"), st.tuples(st.integers(0, 30), st.sampled_from((5, 30_000)))),
    st.tuples(st.just("move"), st.tuples(st.integers(0, 10))),
    st.tuples(st.just("advance"), st.tuples(st.sampled_from((0.001, 0.005, 1.0, 61.0)))),
    st.tuples(st.just("rewrite"), st.just(())),
    st.tuples(st.just("save"), st.just(())),
    st.tuples(st.just("kill"), st.just(())),
)


def violations_of(script: Sequence[Step]) -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        world = PopWorld(Path(directory))
        try:
            for name, arguments in script:
                getattr(world, name)(*arguments)
                wrong = world.violations()
                if wrong:
                    return [f"after {name}{arguments}: {each}" for each in wrong]
        finally:
            world.close()
    return []


@pytest.fixture(autouse=True)
def few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "RECORD_COUNT_MAX", RECORD_COUNT_MAX)


@given(script=st.lists(steps, max_size=40))
def test_what_is_out_is_known_whatever_happens(script: list[Step]) -> None:
    assert violations_of(script) == []


class Mutation(NamedTuple):
    bug: str
    put_in: Callable[[pytest.MonkeyPatch], None]


def _forget_acks_of_rewritten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal_module, "_signed", lambda _bits: 0)


def _progress_passes_what_is_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopJournal, "_closed", lambda self, queue_id: self._next_of(queue_id) - 1)


def _ignore_moves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopJournal, "note_move", lambda *_: None)


def _read_from_the_progress_itself(patch: pytest.MonkeyPatch) -> None:
    """One record too late."""
    original = PopJournal._closed
    patch.setattr(PopJournal, "_closed", lambda self, queue_id: original(self, queue_id) + 1)


def _positions_are_not_corrected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopJournal, "_correct", lambda *_: None)


def _keep_the_old_receipt(patch: pytest.MonkeyPatch) -> None:
    def change(self: PopJournal, _old: Any, key: Any, invisible_ms: int, **_: Any) -> int:
        body = check_point_body(self._form, key, (key.start_offset,), invisible_ms)
        return self._note_check_point(key, body)

    patch.setattr(PopJournal, "note_change", change)


def _acks_are_not_written(patch: pytest.MonkeyPatch) -> None:
    def ack(self: PopJournal, key: Any, offsets: Sequence[int]) -> int:
        point = self.in_flight.find(key)
        if point is not None:
            self.in_flight.ack(point, offsets)
        return self._store.log_end

    patch.setattr(PopJournal, "note_acks", ack)


def _closed_ones_are_due(patch: pytest.MonkeyPatch) -> None:
    def next_due_ms(self: PopJournal) -> int | None:
        due = self.in_flight._due
        return due[0][0] if due else None

    patch.setattr(PopJournal, "next_due_ms", property(next_due_ms))


MUTATIONS = (
    Mutation("acks of rewritten check points are forgotten", _forget_acks_of_rewritten),
    Mutation("progress passes what is open", _progress_passes_what_is_open),
    Mutation("progress is one record too far", _read_from_the_progress_itself),
    Mutation("moves are not noted", _ignore_moves),
    Mutation("positions are not corrected", _positions_are_not_corrected),
    Mutation("a change keeps the old receipt", _keep_the_old_receipt),
    Mutation("acks are not written", _acks_are_not_written),
    Mutation("closed check points are due", _closed_ones_are_due),
)


def random_script(seed: int) -> list[Step]:
    """As many kinds of steps as there are, and more kills than time has."""
    choose = random.Random(seed)
    kinds: tuple[Callable[[], Step], ...] = (
        lambda: ("pop", (choose.randint(1, 5), choose.choice((5, 1_000, 60_000)))),
        lambda: ("ack", (choose.randint(0, 30),)),
        lambda: ("ack", (choose.randint(0, 30),)),
        lambda: ("change", (choose.randint(0, 30), choose.choice((5, 30_000)))),
        lambda: ("move", (choose.randint(0, 10),)),
        lambda: ("advance", (choose.choice((0.001, 0.005, 1.0)),)),
        lambda: ("rewrite", ()),
        lambda: ("save", ()),
        lambda: ("kill", ()),
    )
    return [choose.choice(kinds)() for _ in range(40)]


SEEDS = range(40)


def test_random_scripts_find_nothing() -> None:
    assert [violations_of(random_script(seed)) for seed in SEEDS] == [[]] * len(SEEDS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.bug)
def test_the_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.put_in(monkeypatch)
    assert any(violations_of(random_script(seed)) for seed in SEEDS)
