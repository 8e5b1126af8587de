"""How jobs run queries that end: their failures in one line, and their tasks counted meanwhile."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import StatusTracker
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roquet.pipeline.jobs.query_failures import failure_of, is_slow_start
from roquet.reporting import JobProgress

log = logging.getLogger(__name__)

T = TypeVar("T")

_ATTEMPTS_MAX: Final = 5
_LOOK_EVERY_S: Final = 0.5


def run_query(act: Callable[[], T]) -> T:
    """What `act` returns, which may be run again: when Spark's Python did not start in time.

    Raises QueryFailed.
    """
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            return act()
        except (PySparkException, Py4JError) as error:
            if not attempts_left or not is_slow_start(str(error)):
                raise failure_of(str(error)) from None
            log.warning("Spark's Python did not start in time; started again")
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def tasks_shown(spark: SparkSession, progress: JobProgress) -> Iterator[None]:
    """While queries run, how many tasks of those that are known are done."""
    is_done = Event()
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        while not is_done.wait(_LOOK_EVERY_S):
            done, total = _counted(tracker)
            if total:
                progress.show(done, total)

    watcher = Thread(target=look, name="tasks", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()


def _counted(tracker: StatusTracker) -> tuple[int, int]:
    done = total = 0
    for number in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(number)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
