"""Runs the commands and programs of a page, in the order of the page, with a cluster of its own.

Pieces of Python are one program: what one of them has made, the next one uses. Programs with a name
are files, and are run by the console that shows them. What is shown has to be what is printed;
`...` stands for anything. `^C` at the end of a console is the reader's patience: the command is
interrupted when everything before it was printed.
"""

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

from roquet.testing import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.page_blocks import Block

USUAL_NAME_SERVER = "127.0.0.1:9876"
INTERRUPTED = "^C"
PATIENCE_S = 120.0
# What is printed goes to a file here, and is wanted line by line as at a terminal. Listeners print
# in many threads: now and then their lines would mix, which pages do not show.
AS_AT_A_TERMINAL = """\
import builtins, sys, threading

def print(*values, _print=print, _lock=threading.Lock(), **options):
    with _lock:
        _print(*values, **options)

builtins.print = print
sys.stdout.reconfigure(line_buffering=True)
"""


class PageRun:
    def __init__(self, cluster: BlockingCluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""
        (directory / "sitecustomize.py").write_text(AS_AT_A_TERMINAL)

    def follow(self, block: Block) -> None:
        if block.language != "text":
            self.end()
        match block.language:
            case "python" if block.file_name is not None:
                (self._directory / block.file_name).write_text(self._here(block.text))
            case "python":
                self._printed = self._run(block)
            case "text":
                assert matches(block.text, self._printed), self._printed
                self._printed = ""
            case "console":
                self._type(block)

    def end(self) -> None:
        """Nothing is printed that the page does not show."""
        assert not self._printed

    def _run(self, block: Block) -> str:
        printed = StringIO()
        code = compile(self._here(block.text), f"block {block.number}", "exec")
        with redirect_stdout(printed), _limited(), _logging_as_before():
            exec(code, self._names)  # noqa: S102  It is our own page.
        return printed.getvalue()

    def _type(self, block: Block) -> None:
        for shown in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, output = shown.partition("\n")
            self._type_one(self._here(command), self._here(output))

    def _type_one(self, command: str, expected: str) -> None:
        is_interrupted = expected.rstrip("\n").endswith(INTERRUPTED)
        expected = expected.rstrip("\n").removesuffix(INTERRUPTED)
        log, errors = self._directory / "output", self._directory / "errors"

        def is_shown() -> bool:
            # What a program warns of on a slow machine is no part of what it is shown to print.
            out = log.read_text()
            return any(matches(expected, text) for text in (out, out + errors.read_text()))

        with log.open("wb") as output, errors.open("wb") as error_output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error_output,
            )
        try:
            if is_interrupted:
                wait_until(
                    lambda: process.poll() is not None or is_shown(),
                    PATIENCE_S,
                )
                process.send_signal(signal.SIGINT)
            exit_code = process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        shown = f"{command}: {log.read_text()}{errors.read_text()}"
        assert is_shown(), shown
        assert exit_code == 0, shown

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self._directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NAMESRV_ADDR": self._cluster.name_server,
            "PYTHONPATH": f"{self._directory}:{os.environ.get('PYTHONPATH', '')}",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }

    def _here(self, text: str) -> str:
        return text.replace(USUAL_NAME_SERVER, self._cluster.name_server)


@contextmanager
def _limited() -> Iterator[None]:
    """Raises TimeoutError in a page that waits for what does not come."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _logging_as_before() -> Iterator[None]:
    """Frameworks set up the logging of the program that they are in, and here it is the tests'."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def matches(expected: str, printed: str) -> bool:
    """Blanks at the ends of lines do not count."""
    pieces = map(re.escape, _lines(expected).split("..."))
    return re.fullmatch(".*".join(pieces), _lines(printed), re.DOTALL) is not None


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
