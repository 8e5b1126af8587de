"""`roquet spark audit` as far as it comes without Spark."""

from pathlib import Path

import pytest

from tests.support.command_line import roquet


def test_nothing_to_compare_with_is_reported(tmp_path: Path) -> None:
    finished = roquet("spark", "audit", "--sent", tmp_path)
    assert finished.exit_code == 1
    assert "nothing to compare with" in finished.stderr


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    finished = roquet("spark", "audit", "--sent", tmp_path / "none", "--lake", tmp_path)
    assert finished.exit_code == 1
    assert str(tmp_path / "none") in finished.stderr


def test_a_group_reads_no_files(tmp_path: Path) -> None:
    finished = roquet("spark", "audit", "--sent", tmp_path, "--group", "billing")
    assert finished.exit_code == 1
    assert "a group reads a topic" in finished.stderr


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (("--start", "0"), "--topic"),
        (("--received-id", "msgId"), "--received-topic"),
        (("--received-order", "1"), "--received-topic"),
    ],
)
def test_what_nothing_would_obey_is_refused(
    tmp_path: Path, words: tuple[str, str], needed: str
) -> None:
    finished = roquet("spark", "audit", "--sent", tmp_path, "--lake", tmp_path, *words)
    assert finished.exit_code == 2
    assert words[0] in finished.stderr
    assert needed in finished.stderr
