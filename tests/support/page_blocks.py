"""The code blocks of a page, as a reader types them.

| language | what it is | what a test does with it |
|---|---|---|
| `python` | a program, or the next piece of the page's program | runs it |
| `text` | what the piece before it prints | compares it |
| `console` | commands after a `$`, and what they print | runs and compares them |
| `sh` | commands | looks whether they are commands |
| `properties`, `toml`, `yaml`, `json` | settings | reads them |
| none | drawings; commands, where a line starts with `roquet` | looks whether those are commands |
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# (\w+\.py)\n")
_COMMENT = re.compile(r"\s+# .*")


class Block(NamedTuple):
    """`number` counts from 1; `language` is what follows the backticks."""

    number: int
    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """A program has the name of its file in its first line."""
        found = _FILE_NAME.match(self.text)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """Of a shell, without remarks; in a console they follow a `$`."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        elif not self.language:
            lines = [line for line in lines if line.startswith("roquet ")]
        return [_COMMENT.sub("", line) for line in lines if line and not line.startswith("#")]

    @property
    def output(self) -> list[str]:
        """What a console shows."""
        return [line for line in self.text.splitlines() if not line.startswith("$ ")]


def blocks_of(page: Path) -> list[Block]:
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(number, language, text) for number, (language, text) in enumerate(found, 1)]


def pages() -> list[Path]:
    """All of the site."""
    return sorted(DOCS.glob("*.md"))
