"""`roquet mqadmin` as a function."""

import json
from typing import Any

from tests.support.command_line import roquet


def answer(*words: str) -> Any:
    """What a command that succeeds prints as JSON."""
    finished = roquet("mqadmin", *words, "--json")
    assert finished.exit_code == 0, finished.stderr
    return json.loads(finished.stdout)


def failure(*words: str) -> tuple[int, str]:
    """The exit code and the error line of a command that fails."""
    finished = roquet("mqadmin", *words)
    assert finished.exit_code != 0, finished.stdout
    return finished.exit_code, finished.stderr
