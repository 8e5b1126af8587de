"""The disk fails one sync: from then on nothing is acknowledged."""

import os
from pathlib import Path

import pytest

from roquet.store.config import FlushMode
from tests.support.failed_sync import after_failed_sync

SEEDS = range(2000 if os.environ.get("ROQUET_LONG") else 25)
MODES = pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name.lower())


@MODES
@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_failed_sync_ends_all_acknowledgements(
    quick_path: Path, mode: FlushMode, seed: int
) -> None:
    assert after_failed_sync(quick_path, mode, seed, reopens=False) == []


@MODES
@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_opened_again_after_a_failed_sync_keeps_its_guarantees(
    quick_path: Path, mode: FlushMode, seed: int
) -> None:
    """The pages that did not reach the disk are still in memory, and taken for clean."""
    assert after_failed_sync(quick_path, mode, seed, reopens=True) == []
