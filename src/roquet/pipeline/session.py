"""A Spark session for a command: quiet, without the web UI, with the Python that runs it.

On a cluster, executors use the first `python3` of their path, and an archive with what it lacks;
planners run beside the driver and use the Python of the command.
"""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roquet.pipeline.errors import PipelineError
from roquet.pipeline.queries import QueryFailed
from roquet.temporary import remove_leftovers, temporary_directory

_PYTHON_VARIABLE: Final = "PYSPARK_PYTHON"
_GATEWAY: Final = "java_gateway"
# Its name on all machines, this one included.
_ANY_PYTHON: Final = "python3"
# Where executors unpack an archive, relative to their working directory.
_SITE: Final = "site"
# Checkpoints on a local disk: beside each of the two files that a micro-batch writes there, Hadoop
# would write one with its checksum, and start programs for it. That is a third of a small batch.
QUICK_CHECKPOINTS: Final = {
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs"
}
# Whether Spark asks formats in Python for `pushFilters`; they do that with `filterPushdown` alone.
FILTER_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
# Rows go through a socket between Python and the JVM: a Unix socket costs both less. Any process
# that can write to it is obeyed, so it is in a directory of this user alone.
_SOCKET_NAME_SIZE: Final = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH_SIZE_MAX: Final = 107
# Spark's Python processes import pyspark from a zip, where nothing is compiled; that takes nearly
# twice as long, and they have ten seconds to start. The installed package is the same. Threads of
# numpy's linear algebra, which nothing here needs, would keep a second core busy meanwhile.
_WORKER_PYTHON: Final = """\
#!/bin/sh
kept=
IFS=:
for each in $PYTHONPATH; do
  case $each in */pyspark.zip | */py4j-*-src.zip) ;; *) kept=${{kept:+$kept:}}$each ;; esac
done
export OPENBLAS_NUM_THREADS="${{OPENBLAS_NUM_THREADS:-1}}"
PYTHONPATH=$kept exec '{python}' "$@"
"""


class NoSession(PipelineError):
    """Spark does not start; the text has the reason."""


@contextmanager
def spark_session(
    name: str, master: str, archive: Path | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Takes some seconds. Raises NoSession, which names what is missing.

    `archive` is one of `jobs/package.py`, for executors whose Python has no roquet; `conf` are
    settings of Spark. Its output goes to a file, which is named if Spark failed.
    """
    if _java() is None:
        raise NoSession("Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is")
    if archive is not None and not archive.is_file():
        raise NoSession(f"no archive {archive}: write one with 'roquet spark package'")
    _quieten()
    remove_leftovers()
    with temporary_directory() as directory:
        output = directory / "spark.log"
        if _PYTHON_VARIABLE not in os.environ:
            _choose_python(directory, master, archive)
        try:
            session = _started(name, master, output, _archive_conf(archive) | dict(conf or {}))
            try:
                yield session
            finally:
                _stop(session)
        except (NoSession, QueryFailed) as error:
            error.add_note(f"the output of Spark is in {_kept(output)}")
            raise


def _quieten() -> None:
    """Libraries log what they raise, too, and print tracebacks when Java ends before Python."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Some of it goes to the root logger, to which nothing of ours logs.
    logging.getLogger().addFilter(_is_not_of_py4j)
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        # Its thread reads from Java, which a signal for all processes of a job may end first.
        server.handle_error = lambda *_: None  # type: ignore[method-assign]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != _GATEWAY


def _stop(session: SparkSession) -> None:
    # A signal for all processes of the job has ended Java, or the system has for want of memory.
    with suppress(Py4JError, OSError):
        session.stop()


def _kept(output: Path) -> Path:
    """Its new path: the directory that it is in is removed."""
    descriptor, kept = tempfile.mkstemp(".log", "roquet-spark-", output.parent.parent)
    os.close(descriptor)
    return output.rename(kept)


def settings_of(master: str, directory: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of the session; `conf` overrides them. The directory is for this user alone."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        FILTER_PUSHDOWN: "true",
        **QUICK_CHECKPOINTS,
    }
    if _is_local(master):
        # Whatever the name of this machine: all processes are on it.
        settings["spark.driver.host"] = "127.0.0.1"
        settings |= unix_sockets(directory)
    return settings | dict(conf)


def unix_sockets(directory: Path) -> dict[str, str]:
    """Settings for Unix sockets in this directory, if its path is not too long."""
    if len(os.fsencode(directory)) + _SOCKET_NAME_SIZE > _SOCKET_PATH_SIZE_MAX:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(directory),
    }


def _started(name: str, master: str, output: Path, conf: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings_of(master, output.parent, conf).items():
        builder = builder.config(key, value)
    with _stderr_of_children(output):
        try:
            session: SparkSession = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise NoSession(f"Spark does not start on {master}: {_reason(error)}") from None
    return session


def _reason(error: Exception) -> str:
    """Before a session exists, the error of Java is wrapped in text of its callers."""
    lines = str(error).splitlines()
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])


def _choose_python(directory: Path, master: str, archive: Path | None) -> None:
    """The program of Spark's Python processes; other machines have no file of ours."""
    if archive is not None:
        quick_python(directory)
        os.environ["PATH"] = os.pathsep.join([str(directory), os.environ.get("PATH", "")])
        os.environ[_PYTHON_VARIABLE] = _ANY_PYTHON
    elif _is_local(master):
        os.environ[_PYTHON_VARIABLE] = str(quick_python(directory))
    else:
        os.environ[_PYTHON_VARIABLE] = sys.executable


def quick_python(directory: Path) -> Path:
    """A program in `directory`: this Python, importing pyspark as it is installed."""
    script = directory / _ANY_PYTHON
    script.write_text(_WORKER_PYTHON.format(python=sys.executable))
    script.chmod(0o700)
    return script


def _archive_conf(archive: Path | None) -> dict[str, str]:
    if archive is None:
        return {}
    return {
        "spark.archives": f"{archive.absolute()}#{_SITE}",
        "spark.executorEnv.PYTHONPATH": _SITE,
    }


def _is_local(master: str) -> bool:
    """Whether all processes run on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


@contextmanager
def _stderr_of_children(path: Path) -> Iterator[None]:
    """The stderr of processes started meanwhile, and of their children, goes to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
