"""docs/replication.md names the rig that tries each promise."""

import re
from pathlib import Path

from tests.faults.catalog import RIGS

PAGE = (Path(__file__).parents[2] / "docs" / "replication.md").read_text()
_FAULTS = PAGE.partition("### Guarantees by fault")[2].partition("**In numbers")[0]
_TABLE, _, _NOTES = _FAULTS.partition("\n(a) ")
_NOTES = "(a) " + _NOTES


def notes() -> dict[str, str]:
    """What is shown of each letter."""
    parts = re.split(r"\(([a-z])\) ", _NOTES)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_guarantee_leads_to_a_note() -> None:
    cells = re.findall(r"^\| .*\|$", _TABLE, re.MULTILINE)[1:]
    assert len(cells) > 10
    used = set(re.findall(r"\(([a-z](?:, [a-z])*)\)", "\n".join(cells)))
    letters = {letter for each in used for letter in each.split(", ")}
    assert letters == notes().keys()


def test_every_rig_that_is_named_exists() -> None:
    named = {name for text in notes().values() for name in re.findall(r"`([a-z-]+)`", text)}
    rigs = named - {"one", "quorum", "async"}
    assert len(rigs) > 8
    assert rigs <= RIGS.keys()
