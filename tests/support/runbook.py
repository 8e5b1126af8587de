"""The runbook of docs/replication.md: what to do when, entry by entry, with its commands.

An entry is a paragraph that starts with bold words, and all that follows up to the next one. Its
commands stand in blocks and within the text; addresses in them are examples.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.support.page_blocks import DOCS

_SECTION: Final = re.compile(r"^## Runbook\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ENTRY: Final = re.compile(r"^\*\*(.+?)\*\*", re.MULTILINE)
_IN_BLOCKS: Final = re.compile(r"^(roquet .+?)(?:\s+#.*)?$", re.MULTILINE)
_IN_TEXT: Final = re.compile(r"`(roquet [^`]+)`", re.DOTALL)
_BLOCK: Final = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Entry(NamedTuple):
    title: str
    text: str

    @property
    def blocks(self) -> list[str]:
        """Code blocks as they stand."""
        return _BLOCK.findall(self.text)

    @property
    def commands(self) -> list[str]:
        """Each command of `roquet` on a line, in the order of the page."""
        found = {
            match.start(1): " ".join(match[1].split())
            for pattern in (_IN_BLOCKS, _IN_TEXT)
            for match in pattern.finditer(self.text)
        }
        return [found[position] for position in sorted(found)]

    def words(self, begin: str, examples: Mapping[str, str]) -> list[str]:
        """The words behind `roquet` of the only command that starts so, without its examples.

        `examples` are words of the page, and what stands for them.
        """
        fitting = {each for each in self.commands if each.startswith(f"roquet {begin}")}
        assert len(fitting) == 1, f"{self.title}: {self.commands}"
        return [examples.get(word, word) for word in fitting.pop().split()[1:]]


def entries() -> dict[str, Entry]:
    """By their titles, without the full stop."""
    section = _SECTION.search((DOCS / "replication.md").read_text())
    assert section is not None, "the page has no runbook"
    text = section[1]
    starts = [*_ENTRY.finditer(text)]
    ends = [each.start() for each in starts[1:]] + [len(text)]
    found = {}
    for start, end in zip(starts, ends, strict=True):
        title = start[1].rstrip(".")
        found[title] = Entry(title, text[start.start() : end])
    return found
