"""docs/operating.md has every command; that each of them is one is seen in tests/docs."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest

from roquet.cli.main import whole_parser
from tests.support.page_blocks import DOCS, blocks_of

PAGE = DOCS / "operating.md"

# What is described elsewhere, and what it stands for here.
OF_OTHER_PAGES = {
    "up",
    "namesrv",
    "broker",
    "proxy",
    "store",
    "frames",
    "spark",
    "mqadmin",
    "account",
}


COMMANDS = [line for block in blocks_of(PAGE) for line in block.commands]


@pytest.fixture(scope="module")
def parser() -> ArgumentParser:
    return whole_parser()


def leaves(parser: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of all commands that do something."""
    inner = [each for each in parser._actions if isinstance(each, _SubParsersAction)]
    if not inner:
        yield path
    for name, below in (item for each in inner for item in each.choices.items()):
        if path or name not in OF_OTHER_PAGES:
            yield from leaves(below, (*path, name))


def test_no_command_is_forgotten(parser: ArgumentParser) -> None:
    reported = {line.removeprefix("roquet ") for line in COMMANDS}
    forgotten = [
        words
        for words in map(" ".join, leaves(parser))
        if not any(f"{each} ".startswith(f"{words} ") for each in reported)
    ]
    assert not forgotten
