"""What a newcomer has: a directory, a fresh environment with the built wheel in it, and a shell."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts.packages.building import built_wheel, copied_sources
from tests.support.eventually import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


class Finished(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


class Running:
    """A process that runs until it is stopped."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def output(self) -> str:
        return self._log.read_text()

    def _has_ended(self) -> bool:
        return self._process.poll() is not None

    def _matches(self, pattern: str) -> bool:
        return re.search(pattern, self.output()) is not None

    def wait_for(self, pattern: str) -> re.Match[str]:
        wait_until(lambda: self._has_ended() or self._matches(pattern), PATIENCE_S)
        found = re.search(pattern, self.output())
        assert found, self.output()
        return found

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """How it ended."""
        self._process.send_signal(how)
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Home:
    """A directory with `.venv` in it, whose programs are found first."""

    def __init__(self, directory: Path, wheel: Path) -> None:
        self.directory = directory
        self.wheel = wheel
        self._numbers = iter(range(1_000_000))

    @property
    def _environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("LANG", "SSL_CERT_FILE") if key in os.environ}
        pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
        return {
            **kept,
            **pip,
            "HOME": str(self.directory),
            "TMPDIR": str(self.directory),
            "PATH": f"{self.directory / '.venv' / 'bin'}:{os.environ['PATH']}",
            # The versions that are tested together: a new one elsewhere must not fail a test here.
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
            # Not so narrow that lines are broken.
            "COLUMNS": "200",
        }

    def run(self, command: str) -> Finished:
        """A line as it is typed."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE_S,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, command: str) -> Iterator[Running]:
        """Killed at the end, unless it was stopped before."""
        log = self.directory / f"output-{next(self._numbers)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.directory,
                env={**self._environment, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        running = Running(process, log)
        try:
            yield running
        finally:
            if process.poll() is None:
                running.kill()


def prepared_home(directory: Path) -> Home:
    """Without an environment: README starts with making it."""
    source = copied_sources(directory / "wheel", with_compiled=True)
    return Home(directory, built_wheel(source, directory / "wheel"))
