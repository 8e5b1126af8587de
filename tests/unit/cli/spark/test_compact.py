"""`roquet spark compact` as a person sees it, as far as it comes without Spark."""

from pathlib import Path

import pytest

from tests.support.command_line import roquet


def test_a_directory_that_is_no_lake_is_told_before_spark_starts(tmp_path: Path) -> None:
    finished = roquet("spark", "compact", "--lake", tmp_path)
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "there is no lake" in finished.stderr


@pytest.mark.parametrize("option", ["--target-size", "--grace"])
def test_sizes_and_times_have_to_be_such(tmp_path: Path, option: str) -> None:
    finished = roquet("spark", "compact", "--lake", tmp_path, option, "soon")
    assert finished.exit_code == 2
    assert f"argument {option}: 'soon' is not a" in finished.stderr
