"""A Celery worker in a process of its own, with prefork children."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.eventually import wait_until

_END_TIMEOUT_S = 30.0


class CeleryWorker:
    """Of `tests.support.celery_shop`; ended at the end of its block. `words` extend its command."""

    def __init__(self, name: str, directory: Path, name_server: str, *words: str) -> None:
        self.name = f"{name}@test"
        self._log_path = directory / f"{name}.log"
        self._command = [
            *(sys.executable, "-m", "celery", "-A", "tests.support.celery_shop", "worker"),
            *("-n", self.name, "--loglevel", "INFO", "-c", "2", *words),
        ]
        self._environment = os.environ | environment(directory, name_server)
        self.process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return self._log_path.read_text(encoding="utf-8")

    def __enter__(self) -> Self:
        with self._log_path.open("wb") as file:
            # In a group of its own: what a killed worker leaves behind is ended, too.
            self.process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(lambda: f"{self.name} ready" in self.log or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        return self

    def kill(self) -> None:
        """The worker and its children, without a chance to clean up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self) -> int:
        return self.process.wait(_END_TIMEOUT_S)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        if error is not None:
            error.add_note(f"log of {self.name}:\n{self.log}")


def environment(directory: Path, name_server: str) -> dict[str, str]:
    """What `tests.support.celery_shop` reads."""
    return {"NAME_SERVER": name_server, "SHOP_DIRECTORY": str(directory)}
