"""The command `roquet spark ingest` as a process, to be waited for or killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, final

from roquet.pipeline.lake.places import LakePlace, options_file_of
from tests.support.descendants import descendants
from tests.support.eventually import wait_until

# Spark starts slowly on a machine that does other things, too.
_PATIENCE_S = 300


@final
class IngestCommand:
    """Ingests a topic of a cluster into `directory/lake`, with what is given with each start.

    Into a table elsewhere, if one is given, without a checkpoint.
    """

    def __init__(
        self, name_server: str, topic: str, directory: Path, table: LakePlace | None = None
    ) -> None:
        self.lake = directory / "lake"
        self.checkpoint = directory / "checkpoint"
        self._directory = directory
        self._arguments = ["-n", name_server, "--topic", topic]
        if table is None:
            self._arguments += ["--lake", str(self.lake), "--checkpoint", str(self.checkpoint)]
        else:
            self._arguments += ["--lake", str(table)]
            if (file := options_file_of(table)) is not None:
                self._arguments += ["--storage-options", str(file)]

    def run(self, *options: str, exit_code: int = 0) -> dict[str, Any]:
        """To the end; what it printed."""
        process = self._start(*options)
        stdout, stderr = process.communicate(timeout=_PATIENCE_S)
        return _outcome(process.returncode, exit_code, stdout, stderr)

    def run_through(
        self,
        steps: Sequence[tuple[Callable[[], object], Callable[[int], None]]],
        *options: str,
        exit_code: int = 0,
    ) -> dict[str, Any]:
        """To the end, while things happen: each when its condition holds, one after the other.

        What happens is reported the id of the process.
        """
        process = self._start(*options)

        def is_time(condition: Callable[[], object]) -> bool:
            assert process.poll() is None, process.communicate()
            return bool(condition())

        try:
            for condition, act in steps:
                wait_until(partial(is_time, condition), _PATIENCE_S)
                act(process.pid)
            stdout, stderr = process.communicate(timeout=_PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        return _outcome(process.returncode, exit_code, stdout, stderr)

    def run_until(
        self,
        condition: Callable[[], object],
        *options: str,
        end_by: signal.Signals,
        is_for_all: bool = False,
    ) -> "subprocess.CompletedProcess[str]":
        """Until the condition holds; then the process gets the signal, or it and all it started."""
        process = self._start(*options)

        def is_time() -> bool:
            assert process.poll() is None, process.communicate()
            return bool(condition())

        try:
            wait_until(is_time, _PATIENCE_S)
            others = list(descendants(process.pid)) if is_for_all else []
            process.send_signal(end_by)
            for each in others:
                with suppress(ProcessLookupError):
                    os.kill(each, end_by)
            stdout, stderr = process.communicate(timeout=_PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        return subprocess.CompletedProcess([], process.returncode, stdout, stderr)

    def entry_count(self) -> int:
        return len(list((self.lake / "_roquet/log").glob("[0-9]*.json")))

    def staged_files(self) -> list[Path]:
        return list(self.lake.glob("_roquet/staged/*/*"))

    def _start(self, *options: str) -> "subprocess.Popen[str]":
        environment = {key: value for key, value in os.environ.items() if "PYSPARK" not in key}
        start = [sys.executable, "-c", "from roquet.cli.main import main; main()"]
        return subprocess.Popen(
            [*start, "spark", "ingest", *self._arguments, "--json", *options],
            cwd=self._directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _outcome(found_code: int, exit_code: int, stdout: str, stderr: str) -> dict[str, Any]:
    assert found_code == exit_code, stderr
    assert "Traceback" not in stderr
    if exit_code:
        return {"said": stderr}
    summary: dict[str, Any] = json.loads(stdout)
    return summary
