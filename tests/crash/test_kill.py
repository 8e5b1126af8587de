"""A process that writes is killed, again and again, and always leaves a store in order.

This says nothing about power cuts: what a killed process has written is in the page cache and
stays there. So nothing at all may be lost here, acknowledged or not.
"""

import os
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

import pytest

from roquet.disk import SystemDisk
from roquet.store.message_store import MessageStore
from tests.support.fake_clock import FakeClock
from tests.support.killed_writer import Writer, writer_config
from tests.support.store_checks import everything_in, wrong_with
from tests.support.store_ledger import Ledger, arrived
from tests.support.stores import crash

LIVES = 10
SEEDS = range(100 if os.environ.get("ROQUET_LONG") else 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_writer_killed_at_any_moment_loses_nothing(quick_path: Path, seed: int) -> None:
    chance = Random(seed)
    ledger = Ledger()
    for life in range(LIVES):
        writer = Writer(quick_path / "store", seed * LIVES + life, ledger)
        writer.run(kill_after=chance.randint(1, 150))
        assert after_a_kill(quick_path, writer) == [], f"life {life}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_writer_killed_at_any_call_to_its_disk_loses_nothing(quick_path: Path, seed: int) -> None:
    """While it recovers, too: that takes some dozens of calls."""
    chance = Random(seed)
    ledger = Ledger()
    for life in range(LIVES):
        writer = Writer(quick_path / "store", seed * LIVES + life, ledger)
        writer.run(dies_at=chance.choice((chance.randint(1, 40), chance.randint(1, 200))))
        assert after_a_kill(quick_path, writer) == [], f"life {life}"


def after_a_kill(directory: Path, writer: Writer) -> list[str]:
    """Looks at a copy: the next writer has to recover by itself."""
    copy = directory / "copy"
    copytree(directory / "store", copy)
    store = MessageStore.open(writer_config(copy), FakeClock(), SystemDisk())
    sent = writer.ledger.sent
    sent += arrived(writer.in_flight, sent, everything_in(store))
    violations = wrong_with(store, copy, sent, promised=sent)
    crash(store)
    rmtree(copy)
    return violations
