"""docs/operating.md: every command in it is one, and every command is in it."""

import re
import shlex
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roquet.broker.metrics.observed import METRICS as OF_BROKERS
from roquet.cli.main import whole_parser
from roquet.cli.operating.config_file import ConfigFile
from roquet.namesrv.metrics import METRICS as OF_NAME_SERVERS
from roquet.observing.process import METRICS as OF_PROCESSES

PAGE = Path(__file__).parents[1] / "docs" / "operating.md"

# What is described elsewhere, and what it stands for here.
OF_OTHER_PAGES = {"up", "namesrv", "broker", "store", "wire", "spark", "mqadmin", "account"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = (line for block in blocks("sh") for line in block.splitlines())
    return [shlex.split(line.partition("<")[0], comments=True) for line in lines]


COMMANDS = commands()


@pytest.fixture(scope="module")
def parser() -> ArgumentParser:
    return whole_parser()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_it_is_a_command(parser: ArgumentParser, words: list[str]) -> None:
    assert words[0] == "roquet"
    assert callable(parser.parse_args(words[1:]).run)


def leaves(parser: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of all commands that do something."""
    inner = [each for each in parser._actions if isinstance(each, _SubParsersAction)]
    if not inner:
        yield path
    for name, below in (item for each in inner for item in each.choices.items()):
        if path or name not in OF_OTHER_PAGES:
            yield from leaves(below, (*path, name))


def test_no_command_is_forgotten(parser: ArgumentParser) -> None:
    told = {" ".join(words[1:]) for words in COMMANDS}
    forgotten = [
        words
        for words in map(" ".join, leaves(parser))
        if not any(f"{each} ".startswith(f"{words} ") for each in told)
    ]
    assert not forgotten


def test_the_file_of_settings_can_be_read() -> None:
    (text,) = blocks("toml")
    assert msgspec.toml.decode(text, type=ConfigFile).credentials is not None


def test_the_table_of_metrics_is_what_servers_say() -> None:
    wanted = [
        f"| `{each.name}` | {each.kind.value} | {', '.join(each.labels)} | {each.meaning} |"
        for each in dict.fromkeys((*OF_PROCESSES, *OF_NAME_SERVERS, *OF_BROKERS))
    ]
    rows = re.findall(r"^\| `(?:process|roquet|rocketmq)_.*\|$", PAGE.read_text(), re.MULTILINE)
    assert rows == wanted


@pytest.mark.parametrize("program", blocks("python"))
def test_a_program_runs(program: str) -> None:
    """As far as it is shown: nothing of it is opened."""
    exec(compile(program, str(PAGE), "exec"), {})  # noqa: S102  It is ours.
