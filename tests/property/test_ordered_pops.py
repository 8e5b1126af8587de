"""Pops in order under any order of sends, pops, acks, changes, saves and kills; and bugs, put in on
purpose, that this has to find.
"""

import asyncio
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roquet.broker.pop import journal as journal_module, ordered_popping
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.ordered_queue import OrderedQueue, Outing
from tests.support.ordered_pop_model import opened_world

# Few, so that queues are written again, and take long to be seen.
SEEN_COUNT = 1
RECORD_COUNT_MAX = 4
STEP_COUNT = 80
SEEDS = range(12)

# Of each kind, as many as it is likely.
KINDS = (
    ("send", 4),
    ("pop", 4),
    ("ack", 6),
    ("change", 2),
    ("repeat", 1),
    ("advance", 2),
    ("rewrite", 2),
    ("save", 2),
    ("kill", 1),
)


def violations_of(seed: int) -> list[str]:
    async def run(directory: Path) -> list[str]:
        choose = random.Random(seed)
        names = choose.choices(*zip(*KINDS, strict=True), k=STEP_COUNT)
        async with opened_world(directory, choose) as world:
            for name in names:
                await getattr(world, name)()
                if world.violations:
                    break
            else:
                await world.drain()
            return world.violations

    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(run(Path(directory)))


@pytest.fixture(autouse=True)
def few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "RECORD_COUNT_MAX", RECORD_COUNT_MAX)
    monkeypatch.setattr(ordered_popping, "SEEN_COUNT", SEEN_COUNT)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_holds_whatever_happens(seed: int) -> None:
    assert violations_of(seed) == []


class Mutation(NamedTuple):
    bug: str
    put_in: Callable[[pytest.MonkeyPatch], None]


def _groups_never_block(patch: pytest.MonkeyPatch) -> None:
    def refresh(self: OrderedQueue, group: Any, _now_ms: int) -> None:
        if group.out or group.waiting:
            self._ready[group] = None

    patch.setattr(OrderedQueue, "_refresh", refresh)


def _acks_are_not_written(patch: pytest.MonkeyPatch) -> None:
    def ack(self: PopJournal, ordered: OrderedQueue, offsets: Any) -> int:
        ordered.finish(offsets, self.steady_ms)
        return self._store.log_end

    patch.setattr(PopJournal, "note_ordered_acks", ack)


def _records_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopJournal, "_keep_from", lambda *_, **__: None)


def _times_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outing, "times_next", property(lambda _: 0))


def _low_passes_what_is_out(patch: pytest.MonkeyPatch) -> None:
    original = OrderedQueue._move_low

    def move(self: OrderedQueue) -> None:
        original(self)
        if self.done:
            self.low = max(self.done) + 1
            self.done.clear()

    patch.setattr(OrderedQueue, "_move_low", move)


def _done_messages_are_not_rewritten(patch: pytest.MonkeyPatch) -> None:
    def rewrite(self: PopJournal, ordered: OrderedQueue) -> None:
        done, ordered.done = ordered.done, set()
        original(self, ordered)
        ordered.done = done

    original = PopJournal._rewrite_ordered
    patch.setattr(PopJournal, "_rewrite_ordered", rewrite)


MUTATIONS = (
    Mutation("message groups never block", _groups_never_block),
    Mutation("acks are not written", _acks_are_not_written),
    Mutation("records are not kept", _records_are_not_kept),
    Mutation("times are forgotten", _times_are_forgotten),
    Mutation("the position passes what is out", _low_passes_what_is_out),
    Mutation("done messages are not written again", _done_messages_are_not_rewritten),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.bug)
def test_the_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.put_in(monkeypatch)
    assert any(violations_of(seed) for seed in SEEDS)
