"""Power fails at any moment, again and again."""

import os
from pathlib import Path

import pytest

from roquet.store.config import FlushMode
from tests.support.power_cut import PowerCuts

CUTS_PER_SEED = 20
MORE = 40 if os.environ.get("ROQUET_LONG") else 1


@pytest.mark.parametrize("seed", range(25 * MORE))
def test_sync_flush_keeps_every_acknowledged_message(quick_path: Path, seed: int) -> None:
    assert PowerCuts(quick_path, FlushMode.SYNC, seed, CUTS_PER_SEED).run() == []


@pytest.mark.parametrize("seed", range(10 * MORE))
def test_async_flush_loses_no_more_than_its_window(quick_path: Path, seed: int) -> None:
    assert PowerCuts(quick_path, FlushMode.ASYNC, seed, CUTS_PER_SEED).run() == []
