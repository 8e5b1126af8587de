"""`roquet spark compact` as a person sees it, as far as it comes without Spark."""

import json
from pathlib import Path

import pytest

from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from tests.support.command_line import roquet
from tests.support.lake_rows import found_by_arrow, message_batch, publish_small_files, staged_rows
from tests.support.tasks_here import run_tasks_here


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


def test_what_was_joined_is_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks_here(monkeypatch, "compact")
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        # Long ago: the hours of these tests may not be over yet.
        for offset in range(3):
            lake.publish(staged_rows(lake, message_batch(0, [offset], hour=-24 * 365)))
    finished = roquet("spark", "compact", "--lake", tmp_path / "lake", "--json")
    assert finished.exit_code == 0, finished.stderr
    summary = json.loads(finished.stdout)
    assert (summary["hours"], summary["files_before"], summary["files_after"]) == (1, 3, 1)
    assert (summary["messages"], summary["lake_files"], summary["is_complete"]) == (3, 1, True)
    assert len(found_by_arrow(tmp_path / "lake")) == 3
    assert "3 of 3 files" in finished.stderr


def test_hours_that_are_not_over_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks_here(monkeypatch, "compact")
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        publish_small_files(lake, hours=1, files=2, rows=2)
    command = ("spark", "compact", "--lake", tmp_path / "lake")
    finished = roquet(*command, "--grace", "9999999h")
    assert finished.exit_code == 0, finished.stderr
    assert "files before" in finished.stdout
    assert len(list((tmp_path / "lake").glob("**/*.parquet"))) == 4
