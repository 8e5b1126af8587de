"""Tasks that stop half way until a test lets them go on, and the processes they run in."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Final, TypeVar, final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812

from tests.support.eventually import wait_until
from tests.support.spark_workers import with_workers

T = TypeVar("T")

# Longer than a test waits for anything else.
_PATIENCE_S: Final = 200.0


@final
class Gate:
    """The task that has the row whose body is `number` waits there, at its first attempt."""

    def __init__(self, directory: Path, number: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._reached = directory / "reached"
        self._opened = directory / "opened"
        self._number = number

    def in_the_way_of(self, frame: DataFrame) -> DataFrame:
        # A function that is made here is sent by value: tasks need not import this module.
        reached, opened, number = str(self._reached), str(self._opened), self._number

        def pass_on(body: str | bytes) -> str | bytes:
            if int(body) == number and not Path(reached).exists():
                Path(reached).touch()
                deadline_s = time.monotonic() + _PATIENCE_S
                while not Path(opened).exists() and time.monotonic() < deadline_s:
                    time.sleep(0.02)
            return body

        kind = frame.schema["body"].dataType
        return frame.withColumn("body", F.udf(pass_on, kind, useArrow=False)("body"))

    def reached_by(self, spark: SparkSession, act: Callable[[], T]) -> "Future[T]":
        """`act` goes on in a thread; at this moment one of its tasks waits at the gate."""
        return with_workers(lambda: self._reached_by(spark, act))

    def _reached_by(self, spark: SparkSession, act: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()

        def work() -> None:
            # A thread that has no session of its own finds no formats to write to.
            spark.createDataFrame([], "body string")
            try:
                future.set_result(act())
            except (PySparkException, Py4JJavaError) as error:
                future.set_exception(error)

        Thread(target=work, name="held up", daemon=True).start()
        wait_until(lambda: self._reached.exists() or future.done(), _PATIENCE_S)
        if not self._reached.exists():
            future.result()
            raise AssertionError("it ended without its row")
        return future

    def open(self) -> None:
        self._opened.touch()


def kill_python_workers(spark: SparkSession) -> int:
    """All that run tasks of this session at this moment; how many there were."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    forkers = [each for each in children(gateway.proc.pid) if "pyspark.daemon" in command_of(each)]
    workers = [worker for forker in forkers for worker in children(forker)]
    for each in workers:
        os.kill(each, signal.SIGKILL)
    return len(workers)


def children(process_id: int) -> list[int]:
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                status = (directory / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # Behind the name, which may hold anything: state, then the parent.
            if int(status.rpartition(")")[2].split()[1]) == process_id:
                found.append(int(directory.name))
    return found


def command_of(process_id: int) -> str:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
