"""`docs/security.md` says of every request what it needs, as the routes say it now."""

from pathlib import Path

from tests.support.security_table import tables

DOCUMENT = Path(__file__).parents[1] / "docs" / "security.md"


def test_the_tables_of_requests_are_those_of_the_routes() -> None:
    text = DOCUMENT.read_text()
    for table in tables():
        assert table in text, "python -m tests.support.security_table prints what belongs there"
