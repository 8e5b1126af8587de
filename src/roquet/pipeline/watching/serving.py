"""Listens to the streaming queries of a session, and serves their metrics by HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from roquet.client.blocking.loop_thread import LoopThread
from roquet.clock import SystemClock
from roquet.monitoring.pages import serve_pages
from roquet.net.addresses import read_place
from roquet.net.errors import BadAddress
from roquet.pipeline.errors import BadOption
from roquet.pipeline.watching.metrics import QueryMetrics
from roquet.protocol.host import Address


class ServedMetrics(NamedTuple):
    metrics: QueryMetrics
    place: Address


@contextmanager
def query_metrics(
    spark: SparkSession, place: Address, name: str | None = None
) -> Iterator[ServedMetrics]:
    """Serves /metrics, /health and /ready at `place` for the queries of a session.

    A query is labelled with `name`, or with its own name, or with its id. Port 0 takes a free one.
    Raises OSError, such as AddressTaken.
    """
    metrics = QueryMetrics()
    with serving(metrics, place) as port, _listening(spark, metrics, name):
        yield ServedMetrics(metrics, place._replace(port=port))


@contextmanager
def serving(metrics: QueryMetrics, place: Address) -> Iterator[int]:
    """Answers while the block runs; the port is the one it got. Raises OSError."""
    thread = LoopThread("metrics of queries")
    thread.start()
    try:
        with thread.entered(serve_pages(place, [metrics], SystemClock())) as port:
            yield port
    finally:
        thread.stop()


def read_listen(text: str) -> Address:
    """`host:port`, or a port of this machine alone. Raises BadOption."""
    try:
        return read_place(text)
    except BadAddress:
        raise BadOption("listen", f"{text!r} is not HOST:PORT or a port") from None


@contextmanager
def _listening(spark: SparkSession, metrics: QueryMetrics, name: str | None) -> Iterator[None]:
    listener = _Listener(metrics, name)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        spark.streams.removeListener(listener)


@final
class _Listener(StreamingQueryListener):
    """Spark calls it in a thread of its own, some milliseconds after the event."""

    def __init__(self, metrics: QueryMetrics, name: str | None) -> None:
        self._metrics = metrics
        self._name = name
        # Only the event of a start and reports have the name of a query.
        self._names: dict[Any, str] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's names.
        self._names[event.runId] = self._name or event.name or str(event.id)
        self._metrics.started(self._names[event.runId])

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        if progress.runId in self._names:
            self._metrics.progressed(self._names[progress.runId], progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        name = self._names.pop(event.runId, None)
        if name is not None:
            self._metrics.ended(name, event.exception and event.exception.partition("\n")[0])
