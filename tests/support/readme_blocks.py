"""The code blocks of README.md, and of other pages by what is in them."""

from pathlib import Path

from tests.support.page_blocks import ROOT, Block, blocks_of

README = ROOT / "README.md"


def readme_blocks() -> list[Block]:
    return blocks_of(README)


def block_with(text: str, page: Path = README) -> Block:
    """The only one of a page in which the text occurs."""
    (found,) = [block for block in blocks_of(page) if text in block.text]
    return found


def program(file_name: str) -> Block:
    (found,) = [block for block in readme_blocks() if block.file_name == file_name]
    return found
