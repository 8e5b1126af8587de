"""What is counted of queries, and how long they are behind."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from roquet import QueueRef
from roquet.monitoring.exposition import Exposition
from roquet.net.addresses import read_place
from roquet.pipeline.errors import BadOption
from roquet.pipeline.jobs.ingest import IngestProgress
from roquet.pipeline.queue_offsets import StreamOffset
from roquet.pipeline.watching.metrics import METRICS, QueryMetrics, TimeLag
from roquet.pipeline.watching.serving import read_listen, serving
from tests.support.http_asking import page_of

QUEUE = QueueRef("orders", "broker-a", 0)
QUERY = "orders to lake"


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def report(end: int, latest: int, rows: int) -> Mapping[str, Any]:
    def text(offset: int) -> str:
        return json.dumps(StreamOffset({QUEUE: offset}).to_json())

    return {
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 1500},
        "sources": [{"startOffset": text(0), "endOffset": text(end), "latestOffset": text(latest)}],
    }


def values(metrics: QueryMetrics) -> dict[str, float]:
    exposition = Exposition()
    for _ in metrics.measure(exposition):
        pass
    return {
        sample.name.removeprefix("roquet_pipeline_"): sample.value
        for family in text_string_to_metric_families(exposition.text().decode())
        for sample in family.samples
        if "le" not in sample.labels
    }


@pytest.mark.parametrize(
    ("reports", "seconds"),
    [
        # Time, position, end of the queue; asked for at 100.
        ([], 100),
        ([(10, 5, 5)], 0),
        # It started with a backlog.
        ([(10, 5, 50), (20, 10, 60)], 100),
        # At 20 it had what was stored at 10.
        ([(10, 5, 50), (20, 50, 60)], 90),
        ([(10, 5, 50), (20, 50, 60), (30, 60, 70)], 80),
        ([(10, 5, 50), (20, 70, 70)], 0),
        # A queue that shrinks was deleted and created again.
        ([(10, 5, 50), (20, 7, 7)], 100),
    ],
)
def test_time_lag_is_the_time_since_everything_was_read(
    reports: list[tuple[float, int, int]], seconds: float
) -> None:
    lag = TimeLag(started_s=0)
    for time_s, end, latest in reports:
        lag.add(time_s, {QUEUE: end}, {QUEUE: latest})
    assert lag.seconds(100) == seconds


def test_a_query_that_stays_behind_takes_bounded_memory() -> None:
    lag = TimeLag(started_s=0)
    for second in range(10_000):
        lag.add(second, {QUEUE: 0}, {QUEUE: second + 1})
    assert len(lag._reports) <= 1024
    lag.add(10_000, {QUEUE: 9_000}, {QUEUE: 10_001})
    assert 1_000 <= lag.seconds(10_000) <= 2_000


def test_batches_of_a_query_are_added_up() -> None:
    clock = Clock()
    metrics = QueryMetrics(clock)
    metrics.started(QUERY)
    metrics.progressed(QUERY, report(end=60, latest=100, rows=60))
    clock.now_s += 30
    metrics.progressed(QUERY, report(end=90, latest=120, rows=30))
    metrics.progressed(QUERY, report(end=90, latest=120, rows=0))
    clock.now_s += 5
    found = values(metrics)
    assert found["messages_total"] == 90
    assert found["batches_total"] == found["batch_duration_seconds_count"] == 2
    assert found["batch_duration_seconds_sum"] == 3
    assert found["lag_messages"] == 30
    assert found["lag_seconds"] == 35
    assert found["last_batch_timestamp_seconds"] == 1_030
    assert found["running"] == 1
    assert "files_total" not in found


def test_ingest_counts_what_it_published_not_rows_of_spark() -> None:
    metrics = QueryMetrics(Clock())
    metrics.started(QUERY)
    first = IngestProgress(batches=1, messages=500, files=4, bytes=1_000, commit_s=0.5)
    metrics.published(QUERY, first)
    metrics.progressed(QUERY, report(end=500, latest=500, rows=4))
    metrics.published(QUERY, first._replace(lag=0))
    metrics.published(QUERY, first._replace(batches=2, messages=700, quarantined=3, commit_s=0.75))
    found = values(metrics)
    assert found["messages_total"] == 700
    assert found["quarantined_total"] == 3
    assert found["files_total"] == 4
    assert found["commit_duration_seconds_count"] == 2
    assert found["commit_duration_seconds_sum"] == 0.75


def test_a_query_that_failed_is_not_ready_until_it_runs_again() -> None:
    metrics = QueryMetrics(Clock())
    metrics.started(QUERY)
    metrics.ended(QUERY, "[DATA_LOSS] orders was deleted")
    assert metrics.unready_reasons() == [f"{QUERY}: [DATA_LOSS] orders was deleted"]
    assert values(metrics) | {"running": 0, "failures_total": 1} == values(metrics)
    metrics.started(QUERY)
    assert metrics.unready_reasons() == []
    assert values(metrics)["failures_total"] == 1
    metrics.ended(QUERY, None)
    assert metrics.unready_reasons() == []


def test_old_queries_are_forgotten_and_running_ones_are_not() -> None:
    metrics = QueryMetrics(Clock())
    metrics.started("first")
    for number in range(300):
        metrics.started(f"query-{number}")
        metrics.ended(f"query-{number}", None)
    exposition = Exposition()
    shown = sum(1 for _ in metrics.measure(exposition))
    assert shown <= 102
    assert b'query="first"' in exposition.text()


def test_all_of_it_is_served_and_nothing_else() -> None:
    metrics = QueryMetrics(Clock())
    metrics.started(QUERY)
    metrics.published(QUERY, IngestProgress(batches=1))
    metrics.progressed(QUERY, report(end=1, latest=1, rows=1))
    with serving(metrics, read_place("0")) as port:
        text = page_of(f"127.0.0.1:{port}", "/metrics").body.decode()
        assert page_of(f"127.0.0.1:{port}", "/ready").status == 200
    families = {family.name for family in text_string_to_metric_families(text)}
    ours = {name for name in families if name.startswith("roquet_pipeline_")}
    assert ours == {metric.name.removesuffix("_total") for metric in METRICS}


def test_a_place_is_an_address_or_a_port_of_this_machine() -> None:
    assert read_listen("9878") == ("127.0.0.1", 9878)
    assert read_listen("10.0.0.7:9878") == ("10.0.0.7", 9878)
    with pytest.raises(BadOption):
        read_listen("everywhere")
