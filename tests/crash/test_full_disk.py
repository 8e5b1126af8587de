"""The disk is full: new messages are refused, old ones are read, and it passes by itself."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from roquet.disk import SystemDisk
from roquet.store.config import FlushMode
from roquet.store.errors import DiskFull
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import flusher_of
from tests.support.power_cut import Promise, WatchedDisk, after_power_cut
from tests.support.store_checks import everything_in, lost, strangers, wrong_with
from tests.support.store_ledger import Ledger
from tests.support.store_workload import Workload
from tests.support.stores import crash, small_config

SEEDS = range(1000 if os.environ.get("ROQUET_LONG") else 20)
FULL_DISK_SIZE = 256 * 1024
BALLAST_SIZE = 96 * 1024


@pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("seed", SEEDS)
def test_a_disk_that_is_full_at_times_costs_only_what_is_refused(
    quick_path: Path, mode: FlushMode, seed: int
) -> None:
    root = quick_path / "store"
    root.mkdir()
    disk = WatchedDisk(root)
    chance = Random(seed)
    work = Workload(disk, mode, chance)
    for _ in range(4):
        write(work, 30)
        disk.is_full = True
        write(work, 60)
        assert work.ledger.failure is None
        assert readable(work) == []
        disk.is_full = False
        work.pass_time(2.0)
        work.append()
    promise = Promise.of(work)
    target = quick_path / "after"
    target.mkdir()
    disk.cut_power(target, chance)
    assert work.store is not None
    work.store.flush()
    assert wrong_with(work.store, root, work.ledger.sent, promised=work.ledger.sent) == []
    crash(work.store)
    assert after_power_cut(target, mode, promise, FakeClock(work.clock.now_ms())) == []


def write(work: Workload, count: int) -> None:
    for _ in range(count):
        with suppress(DiskFull):
            work.write()


def readable(work: Workload) -> list[str]:
    assert work.store is not None
    found = everything_in(work.store)
    visible = [each for each in work.ledger.sent if each.queue_offset < work.visible()[each.queue]]
    return lost(found, visible) + strangers(found, work.ledger.sent)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of a quarter of a megabyte."""
    command = ("mount", "-t", "tmpfs", "-o", f"size={FULL_DISK_SIZE}", "tmpfs", str(tmp_path))
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"this machine mounts no small disk: {mounted.stderr}")
    yield tmp_path
    subprocess.run(("umount", str(tmp_path)), check=True)


def test_a_real_disk_runs_full_and_is_given_space_again(small_disk: Path) -> None:
    """On a real one, whoever writes to a page that has no space is killed."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_SIZE))
    root = small_disk / "store"
    clock, ledger = FakeClock(), Ledger()
    config = small_config(root, commit_log_file_size=4 * 4096, queue_file_size=600)
    store = MessageStore.open(config, clock, SystemDisk(), ledger)
    fill(store, ledger)
    count = len(ledger.sent)
    store.flush()
    assert lost(everything_in(store), ledger.sent) == []
    ballast.unlink()
    clock.advance(2)
    fill(store, ledger)
    assert len(ledger.sent) > count + 10
    assert wrong_with(store, root, ledger.sent, promised=ledger.sent) == []
    store.close()
    store = MessageStore.open(config, clock, SystemDisk())
    assert wrong_with(store, root, ledger.sent, promised=ledger.sent) == []
    store.close()


def fill(store: MessageStore, ledger: Ledger) -> None:
    """Append to more and more queues until there is no space."""
    with suppress(DiskFull):
        while True:
            number = len(ledger.sent)
            one = draft(bytes(number % 400), topic=f"Topic{number % 23}", properties={"KEYS": "k"})
            ledger.took(one, store.append(one))
            if number % 16 == 0:
                store.file_keys()
                flusher_of(store).tick()
