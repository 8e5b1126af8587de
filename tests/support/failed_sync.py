"""A workload whose disk fails one sync, and what becomes of it.

The disk does as Linux does: the error is reported once, the pages count as clean from then on,
and the next sync succeeds without having written them.
"""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from roquet.store.config import FlushMode
from roquet.store.errors import StoreUnavailable, SyncFailed
from tests.support.fake_clock import FakeClock
from tests.support.power_cut import Promise, WatchedDisk, after_power_cut
from tests.support.store_checks import everything_in, lost
from tests.support.store_workload import Workload
from tests.support.stores import crash

_STEPS_BEFORE = 100
_STEPS_AFTER = 20


def after_failed_sync(
    directory: Path, flush_mode: FlushMode, seed: int, *, reopens: bool
) -> list[str]:
    """What was wrong after a failed sync and a power cut.

    With `reopens` the store is opened again and goes on before the cut. The failure may hit the
    making of a file, too: that costs one append and nothing else.
    """
    root = directory / "store"
    root.mkdir()
    disk = WatchedDisk(root)
    chance = Random(seed)
    work = Workload(disk, flush_mode, chance)
    disk.during_sync = work.during_sync
    for _ in range(chance.randrange(_STEPS_BEFORE)):
        work.step()
    disk.fail_next_sync()
    while not disk.has_failed:
        _write(work)
    if work.ledger.failure is None:
        for _ in range(_STEPS_AFTER):
            _write(work)
        violations = []
    else:
        violations = _after_the_failure(work)
        if reopens:
            _reopen(work)
    promise = Promise.of(work)
    target = directory / "after"
    target.mkdir()
    disk.cut_power(target, chance)
    disk.during_sync = lambda: None
    if work.store is not None:
        crash(work.store)
    disk.abandon()
    return violations + after_power_cut(target, flush_mode, promise, FakeClock(work.clock.now_ms()))


def _write(work: Workload) -> None:
    with suppress(StoreUnavailable):
        work.write()


def _after_the_failure(work: Workload) -> list[str]:
    """Nothing is taken or promised any more; what could be read still can."""
    assert work.store is not None
    violations = []
    for _ in range(_STEPS_AFTER):
        with suppress(SyncFailed):
            work.append()
            violations.append("a message was taken after the failure")
        work.pass_time(1.0)
    violations += [
        f"flushed to {end} after the failure" for end in work.ledger.flushed_after_failure
    ]
    found = everything_in(work.store)
    visible = [each for each in work.ledger.sent if each.queue_offset < work.visible()[each.queue]]
    return violations + lost(found, visible)


def _reopen(work: Workload) -> None:
    """The process ends with an error and is started again; the machine has not noticed."""
    with pytest.raises(SyncFailed):
        work.close()
    work.ledger.failure = None
    work.open()
    for _ in range(_STEPS_AFTER):
        work.step()
