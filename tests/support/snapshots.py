"""What a command prints, compared with what it printed when it was last reviewed.

A file in `tests/unit/cli/snapshots` has the output of one command: wide, narrow, in colour and as
JSON. With ROQUET_SNAPSHOTS=write they are written again; what has changed, git shows.
"""

import os
import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.command_line import roquet

DIRECTORY: Final = Path(__file__).parents[1] / "unit" / "cli" / "snapshots"

# Each way of looking, with what the environment says and the words it adds.
_WAYS: Final = {
    "wide": ({"COLUMNS": "160"}, ()),
    "narrow": ({"COLUMNS": "50"}, ()),
    "colour": ({"COLUMNS": "160", "FORCE_COLOR": "1", "TERM": "xterm-256color"}, ()),
    "json": ({}, ("--json",)),
}

# What differs from run to run. Columns are as wide as what is in them, so blanks do, too.
_CHANGING: Final = (
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d|Z)?", "TIME"),
    (r"\b[0-9A-F]{32}\b", "MESSAGE-ID"),
    (r"[\w.]+@\d+#\d+", "CLIENT-ID"),
    (r'(__CRC32#"?[ :]*"?)\d+', r"\1CHECKSUM"),
    (r"(?<= )\d+ (ms|s|min \d+ s)\b", "SPAN"),
    (r"(?<= )\d+\.\d\b", "RATE"),
    (r'("(put_|get_|pulled_|done_)?rate":)\d+(\.\d+)?', r"\1RATE"),
    (r'("\w+_s":)\d+(\.\d+)?', r"\1SECONDS"),
    (r" {2,}", "  "),
    (r" +$", ""),
)


def check_snapshot(
    monkeypatch: pytest.MonkeyPatch, name: str, *words: str, exit_code: int = 0
) -> None:
    """`words` are a command that can be run several times."""
    parts = []
    for way, (variables, more) in _WAYS.items():
        with monkeypatch.context() as environment:
            for variable in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
                environment.delenv(variable, raising=False)
            for variable, value in variables.items():
                environment.setenv(variable, value)
            finished = roquet(*words, *more)
        assert finished.exit_code == exit_code, finished.stderr
        parts.append(f"--- {way}\n{settled(finished.stdout)}")
    check_text(name, "".join(parts))


def check_text(name: str, found: str) -> None:
    path = DIRECTORY / f"{name}.txt"
    if os.environ.get("ROQUET_SNAPSHOTS") == "write":
        DIRECTORY.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), f"{path.name} would be:\n{found}"


def settled(text: str) -> str:
    """Without what differs from run to run; escapes can be read."""
    for pattern, word in _CHANGING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text.replace("\x1b", "\\e")
