"""Power cuts at seeded moments of a workload, and what is found when power is back.

A cut is one look at what the disk would have kept, taken in the middle of the work: before
any call that changes something, in the middle of a sync, or between two steps. The work goes
on behind it, so one workload serves many cuts.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Self

from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import read_record
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk, PowerCut
from tests.support.log_rebuild import QueueName
from tests.support.records import draft_of
from tests.support.store_checks import everything_in, wrong_with
from tests.support.store_ledger import Ledger, Sent, arrived
from tests.support.store_workload import Workload, workload_config
from tests.support.stores import crash


def _nothing() -> None:
    pass


@dataclass
class WatchedDisk(FaultyDisk):
    """Lets a test look, or act, where a program thinks it is alone with its disk."""

    before_call: Callable[[], None] = _nothing
    during_sync: Callable[[], None] = _nothing
    has_failed: bool = False
    _open: set[int] = field(default_factory=set)

    def create(self, path: Path, size: int) -> int:
        return self._opened(super().create(path, size))

    def open(self, path: Path, *, writable: bool) -> int:
        return self._opened(super().open(path, writable=writable))

    def close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        super().close(descriptor)

    def sync(self, descriptor: int) -> None:
        try:
            super().sync(descriptor)
        except OSError:
            self.has_failed = True
            raise
        self.during_sync()

    def abandon(self) -> None:
        """Close what a program that was cut off had open."""
        for descriptor in tuple(self._open):
            self.close(descriptor)

    def _opened(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def _step(self) -> None:
        self.before_call()
        super()._step()


@dataclass
class Promise:
    """What a store owed to its clients when power was cut."""

    sent: list[Sent]
    in_flight: list[RecordDraft]
    flushed_end: int
    # With sync flush no reader may have seen what is not safe.
    visible: dict[QueueName, int]
    # With async flush: what was old enough, or followed by enough, to be safe.
    due_end: int

    @classmethod
    def of(cls, work: Workload) -> Self:
        is_sync = work.config.flush_mode is FlushMode.SYNC
        return cls(
            sent=list(work.ledger.sent),
            in_flight=work.in_flight,
            flushed_end=work.ledger.flushed_end,
            visible=work.visible() if is_sync else {},
            due_end=0 if is_sync or work.ledger.failure else work.due_end(),
        )

    def kept(self) -> list[Sent]:
        return [
            each
            for each in self.sent
            if each.physical_end <= max(self.flushed_end, self.due_end)
            or each.queue_offset < self.visible.get(each.queue, 0)
        ]


class PowerCuts:
    """One workload with `cut_count` cuts; `violations` says what was wrong after any of them."""

    def __init__(self, directory: Path, flush_mode: FlushMode, seed: int, cut_count: int) -> None:
        self._directory = directory
        self._flush_mode = flush_mode
        self._chance = Random(seed)
        self._cuts_left = cut_count
        self._is_looking = False
        self._cut_number = 0
        self.violations: list[str] = []
        root = directory / "store"
        root.mkdir()
        self._disk = WatchedDisk(root)
        self._work = Workload(self._disk, flush_mode, Random(seed))

    @property
    def cut_count(self) -> int:
        return self._cut_number

    def run(self) -> list[str]:
        self._disk.before_call = self._maybe_cut
        self._disk.during_sync = self._in_sync
        while self._cuts_left:
            self._work.step()
            self._maybe_cut()
        store = self._work.store
        assert store is not None
        self._disk.before_call = self._disk.during_sync = _nothing
        crash(store)
        return self.violations

    def _in_sync(self) -> None:
        self._work.during_sync()
        self._maybe_cut()

    def _maybe_cut(self) -> None:
        if self._cuts_left and not self._is_looking and self._chance.random() < 0.04:
            self._is_looking = True
            self._cuts_left -= 1
            self._cut_number += 1
            self._cut()
            self._is_looking = False

    def _cut(self) -> None:
        promise = Promise.of(self._work)
        target = self._directory / f"cut{self._cut_number}"
        target.mkdir()
        self._disk.cut_power(target, self._chance)
        if self._chance.random() < 0.3:
            target = self._cut_again(target)
        clock = FakeClock(self._work.clock.now_ms() + self._chance.randint(0, 5000))
        violations = after_power_cut(target, self._flush_mode, promise, clock)
        self.violations += [f"cut {self._cut_number}: {each}" for each in violations]
        if not violations:
            rmtree(target)

    def _cut_again(self, target: Path) -> Path:
        """Power fails while the store recovers, or soon after."""
        disk = WatchedDisk(target)
        # Opening and closing take some dozens of calls.
        disk.cut_after(self._chance.choice((self._chance.randint(1, 40), 1000)))
        config = workload_config(target, self._flush_mode)
        with suppress(PowerCut):
            store = MessageStore.open(config, self._work.clock, disk)
            store.close()
        disk.abandon()
        second = target.with_name(target.name + "again")
        second.mkdir()
        disk.cut_power(second, self._chance)
        rmtree(target)
        return second


def after_power_cut(
    root: Path, flush_mode: FlushMode, promise: Promise, clock: FakeClock
) -> list[str]:
    """What is wrong with the store now, and what becomes wrong when it goes on."""
    config = workload_config(root, flush_mode)
    store = MessageStore.open(config, clock, FaultyDisk(root))
    found = everything_in(store)
    sent = promise.sent + arrived(promise.in_flight, promise.sent, found)
    violations = wrong_with(store, root, sent, promise.kept())
    if violations:
        crash(store)
        return [f"{each}; {store.recovery}" for each in violations]
    is_there = [(each.queue, each.queue_offset) in found for each in sent]
    ledger = Ledger([each for each, is_kept in zip(sent, is_there, strict=True) if is_kept])
    gone = [each for each, is_kept in zip(sent, is_there, strict=True) if not is_kept]
    return _after_sending_again(store, config, ledger, gone[:3])


def _after_sending_again(
    store: MessageStore, config: StoreConfig, ledger: Ledger, gone: list[Sent]
) -> list[str]:
    """Who was not answered tries again, and the process is killed.

    The new records take the places of the old ones, to the byte. Should the next owner find more
    of the old ones behind them, they came back to life.
    """
    for each in gone:
        again = draft_of(read_record(each.record), has_checksum=True)
        ledger.took(again, store.append(again))
    crash(store)
    store = MessageStore.open(config, FakeClock(), FaultyDisk(config.root))
    violations = wrong_with(store, config.root, ledger.sent, promised=ledger.sent)
    if violations:
        crash(store)
        return [f"after sending again: {each}; {store.recovery}" for each in violations]
    return _after_going_on(store, config, ledger)


def _after_going_on(store: MessageStore, config: StoreConfig, ledger: Ledger) -> list[str]:
    """The store takes more messages, is closed in peace and opened again."""
    for queue in sorted({each.queue for each in ledger.sent}):
        one = draft(b"after the cut", topic=queue.topic, queue_id=queue.queue_id)
        ledger.took(one, store.append(one))
    store.close()
    store = MessageStore.open(config, FakeClock(), FaultyDisk(config.root))
    violations = wrong_with(store, config.root, ledger.sent, promised=ledger.sent)
    crash(store)
    return [f"after going on: {each}; {store.recovery}" for each in violations]
