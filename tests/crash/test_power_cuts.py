"""Power fails at any moment, again and again."""

import os
from pathlib import Path

import pytest

from roquet.store.config import FlushMode
from tests.support.gates import few
from tests.support.power_cut import PowerCuts
from tests.support.state_cuts import after_state_cuts

CUTS_PER_SEED = 20
MORE = 40 if os.environ.get("ROQUET_LONG") else 1
OTHERS = "more seeds of power cuts"


@pytest.mark.parametrize("seed", few(range(25 * MORE), 6, OTHERS))
def test_sync_flush_keeps_every_acknowledged_message(quick_path: Path, seed: int) -> None:
    assert PowerCuts(quick_path, FlushMode.SYNC, seed, CUTS_PER_SEED).run() == []


@pytest.mark.parametrize("seed", few(range(10 * MORE), 3, OTHERS))
def test_async_flush_loses_no_more_than_its_window(quick_path: Path, seed: int) -> None:
    assert PowerCuts(quick_path, FlushMode.ASYNC, seed, CUTS_PER_SEED).run() == []


@pytest.mark.parametrize("seed", few(range(5 * MORE), 2, OTHERS))
def test_a_state_file_is_the_old_one_or_the_new_one(quick_path: Path, seed: int) -> None:
    assert after_state_cuts(quick_path, seed) == []
