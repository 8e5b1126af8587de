"""Every mechanism that docs/mechanisms.md names has its module and its test."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "roquet"
TESTS = ROOT / "tests"

_ROW = re.compile(r"\| (.+) \| `([\w/]+)` \| `([\w/]+)::(\w+)` \|")
_OTHER_LINES = re.compile(r"#.*|\|-.*|\| mechanism .*|[^|].*|")


class Row(NamedTuple):
    mechanism: str
    module: str
    test_file: str
    test: str


def lines() -> list[str]:
    return (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8").splitlines()


def rows() -> list[Row]:
    return [Row(*match.groups()) for line in lines() if (match := _ROW.fullmatch(line))]


@cache
def claims(path: Path) -> set[str]:
    """The tests of a file."""
    return {
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_line_of_a_table_is_a_row() -> None:
    strange = [
        line for line in lines() if not (_ROW.fullmatch(line) or _OTHER_LINES.fullmatch(line))
    ]
    assert strange == []
    assert rows()


def test_no_mechanism_is_there_twice() -> None:
    mechanisms = [row.mechanism for row in rows()]
    twice = {each for each in mechanisms if mechanisms.count(each) > 1}
    assert twice <= {"batches", "request and reply"}  # of the client and of the broker


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.mechanism)
def test_a_mechanism_has_its_module_and_its_test(row: Row) -> None:
    module = SOURCE / row.module
    assert module.with_suffix(".py").is_file() or module.with_suffix(".pyx").is_file()
    assert f"test_{row.test}" in claims(TESTS / f"{row.test_file}.py")
