"""Access control on the command line."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from roquet.cli.serving.options import access_given, define_access, home_from_environment
from tests.support.command_line import roquet


def given(*arguments: str) -> dict[str, str]:
    parser = ArgumentParser()
    define_access(parser)
    return access_given(parser.parse_args(arguments))


def test_a_file_of_accounts_switches_access_control_on() -> None:
    assert given() == {}
    assert given("--acl-file", "a.yml") == {"aclEnable": "true", "aclFile": "a.yml"}


def test_apaches_home_is_where_its_files_are_unless_it_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROCKETMQ_HOME", "/opt/rocketmq")
    assert home_from_environment({}) == {"rocketmqHome": "/opt/rocketmq"}
    assert home_from_environment({"rocketmqHome": "elsewhere"}) == {}
    monkeypatch.delenv("ROCKETMQ_HOME")
    assert home_from_environment({}) == {}


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_a_server_without_its_accounts_does_not_start(tmp_path: Path, command: str) -> None:
    result = roquet(command, "--acl-file", tmp_path / "none.yml", "--port", "0")
    assert result.exit_code == 1
    assert "no such file; `roquet account add` creates one" in result.stderr
