"""The command that a dry run shows."""

import pytest

from roquet.cli.spark.replay import without_option


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
