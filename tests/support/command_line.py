"""The command `roquet`, run inside of a test."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from roquet.cli.main import run_command


class Finished(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def roquet(*arguments: str | Path | int) -> Finished:
    """What was printed, and how it ended. A traceback would be raised."""
    # Some commands print bytes.
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    stderr = io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            exit_code = run_command([str(each) for each in arguments])
        except SystemExit as end:
            exit_code = end.code if isinstance(end.code, int) else 0
    stdout.seek(0)
    return Finished(exit_code, stdout.read(), stderr.getvalue())
