"""The code blocks of README.md, as somebody reads them who types what is written there."""

import re
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).parents[2] / "README.md"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# (\w+\.py)\n")
_COMMENT = re.compile(r"\s+# .*")


class Block(NamedTuple):
    """`number` counts from 1; `language` is what stands behind the backticks."""

    number: int
    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """A program says in its first line what its file is called."""
        found = _FILE_NAME.match(self.text)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """Of a shell, without remarks; in a console they stand behind a `$`."""
        lines = self.text.splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return [_COMMENT.sub("", line) for line in lines]

    @property
    def output(self) -> list[str]:
        """What a console shows."""
        return [line for line in self.text.splitlines() if not line.startswith("$ ")]


def readme_blocks() -> list[Block]:
    found = _BLOCK.findall(README.read_text())
    return [Block(number, language, text) for number, (language, text) in enumerate(found, 1)]


def block_with(text: str) -> Block:
    """The only one in which the text occurs."""
    (found,) = [block for block in readme_blocks() if text in block.text]
    return found


def program(file_name: str) -> Block:
    (found,) = [block for block in readme_blocks() if block.file_name == file_name]
    return found
