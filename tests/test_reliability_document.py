"""Every test that docs/reliability.md names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_TEXT = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(_NAMED.findall(_TEXT)))
POINT_COUNT = 10


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    functions = [
        each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert name in functions


def test_each_guarantee_names_a_test() -> None:
    promises = re.split(r"^## ", _TEXT, flags=re.MULTILINE)
    numbered = [each for each in promises if re.match(r"\d+\. ", each)]
    assert [int(each.partition(".")[0]) for each in numbered] == list(range(1, POINT_COUNT + 1))
    assert all(_NAMED.search(each) for each in numbered)
