"""What a process finds, every other process finds."""

from pathlib import Path

import pytest

from tests.faults.simulation.repeatable import simulate

# Sets in another order take it another way.
SEED = 107


@pytest.mark.slow
def test_a_seed_gives_the_same_schedule_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    first = simulate(tmp_path, SEED, 1)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    assert simulate(tmp_path, SEED, 1) == first
