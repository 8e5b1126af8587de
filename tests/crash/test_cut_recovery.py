"""Power fails while a damaged store is being repaired: the next owner repairs the rest."""

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

import pytest

from roquet.store.config import FlushMode
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import PowerCut
from tests.support.power_cut import WatchedDisk
from tests.support.quick_disk import QuickDisk
from tests.support.store_checks import wrong_with
from tests.support.store_ledger import Ledger
from tests.support.store_workload import workload_config
from tests.support.stores import crash

STEP = 1 if os.environ.get("ROQUET_LONG") else 3


def lose_nothing(_root: Path) -> None:
    pass


def lose_a_queue_file(root: Path) -> None:
    (root / "consumequeue" / "Old" / "0" / f"{600:020}").unlink()


def shorten_a_queue_file(root: Path) -> None:
    (root / "consumequeue" / "Old" / "0" / f"{600:020}").write_bytes(b"short")


def shorten_an_index_file(root: Path) -> None:
    min((root / "index").iterdir()).write_bytes(b"short")


DAMAGES = (lose_nothing, lose_a_queue_file, shorten_a_queue_file, shorten_an_index_file)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_repair_that_was_cut_off_is_finished_by_the_next_owner(
    quick_path: Path, damage: Callable[[Path], None], is_closed: bool
) -> None:
    ledger = Ledger()
    make_store(quick_path / "made", ledger, is_closed=is_closed)
    damage(quick_path / "made")
    # How many calls there are is known when one cut comes too late.
    for call in count(0, STEP):
        if not cut_off(quick_path, call):
            break
        assert after_recovery(quick_path / "again", ledger) == [], f"cut at call {call}"
        rmtree(quick_path / "again")
    assert call > 10


def make_store(root: Path, ledger: Ledger, *, is_closed: bool) -> None:
    """Of one topic there are messages in the first files of the log only."""
    clock = FakeClock()
    store = MessageStore.open(workload_config(root, FlushMode.ASYNC), clock, QuickDisk(), ledger)
    for number in range(240):
        clock.advance(1)
        topic = "Old" if number < 80 else "New" if number % 2 else "Other"
        one = draft(bytes(300), topic=topic, properties={"KEYS": str(number)})
        ledger.took(one, store.append(one))
    store.file_keys()
    store.flush()
    store.close() if is_closed else crash(store)


def cut_off(directory: Path, call: int) -> bool:
    """Opens a copy of the store and cuts the power; whether opening was not over by then."""
    root = directory / "cut"
    copytree(directory / "made", root)
    disk = WatchedDisk(root)
    disk.cut_after(call)
    is_cut_off = True
    with suppress(PowerCut):
        crash(open_store(root, disk))
        is_cut_off = False
    disk.abandon()
    (directory / "again").mkdir()
    disk.cut_power(directory / "again", Random(call))
    rmtree(root)
    return is_cut_off


def after_recovery(root: Path, ledger: Ledger) -> list[str]:
    store = open_store(root, QuickDisk())
    violations = wrong_with(store, root, ledger.sent, promised=ledger.sent)
    crash(store)
    return violations


def open_store(root: Path, disk: QuickDisk | WatchedDisk) -> MessageStore:
    return MessageStore.open(workload_config(root, FlushMode.ASYNC), FakeClock(), disk)
