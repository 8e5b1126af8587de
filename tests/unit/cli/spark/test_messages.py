"""`roquet spark export` and `replay`, as far as they come without Spark."""

from pathlib import Path

import pytest

from roquet.cli.spark.messages import without_option
from tests.support.command_line import roquet


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("-n", "localhost:9876"), "--topic-pattern"),
        (("--lake", "lake", "--topic", "a", "--topics", "b"), "not allowed with"),
        (("--lake", "lake", "-n", "localhost:9876"), "--lake contradicts"),
        (("--lake", "lake", "--body", "text"), "--body requires"),
    ],
)
def test_what_does_not_say_what_it_means_is_refused(
    tmp_path: Path, words: tuple[str, ...], printed: str
) -> None:
    finished = roquet("spark", "export", *words, "--to", tmp_path / "files")
    assert finished.exit_code == 2
    assert printed in finished.stderr


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--topic", "orders"), "give --to"),
        (("--topic", "orders", "--to", "again", "--group", "g"), "--group requires --dead-letters"),
        (("--dead-letters", "--topic", "orders"), "--dead-letters selects the topics of groups"),
        (("--dead-letters", "--lake", "lake"), "--dead-letters selects the topics of groups"),
        (("--quarantine", "--topic", "orders"), "--quarantine requires --lake"),
        (("--quarantine", "--dead-letters"), "not allowed with"),
    ],
)
def test_a_replay_of_nothing_or_to_nowhere_is_refused(words: tuple[str, ...], printed: str) -> None:
    finished = roquet("spark", "replay", "-n", "localhost:9876", *words)
    assert finished.exit_code == 2
    assert printed in finished.stderr


def test_a_directory_that_is_no_lake_is_one_line(tmp_path: Path) -> None:
    finished = roquet("spark", "export", "--lake", tmp_path, "--to", tmp_path / "files")
    assert finished.exit_code == 1
    assert finished.stderr.startswith(f"roquet spark export: no lake in {tmp_path}: ")
    assert finished.stderr.count("\n") == 1


def test_a_column_that_messages_do_not_have_is_reported_before_any_request(
    tmp_path: Path,
) -> None:
    words = ("-n", "localhost:9876", "--topic", "orders", "--columns", "body,tag")
    finished = roquet("spark", "export", *words, "--to", tmp_path / "files")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "messages have no column 'tag', only topic, " in finished.stderr


def test_a_time_that_is_none_is_reported_at_once(tmp_path: Path) -> None:
    words = ("--lake", tmp_path, "--start", "yesterday")
    finished = roquet("spark", "export", *words, "--to", tmp_path / "files")
    assert finished.exit_code == 2
    assert "'yesterday': expected a time" in finished.stderr


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["a", "--x", "1", "b"], ["a", "b"]),
        (["a", "--x=1", "b"], ["a", "b"]),
        (["a", "--x"], ["a"]),
        (["--xy", "1"], ["--xy", "1"]),
        (["--x", "--x", "b"], ["b"]),
    ],
)
def test_an_option_goes_with_its_value(words: list[str], left: list[str]) -> None:
    assert without_option(words, "--x") == left
