"""A program in a terminal of its own: what it shows, and keys for it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Self

_PATIENCE_S = 60.0
_READ_SIZE = 65536
_CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>()][A-Za-z0-9]?)")


class Terminal:
    """`roquet` with these words, in so many columns and lines."""

    def __init__(self, *words: str, columns: int = 120, lines: int = 30) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from roquet.cli.main import main; main()", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        # `select` takes no descriptors above 1023, and other tests have many open.
        self._poll = select.poll()
        self._poll.register(self._ours, select.POLLIN)
        self._seen = ""

    def press(self, keys: str) -> None:
        """What was seen before is forgotten."""
        self._seen = ""
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """All that was shown since the last key, up to this text and what came with it."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while text not in self._seen:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{text!r} was never shown, but:\n{self._seen}"
            if self._poll.poll(left_s * 1000):
                self._seen += _CONTROL.sub("", os.read(self._ours, _READ_SIZE).decode())
        return self._seen

    def wait_for_end(self) -> int:
        """The exit code. What is shown meanwhile is read, or it would wait for us."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, "it does not end"
            if self._poll.poll(50):
                try:
                    os.read(self._ours, _READ_SIZE)
                except OSError:
                    break  # Its end of the terminal is closed.
        return self.process.wait(_PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
