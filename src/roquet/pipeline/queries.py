"""How jobs run Spark: queries and tasks, with a retry if its Python starts too slowly.

Spark gives a Python process ten seconds to start, whatever else the machine does. What fails that
way is run again by `run_query`, for every job; any other failure becomes a QueryFailed of one line,
because Spark wraps what its Python processes raise in pages of text.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import StatusTracker
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roquet.pipeline.errors import PipelineError
from roquet.reporting import JobProgress

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS_MAX: Final = 5
# A task costs some milliseconds, so many small parts share one; not all, for sizes differ.
_TASKS_PER_CORE: Final = 4
_PROGRESS_INTERVAL_S: Final = 0.5
# A line that ends a Python traceback: the error's full name, and its text.
_OURS: Final = re.compile(r"^roquet(?:\.\w+)*\.(?:\w+): (?P<text>.+)$")
_THEIRS: Final = re.compile(r"^(?P<text>(?:\w+\.)*\w*(?:Error|Exception|Interrupt): .+)$")
# The error of a call to Java, after a line with the name of the call.
_JAVAS: Final = re.compile(r"^: (?P<text>.+)$")
# The Python of executors lacks what the formats need.
_NO_MODULE: Final = re.compile(r"No module named '(?P<name>roquet|pyarrow|numpy|msgspec)\b")
_SLOW_START: Final = ("failed to connect back", "CANNOT_OPEN_SOCKET")


class QueryFailed(PipelineError):
    """A query failed; the text is the first error that was raised, in one line."""


def run_query(
    act: Callable[[], T], own_failure: Callable[[], Exception | None] = lambda: None
) -> T:
    """What `act` returns, run again if Spark's Python did not start in time. Raises QueryFailed.

    If `own_failure` has an error when `act` fails, that one is raised instead of what Spark makes
    of it.
    """
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            return act()
        except (PySparkException, Py4JError) as error:
            if (failure := own_failure()) is not None:
                raise failure from None
            if not attempts_left or not is_slow_start(str(error)):
                raise failure_of(str(error)) from None
            log.warning("Spark's Python did not start in time; retrying")
    raise AssertionError("the last attempt returns or raises")


def run_tasks(spark: SparkSession, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """What `work` returns for each part, in their order; it runs in tasks and must be repeatable.

    Raises QueryFailed with what it raised.
    """
    if not parts:
        return []
    context = spark.sparkContext
    count = min(len(parts), _TASKS_PER_CORE * context.defaultParallelism)
    return run_query(lambda: context.parallelize(parts, count).map(work).collect())


def failure_of(text: str) -> QueryFailed:
    """The error to report, by everything that Spark prints about it."""
    if is_slow_start(text):
        return QueryFailed(
            "Spark's Python did not start within its ten seconds: the machine is too busy; run the"
            " job again when it is less busy"
        )
    if found := _NO_MODULE.search(text):
        return QueryFailed(
            f"the Python of Spark's executors has no module {found['name']!r}: create an archive"
            " with 'roquet spark package FILE' and give it with --archive"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (_OURS, _THEIRS, _JAVAS):
        for line in lines:
            if found := pattern.match(line):
                return QueryFailed(found["text"])
    return QueryFailed(lines[0] if lines else "Spark gives no reason")


def is_slow_start(text: str) -> bool:
    """Whether it failed because the machine was busy, so that a retry may succeed."""
    return any(each in text for each in _SLOW_START)


@contextmanager
def tasks_shown(spark: SparkSession, progress: JobProgress) -> Iterator[None]:
    """Shows how many of the tasks known so far are done, while queries run."""
    is_done = Event()
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        while not is_done.wait(_PROGRESS_INTERVAL_S):
            done, total = _task_counts(tracker)
            if total:
                progress.show(done, total)

    watcher = Thread(target=look, name="tasks", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()


def _task_counts(tracker: StatusTracker) -> tuple[int, int]:
    done = total = 0
    for number in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(number)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
