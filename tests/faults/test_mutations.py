"""Bugs put in on purpose, all over broker and client: each has to be found by the simulation.

A rig that finds nothing may be blind. Bugs of the store alone are in `tests/crash`.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.messages.acks import AckQueue
from roquet.broker.messages.long_polling import LongPolls
from roquet.broker.tables.queue_locks import LockTable, QueueKey
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.queue_ref import QueueRef
from roquet.net.connection import Connection
from roquet.store.commit_log import CommitLog
from roquet.store.flushing import Flusher
from roquet.store.message_store import MessageStore
from tests.faults.simulation.schedules import MIX, run_schedule
from tests.faults.simulation.world import (
    Fault,
    add_a_member,
    cut_power,
    fail_a_sync,
    replace_members,
)
from tests.faults.traffic import Mix

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
SEEDS_MAX = 500 if IS_LONG else 60
# Its offset may have been given to another message by the time it is read.
LOST = ("I1", "I4")
PROMPTLY_S = 5.0
# So that two who read one queue are at it at the same time.
SLOW_READERS = replace(MIX, reading_s=0.02)


class Mutation(NamedTuple):
    """`faults` are those that bring the bug to light; one of `invariants` is broken by it."""

    bug: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    faults: Sequence[Fault]
    invariants: tuple[str, ...]
    patience_s: float = 30.0
    is_quick: bool = False
    mix: Mix = MIX


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def at_once(
        _self: AckQueue, connection: Connection, _end: int, frames: bytes, _count: int
    ) -> None:
        connection.send(frames)

    patch.setattr(AckQueue, "send_when_safe", at_once)
    patch.setattr(AckQueue, "reply_when_safe", lambda _self, _request, _end, reply, _late: reply)


def skip_the_sync(patch: pytest.MonkeyPatch) -> None:
    def sync(self: CommitLog) -> int:
        self.synced_end = self.end
        return self.end

    patch.setattr(CommitLog, "sync", sync)


def show_what_is_not_safe(patch: pytest.MonkeyPatch) -> None:
    def announce(self: LongPolls, topic: str, queue_id: int, _end: int) -> None:
        self.announce(topic, queue_id)

    patch.setattr(MessageStore, "_max_offset", lambda _self, queue: queue.max_offset)
    patch.setattr(LongPolls, "announce_when_safe", announce)


def swallow_errors_of_the_disk(patch: pytest.MonkeyPatch) -> None:
    def round_(_self: Flusher, sync: Callable[[], None]) -> None:
        with suppress(OSError):
            sync()

    patch.setattr(Flusher, "_round", round_)


def lose_a_wake_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LongPolls, "log_is_safe", lambda _self, _end: None)


def commit_one_too_many(patch: pytest.MonkeyPatch) -> None:
    note = OffsetKeeper.note

    def too_far(self: OffsetKeeper, queue: QueueRef, offset: int) -> None:
        note(self, queue, offset + 1)

    patch.setattr(OffsetKeeper, "note", too_far)


def lock_for_everybody(patch: pytest.MonkeyPatch) -> None:
    def lock(_self: LockTable, _client: str, queues: Iterable[QueueKey]) -> list[QueueKey]:
        return list(queues)

    patch.setattr(LockTable, "lock", lock)


def deliver_before_the_time(patch: pytest.MonkeyPatch) -> None:
    real = DelayLevels._due_ms

    def early(self: DelayLevels, *place: Any) -> int:
        return real(self, *place) - 300

    patch.setattr(DelayLevels, "_due_ms", early)


MUTATIONS = (
    Mutation(
        "acknowledge before the sync",
        acknowledge_before_the_sync,
        (cut_power,),
        LOST,
        is_quick=True,
    ),
    Mutation("skip the sync", skip_the_sync, (cut_power,), LOST),
    Mutation("show what is not safe", show_what_is_not_safe, (cut_power,), LOST),
    Mutation(
        "swallow errors of the disk", swallow_errors_of_the_disk, (fail_a_sync, cut_power), LOST
    ),
    Mutation("lose a wake-up", lose_a_wake_up, (), ("I6",), PROMPTLY_S, is_quick=True),
    Mutation(
        "commit one too many", commit_one_too_many, (replace_members,), ("I3", "I6"), is_quick=True
    ),
    Mutation(
        "lock for everybody",
        lock_for_everybody,
        (add_a_member,),
        ("I3",),
        is_quick=True,
        mix=SLOW_READERS,
    ),
    Mutation("deliver before the time", deliver_before_the_time, (), ("I6",), is_quick=True),
)


def _parameter(mutation: Mutation) -> object:
    """Some bugs need luck: a cut in the few milliseconds between two things."""
    is_skipped = not (mutation.is_quick or IS_LONG)
    marks = pytest.mark.skipif(is_skipped, reason="needs hundreds of schedules: ROQUET_LONG=1")
    return pytest.param(mutation, id=mutation.bug, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [_parameter(each) for each in MUTATIONS])
def test_the_bug_is_found(
    mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.put_in(monkeypatch)
    assert any(
        each.startswith(mutation.invariants)
        for seed in range(SEEDS_MAX)
        for each in run_schedule(
            tmp_path / str(seed), seed, mutation.faults, mutation.patience_s, mutation.mix
        ).violations
    )


@pytest.mark.slow
def test_without_a_bug_queues_pass_from_hand_to_hand(tmp_path: Path) -> None:
    calm = run_schedule(tmp_path / "calm", 1, (add_a_member,), mix=SLOW_READERS)
    assert calm.violations == []


@pytest.mark.slow
def test_without_a_bug_everything_comes_promptly(tmp_path: Path) -> None:
    """Or else it would be no wonder that a lost wake-up is found."""
    assert run_schedule(tmp_path / "calm", 1, (), PROMPTLY_S).violations == []
