"""The bytes that docs/files.md shows are those of the golden stores."""

import re
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
STORES = ROOT / "tests" / "golden" / "store"

_PLACE = re.compile(r"(v\w+?)/(\S+), byte (\d+)")
_COMMENT = re.compile(r" {2,}.*")


class Example(NamedTuple):
    store: str
    path: str
    position: int
    lines: list[str]


@cache
def examples() -> list[Example]:
    """Every "store/file, byte N" in a fenced block, with the lines up to the next one."""
    found: list[Example] = []
    text = (ROOT / "docs" / "files.md").read_text()
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        lines: list[str] | None = None
        for line in block.splitlines():
            if place := _PLACE.fullmatch(line):
                lines = []
                found.append(Example(place[1], place[2], int(place[3]), lines))
            elif lines is not None:
                lines.append(line)
    return found


@cache
def content(store: str, path: str) -> bytes:
    with tarfile.open(STORES / f"{store}.tar.gz") as archive:
        file = archive.extractfile(f"{store}/{path}")
        assert file is not None
        return file.read()


def shown_bytes(example: Example) -> bytes:
    if example.path.endswith(".json"):
        return "\n".join(example.lines).encode()
    return b"".join(map(_line_bytes, example.lines))


def _line_bytes(line: str) -> bytes:
    """Hex and texts in quotes; what follows two spaces is a comment."""
    return b"".join(_pieces(_COMMENT.sub("", line)))


def _pieces(text: str) -> Iterator[bytes]:
    for quoted, digits in re.findall(r'"([^"]*)"|(\S+)', text):
        yield quoted.encode() if quoted else bytes.fromhex(digits)


@pytest.mark.parametrize("example", examples(), ids=lambda each: f"{each.path}@{each.position}")
def test_the_document_shows_what_is_in_the_file(example: Example) -> None:
    shown = shown_bytes(example)
    assert shown
    found = content(example.store, example.path)[example.position :]
    assert found[: len(shown)] == shown


def test_every_kind_of_file_is_shown() -> None:
    kinds = {example.path.partition("/")[0] for example in examples()}
    assert kinds == {
        *("commitlog", "consumequeue", "index"),
        *("config", "checkpoint", "abort", "lock"),
    }
