"""Second tries where Spark's own Python was too slow to start; whatever else fails has failed.

Spark gives a Python process ten seconds to connect back, and none can change that. On a busy
machine it takes longer, which says nothing about what is tested.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.eventually import wait_until

T = TypeVar("T")

_REASONS: Final = ("Python worker failed to connect back", "PYTHON_WORKER_FAILED_TO_CONNECT")
_TRIES: Final = 5
# Batches of a stream take seconds each on a machine that does other things, too.
_PATIENCE_S: Final = 300.0


def with_workers(act: Callable[[], T]) -> T:
    """What `act` returns: it counts, collects or writes, and may do so again."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return act()
        except (PySparkException, Py4JJavaError) as error:
            if not tries_left or not is_late_worker(error):
                raise
    raise AssertionError("there is a last try")


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A stream that has finished its first batch, which every stream has."""

    def begin() -> StreamingQuery:
        query = start()
        try:
            wait_until(lambda: bool(query.recentProgress) or not query.isActive, _PATIENCE_S)
            _raise_failure(query)
        except BaseException:
            query.stop()
            raise
        return query

    return with_workers(begin)


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A stream that ends by itself, and has ended well."""

    def run() -> StreamingQuery:
        query = start()
        try:
            if not query.awaitTermination(int(_PATIENCE_S)):
                raise TimeoutError(f"the stream did not end in {_PATIENCE_S} s")
        finally:
            query.stop()
        return query

    return with_workers(run)


def is_late_worker(error: Exception) -> bool:
    return any(reason in str(error) for reason in _REASONS)


def _raise_failure(query: StreamingQuery) -> None:
    failure = query.exception()
    if failure is not None:
        raise failure
