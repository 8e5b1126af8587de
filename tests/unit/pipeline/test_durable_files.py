"""Two directories change places."""

from pathlib import Path

import pytest

from roquet.pipeline.durable_files import exchange_directories
from roquet.pipeline.errors import BadLake


def test_what_was_in_one_is_in_the_other(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.mkdir()
        (path / f"of-{path.name}").touch()
    exchange_directories(first, second)
    assert [path.name for path in first.iterdir()] == ["of-second"]
    assert [path.name for path in second.iterdir()] == ["of-first"]


def test_where_it_cannot_be_done_that_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(BadLake, match="cannot exchange"):
        exchange_directories(tmp_path / "here", Path("/proc/self/task"))
    with pytest.raises(FileNotFoundError):
        exchange_directories(tmp_path / "here", tmp_path / "nowhere")
