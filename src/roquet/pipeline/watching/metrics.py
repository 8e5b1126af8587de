"""The progress of streaming queries, counted for Prometheus.

Spark reports each micro-batch, and `ingest` each commit to its lake; a scrape reads the sums. The
time lag needs no request to a broker: it is the time since the query had last read everything that
was stored then. That is the age of the oldest message that is not read, or a little more: at most
the time between two micro-batches.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, final

from roquet.histogram import Histogram
from roquet.monitoring.exposition import Exposition, Metric, MetricKind
from roquet.pipeline.watching.positions import Positions, SourcePositions, reported_positions

if TYPE_CHECKING:
    from roquet.pipeline.jobs.ingest import IngestProgress

_QUERY: Final = ("query",)


def _metric(name: str, kind: MetricKind, meaning: str) -> Metric:
    return Metric(f"roquet_pipeline_{name}", kind, meaning, _QUERY)


RUNNING: Final = _metric("running", MetricKind.GAUGE, "1 while the query runs, 0 after its end.")
FAILURES: Final = _metric("failures_total", MetricKind.COUNTER, "Ends of the query with an error.")
MESSAGES: Final = _metric(
    "messages_total",
    MetricKind.COUNTER,
    "Rows of finished micro-batches; of ingest, messages that it added to the lake.",
)
BATCHES: Final = _metric("batches_total", MetricKind.COUNTER, "Finished micro-batches with rows.")
BATCH_SECONDS: Final = _metric(
    "batch_duration_seconds",
    MetricKind.HISTOGRAM,
    "How long micro-batches with rows took, from planning to commit.",
)
LAST_BATCH: Final = _metric(
    "last_batch_timestamp_seconds",
    MetricKind.GAUGE,
    "When the last micro-batch with rows ended, in seconds since 1970.",
)
LAG_MESSAGES: Final = _metric(
    "lag_messages",
    MetricKind.GAUGE,
    "Messages that were stored and not read at the end of the last micro-batch.",
)
LAG_SECONDS: Final = _metric(
    "lag_seconds",
    MetricKind.GAUGE,
    "Time since the query had read all messages that were stored, 0 if it has; at most since its"
    " start.",
)
COMMIT_SECONDS: Final = _metric(
    "commit_duration_seconds", MetricKind.HISTOGRAM, "How long ingest took to commit to its lake."
)
QUARANTINED: Final = _metric(
    "quarantined_total", MetricKind.COUNTER, "Messages that ingest could not decode."
)
FILES: Final = _metric("files_total", MetricKind.COUNTER, "Files that ingest added to its lake.")
FILE_BYTES: Final = _metric("file_bytes_total", MetricKind.COUNTER, "Bytes of these files.")
METRICS: Final = (
    *(RUNNING, FAILURES, MESSAGES, BATCHES, BATCH_SECONDS, LAST_BATCH, LAG_MESSAGES, LAG_SECONDS),
    *(COMMIT_SECONDS, QUARANTINED, FILES, FILE_BYTES),
)

# Micro-batches take from a tenth of a second to many minutes.
_BATCH_BOUNDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
# Reports that a query has not caught up with. Of more, every second one is forgotten.
_REPORTS_MAX: Final = 1024
# Ended queries that are still shown, so that an alert sees them.
_ENDED_MAX: Final = 100


@final
class TimeLag:
    """When a query had last read everything, from reports of its positions."""

    def __init__(self, started_s: float) -> None:
        self._caught_up_s = started_s
        self._reports: list[tuple[float, Positions]] = []
        self._is_caught_up = False

    def add(self, now_s: float, end: Positions, latest: Positions) -> None:
        """The query has read up to `end`, when the queues ended at `latest`."""
        if len(self._reports) >= _REPORTS_MAX:
            del self._reports[::2]
        self._reports.append((now_s, latest))
        while self._reports and _covers(end, self._reports[0][1]):
            self._caught_up_s = self._reports.pop(0)[0]
        self._is_caught_up = not self._reports

    def seconds(self, now_s: float) -> float:
        return 0.0 if self._is_caught_up else max(0.0, now_s - self._caught_up_s)


def _covers(end: Positions, latest: Positions) -> bool:
    return all(end.get(queue, 0) >= offset for queue, offset in latest.items())


@final
class _Query:
    """All runs of a query of one name, added up."""

    def __init__(self, now_s: float) -> None:
        self.is_running = True
        self.failures = 0
        self.messages = 0
        self.batches = 0
        self.durations = Histogram(_BATCH_BOUNDS)
        self.last_batch_s: float | None = None
        self.lag: int | None = None
        self.time_lag = TimeLag(now_s)
        self.error: str | None = None
        # None unless it is `ingest`, which counts by what it published.
        self.published: IngestProgress | None = None
        self.commits = Histogram(_BATCH_BOUNDS)

    def report(self, now_s: float, progress: Mapping[str, Any]) -> None:
        rows = progress.get("numInputRows") or 0
        if rows:
            self.batches += 1
            self.last_batch_s = now_s
            self.durations.add(progress["durationMs"].get("triggerExecution", 0) / 1000)
        if self.published is None:
            self.messages += rows
        sources = reported_positions(progress)
        if sources:
            self.lag = sum(source.lag for source in sources)
            self.time_lag.add(now_s, *_over_all(sources))

    def publish(self, progress: "IngestProgress") -> None:
        before = self.published
        if before is None or progress.batches > before.batches:
            self.commits.add(progress.commit_s - (before.commit_s if before else 0.0))
        self.published = progress
        self.messages = progress.messages


def _over_all(sources: list[SourcePositions]) -> tuple[Positions, Positions]:
    end: dict[Any, int] = {}
    latest: dict[Any, int] = {}
    for number, source in enumerate(sources):
        # Two sources may read the same queue.
        end |= {(number, queue): offset for queue, offset in source.end.items()}
        latest |= {(number, queue): offset for queue, offset in source.latest.items()}
    return end, latest


@final
class QueryMetrics:
    """The queries of a session, for the pages of `roquet.monitoring`.

    Spark's threads report, and the thread of the pages reads.
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._lock = Lock()
        self._queries: dict[str, _Query] = {}

    def started(self, query: str) -> None:
        with self._lock:
            known = self._queries.pop(query, None) or _Query(self._now_s())
            known.is_running, known.error = True, None
            # The last one to start is the last one to be forgotten.
            self._queries[query] = known
            ended = [name for name, each in self._queries.items() if not each.is_running]
            for name in ended[:-_ENDED_MAX]:
                del self._queries[name]

    def progressed(self, query: str, progress: Mapping[str, Any]) -> None:
        """`progress` is Spark's report of a micro-batch."""
        with self._lock:
            if query in self._queries:
                self._queries[query].report(self._now_s(), progress)

    def published(self, query: str, progress: "IngestProgress") -> None:
        with self._lock:
            if query in self._queries:
                self._queries[query].publish(progress)

    def ended(self, query: str, error: str | None) -> None:
        """`error` is its first line, None if it was stopped or has read everything."""
        with self._lock:
            if query in self._queries:
                known = self._queries[query]
                known.is_running, known.error = False, error
                known.failures += error is not None

    # What pages need.

    def measure(self, into: Exposition) -> Iterator[None]:
        with self._lock:
            queries = dict(self._queries)
        for name, query in queries.items():
            self._measure(name, query, into)
            yield

    def unready_reasons(self) -> list[str]:
        with self._lock:
            return [f"{name}: {each.error}" for name, each in self._queries.items() if each.error]

    def _measure(self, name: str, query: _Query, into: Exposition) -> None:
        own = {"query": name}
        into.add(RUNNING, own, query.is_running)
        into.add(FAILURES, own, query.failures)
        into.add(MESSAGES, own, query.messages)
        into.add(BATCHES, own, query.batches)
        into.add_histogram(BATCH_SECONDS, own, query.durations)
        if query.last_batch_s is not None:
            into.add(LAST_BATCH, own, query.last_batch_s)
        if query.lag is not None:
            into.add(LAG_MESSAGES, own, query.lag)
            into.add(LAG_SECONDS, own, query.time_lag.seconds(self._now_s()))
        if query.published is not None:
            into.add_histogram(COMMIT_SECONDS, own, query.commits)
            into.add(QUARANTINED, own, query.published.quarantined)
            into.add(FILES, own, query.published.files)
            into.add(FILE_BYTES, own, query.published.bytes)
