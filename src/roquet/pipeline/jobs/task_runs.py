"""Work that is shared out among Spark's tasks, each part with a result for the driver."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roquet.pipeline.jobs.query_failures import failure_of, is_slow_start

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS_MAX: Final = 5
# A task costs some milliseconds, so many small parts share one; not all, for sizes differ.
_TASKS_PER_CORE: Final = 4


def run_tasks(spark: SparkSession, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """What `work` returns, in the order of the parts. It must be such that it can be repeated.

    Raises QueryFailed with what it raised.
    """
    context = spark.sparkContext
    count = min(len(parts), _TASKS_PER_CORE * context.defaultParallelism)
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            return context.parallelize(parts, count).map(work).collect()
        except (Py4JJavaError, PySparkException) as error:
            if attempt == _ATTEMPTS_MAX or not is_slow_start(str(error)):
                raise failure_of(str(error)) from None
            log.warning("Spark's Python did not start in time; started again")
    raise AssertionError("the last attempt returns or raises")
