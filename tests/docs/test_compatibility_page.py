"""docs/compatibility.md: every row links to its test, and the test is there."""

import re

import pytest

from tests.support.page_blocks import DOCS, ROOT

_MADE = re.compile(r"<!-- made: .*?<!-- until here -->", re.DOTALL)
# The rows of what is made are stories of tests: `test_made_parts` compares them.
LINES = _MADE.sub("", (DOCS / "compatibility.md").read_text()).splitlines()
ROWS = [line for line in LINES if line.startswith("| ") and not line.startswith("| what |")]
_ROW = re.compile(r"\| .+ \| \[(\w+)\]\(\.\./(tests/[\w/]+\.py)\) \|")


@pytest.mark.parametrize("row", ROWS)
def test_a_row_links_to_its_test(row: str) -> None:
    found = _ROW.fullmatch(row)
    assert found, "| what | [claim](../tests/...) |"
    claim, path = found.groups()
    assert re.search(rf"^(async )?def test_{claim}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_there_are_rows() -> None:
    assert len(ROWS) > 50
