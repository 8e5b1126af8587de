"""A checkpoint goes with one lake."""

from pathlib import Path

import pytest

from roquet.pipeline.errors import BadLake
from roquet.pipeline.jobs.checkpoint import bind_checkpoint


def test_a_checkpoint_serves_the_lake_it_was_made_for_again_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        bind_checkpoint(tmp_path / "checkpoint", tmp_path, "first")


def test_a_checkpoint_of_another_lake_is_refused(tmp_path: Path) -> None:
    bind_checkpoint(tmp_path, tmp_path, "first")
    with pytest.raises(BadLake, match="does not belong"):
        bind_checkpoint(tmp_path, tmp_path, "second")


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(BadLake, match="does not belong"):
        bind_checkpoint(tmp_path, tmp_path, "first")
