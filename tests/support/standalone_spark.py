"""A standalone Spark: a master and workers, each in a JVM of its own, on loopback.

The Python of its executors is a bare one: it has neither roquet nor anything that roquet needs. And
they share no directory, neither with the driver nor with each other, as on machines of their own:
each worker has its own mount namespace, in which the directories of the others are empty.
"""

import os
import shutil
import signal
import subprocess
import sys
import venv
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.class_archive import JVM_VARIABLE, quick_jvm
from tests.support.eventually import wait_until
from tests.support.jars import START_TIMEOUT_S, JvmNotStarted
from tests.support.ports import free_port

HOST: Final = "127.0.0.1"
_DEPLOY: Final = "org.apache.spark.deploy"
_STOP_TIMEOUT_S: Final = 60.0
_LOG_TAIL_SIZE: Final = 3000
# Hides the directories before `--`, and becomes the program after it.
_HIDING: Final = """\
while [ "$1" != -- ]; do mount -t tmpfs none "$1" || exit 1; shift; done
shift
exec "$@"
"""
_APART: Final = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _HIDING, "sh")


@cache
def missing_namespaces() -> str | None:
    """Why this machine cannot hide directories from a process; None if it can."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "mount namespaces need root, and unshare (Debian's util-linux)"
    done = subprocess.run([*_APART, "/mnt", "--", "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else f"no mount namespaces: {done.stderr.decode()}"


class StandaloneSpark:
    """Workers have a core each. Used as a context manager, everything is gone at the end."""

    def __init__(self, directory: Path, worker_count: int) -> None:
        self.master = f"spark://{HOST}:{free_port()}"
        self.work_directory = directory / "work"
        # No executor sees it.
        self.driver_directory = directory / "driver"
        self._directory = directory
        self._worker_count = worker_count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Raises JvmNotStarted."""
        self.driver_directory.mkdir()
        for number in range(self._worker_count):
            (self.work_directory / str(number)).mkdir(parents=True)
        python = self._directory / "python"
        venv.create(python, with_pip=False)
        try:
            port = self.master.rpartition(":")[2]
            self._start("master", python, "--port", port, says="I have been elected leader")
            for number in range(self._worker_count):
                self._start(
                    f"worker-{number}",
                    python,
                    *("--cores", "1", "--memory", "600m"),
                    *("--work-dir", str(self.work_directory / str(number)), self.master),
                    says="Successfully registered with master",
                )
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def driver_environment(self) -> dict[str, str]:
        """For a driver as a person starts it, from a shell with the Python of these tests."""
        kept = {key: value for key, value in os.environ.items() if not _is_of_tests(key)}
        return kept | {"SPARK_LOCAL_IP": HOST, JVM_VARIABLE: quick_jvm()}

    def log_tail(self) -> str:
        """What executors complained about last."""
        found = sorted(self.work_directory.glob("*/app-*/*/stderr"))
        return "\n".join(f"{each}:\n{each.read_text()[-_LOG_TAIL_SIZE:]}" for each in found)

    def _hidden_from(self, number: str) -> list[str]:
        others = [each for each in self.work_directory.iterdir() if each.name != number]
        return [str(each) for each in (self.driver_directory, *others)]

    def _start(self, name: str, python: Path, *arguments: str, says: str) -> None:
        kind, _, number = name.partition("-")
        spark = find_spec("pyspark")
        assert spark is not None
        assert spark.origin is not None
        home = Path(spark.origin).parent
        kept = {key: value for key, value in os.environ.items() if not _is_of_tests(key)}
        log = self._directory / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *((*_APART, *self._hidden_from(number), "--") if number else ()),
                    str(home / "bin" / "spark-class"),
                    f"{_DEPLOY}.{kind}.{kind.capitalize()}",
                    *("--host", HOST, "--webui-port", "0", *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                env=kept
                | {
                    "PATH": f"{python / 'bin'}:{_path_without_ours()}",
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": HOST,
                    "SPARK_LOCAL_DIRS": str(self.work_directory / (number or "0") / "local"),
                    "SPARK_DAEMON_MEMORY": "128m",
                    "SPARK_DAEMON_JAVA_OPTS": quick_jvm(),
                },
                # Executors belong to their worker's group, and end with it.
                start_new_session=True,
            )
        self._processes.append(process)
        wait_until(
            lambda: process.poll() is not None or says in log.read_text(errors="replace"),
            START_TIMEOUT_S,
        )
        if process.poll() is not None:
            raise JvmNotStarted(f"{name} died while it started:\n{log.read_text()}")

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_TIMEOUT_S)
            # The group may be empty by now.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()


def _is_of_tests(variable: str) -> bool:
    return variable.startswith(("PYSPARK", "PYTHON", "SPARK", "VIRTUAL_ENV"))


def _path_without_ours() -> str:
    ours = Path(sys.prefix) / "bin"
    return os.pathsep.join(
        each for each in os.environ.get("PATH", "").split(os.pathsep) if Path(each) != ours
    )
