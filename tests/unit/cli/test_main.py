"""The root of the command line: what every command has in common."""

import re

import pytest

from roquet import __version__
from tests.support.command_line import roquet

COMMANDS = (
    *("up", "namesrv", "broker", "cluster", "topic", "group", "message", "offset", "dlq"),
    *("doctor", "top", "dashboard", "bench", "mqadmin", "completion", "store", "frames"),
)


def test_help_names_every_command() -> None:
    finished = roquet("--help")
    assert finished.exit_code == 0
    for command in COMMANDS:
        assert re.search(rf"^    {command}\s", finished.stdout, re.MULTILINE)


def test_without_a_command_help_is_shown() -> None:
    finished = roquet()
    assert finished.exit_code == 2
    assert finished.stdout == roquet("--help").stdout


@pytest.mark.parametrize("arguments", [["--help"], ["broker", "--help"]])
def test_help_is_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert 75 < max(map(len, roquet(*arguments).stdout.splitlines())) < 90


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    finished = roquet(command, "--help")
    assert (finished.exit_code, finished.stderr) == (0, "")
    assert finished.stdout.startswith(f"usage: roquet {command} ")


def test_a_command_is_found_by_its_former_name() -> None:
    assert roquet("wire", "decode", "--help").stdout == roquet("frames", "decode", "--help").stdout


def test_the_version_is_reported() -> None:
    assert roquet("--version").stdout.startswith(f"roquet {__version__} (commit ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("brokers",), "invalid choice: 'brokers'"),
        (("store",), "required: COMMAND"),
        (("broker", "--port", "65536"), "--port: 65536 is out of range: expected from 0 to 65535"),
        (("broker", "--port", "many"), "--port: 'many' is not a whole number"),
        (
            ("store", "dump", ".", "--count", "-1"),
            "--count: -1 is out of range: expected at least 0",
        ),
        (("up", "--brokers", "27"), "--brokers: 27 is out of range: expected from 1 to 26"),
        (("up", "--advertise", "0::0"), "'0::0' is not a host that clients can connect to"),
        (("broker", "--advertise", "::"), "'::' is not a host that clients can connect to"),
        (("broker", "--conf", "file"), "unrecognized arguments: --conf"),
    ],
)
def test_a_mistake_in_the_arguments_is_reported(arguments: tuple[str, ...], complaint: str) -> None:
    finished = roquet(*arguments)
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert complaint in finished.stderr
