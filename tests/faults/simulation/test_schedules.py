"""A schedule is repeated by its seed."""

from pathlib import Path

import pytest

from tests.faults.simulation.schedules import run_schedule


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_schedule_twice(tmp_path: Path, seed: int) -> None:
    first = run_schedule(tmp_path / "first", seed)
    assert first.acknowledged > 0
    assert run_schedule(tmp_path / "second", seed) == first
