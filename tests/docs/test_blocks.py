"""Every block of code in `docs` does what its page says; `tests/support/page_blocks.py` says how.

Programs for Spark are run in tests/pipeline, which has the machine for itself.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from kombu import pools

from roquet.broker.settings import apache_keys
from roquet.cli.admin_commands.access import ConfigFile
from roquet.namesrv import config as namesrv_config
from roquet.protocol.properties_text import read_properties_text
from roquet.testing import BlockingCluster
from tests.support.page_blocks import ROOT, Block, blocks_of, pages
from tests.support.page_run import PageRun, matches
from tests.support.shell_lines import fault_of

OF_SPARK = "spark.md"
RUN = ("python", "text", "console")
PAGES = pages()
BLOCKS = [(page, block) for page in (*PAGES, ROOT / "README.md") for block in blocks_of(page)]
PAGES_TO_RUN = [
    page
    for page in PAGES
    if page.name != OF_SPARK and any(block.language in RUN for block in blocks_of(page))
]


def name_of(value: object) -> str:
    match value:
        case Path():
            return value.name
        case Block():
            return str(value.number)
        case _:
            return str(value)


def read_properties(text: str) -> None:
    """The first line says whose settings they are."""
    first, _, _ = text.partition("\n")
    settings = read_properties_text(text.encode())
    match first:
        case "# broker.conf":
            assert apache_keys.read_config(settings, Path()).ignored == []
        case "# namesrv.conf":
            assert namesrv_config.read_config(settings).ignored == []
        case _:
            pytest.fail(f"{first!r} is neither `# broker.conf` nor `# namesrv.conf`")


def read_toml(text: str) -> None:
    msgspec.toml.decode(text, type=ConfigFile)


READERS: dict[str, Callable[[str], Any]] = {
    "properties": read_properties,
    "toml": read_toml,
    "yaml": yaml.safe_load,
    "json": json.loads,
}
COMMANDS = [
    (page, line)
    for page, block in BLOCKS
    if block.language in ("sh", "console", "")
    for line in block.commands
]
SETTINGS = [(page, block) for page, block in BLOCKS if block.language in READERS]


def test_every_block_says_what_it_is() -> None:
    known = {*RUN, *READERS, "sh", ""}
    strange = [(page.name, block.text) for page, block in BLOCKS if block.language not in known]
    assert not strange


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=name_of)
def test_a_command_is_one(page: Path, line: str) -> None:
    assert fault_of(line) is None


@pytest.mark.parametrize(("page", "block"), SETTINGS, ids=name_of)
def test_settings_can_be_read(page: Path, block: Block) -> None:
    READERS[block.language](block.text)


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        yield cluster
        # Celery keeps connections as long as a program runs, which here is longer than the page.
        pools.reset()


@pytest.mark.parametrize("page", PAGES_TO_RUN, ids=name_of)
def test_a_page_does_what_it_shows(page: Path, cluster: BlockingCluster, tmp_path: Path) -> None:
    run = PageRun(cluster, tmp_path)
    for block in blocks_of(page):
        run.follow(block)
    run.end()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_program_with_a_name_is_run_by_a_console(page: Path) -> None:
    blocks = blocks_of(page)
    typed = " ".join(
        line for block in blocks if block.language == "console" for line in block.commands
    )
    assert [name for block in blocks if (name := block.file_name) and name not in typed] == []


@pytest.mark.parametrize(
    "line", ["roquet topics list", "make everything", "python -m nothing", "frobnicate", "cp 'x"]
)
def test_what_is_no_command_is_seen(line: str) -> None:
    assert fault_of(line) is not None


def test_what_is_not_printed_is_seen() -> None:
    assert matches("sent to queue ...\ndone", "sent to queue 3  \ndone\n")
    assert not matches("sent\ndone", "sent\n")
