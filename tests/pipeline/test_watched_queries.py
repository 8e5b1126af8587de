"""Queries as Prometheus and a catalog of lineage see them, with a real session."""

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import roquet.pipeline
from roquet import Message, Producer
from roquet.cli.spark import watching
from roquet.monitoring.exposition import Exposition
from roquet.pipeline.jobs.ingest import IngestProgress
from roquet.pipeline.watching.metrics import QueryMetrics
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.job_commands import JobCommands
from tests.support.spark_workers import finished

COUNT = 200


@pytest.fixture
def orders(cluster: BlockingCluster) -> str:
    topic = cluster.new_topic()
    with Producer(cluster.name_server, "shop") as producer:
        producer.send_many([Message(topic, b"%d" % number) for number in range(COUNT)])
    return topic


def values(text: bytes, query: str) -> dict[str, float]:
    return {
        sample.name.removeprefix("roquet_pipeline_"): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.labels.get("query") == query
    }


def test_the_queries_of_a_program_are_served(
    spark: SparkSession, cluster: BlockingCluster, orders: str, tmp_path: Path
) -> None:
    options = {"nameServer": cluster.name_server, "topic": orders, "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**options).load()
    writer = frame.writeStream.format("noop").queryName("billing").trigger(availableNow=True)
    with roquet.pipeline.serve_metrics(spark, "0") as address:
        query = finished(writer.option("checkpointLocation", str(tmp_path)).start)
        lag = roquet.pipeline.query_lag(query)
        assert (lag.name, lag.points[-1].value) == ("billing", 0)
        assert "<polyline" in lag._repr_html_()

        def found() -> dict[str, float]:
            return values(page_of(address, "/metrics").body, "billing")

        wait_until(lambda: found().get("running") == 0, 120)
        assert found() | {"messages_total": COUNT, "lag_messages": 0, "lag_seconds": 0} == found()
        assert found()["batches_total"] >= 1
        assert found()["batch_duration_seconds_sum"] > 0
        assert page_of(address, "/ready").status == 200


def test_ingest_is_measured_and_its_lineage_is_sent(
    spark: SparkSession,
    cluster: BlockingCluster,
    orders: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[QueryMetrics] = []
    passed_on = watching.Watch.progressed

    def progressed(watch: watching.Watch, progress: IngestProgress) -> None:
        assert watch.metrics is not None
        kept.append(watch.metrics)
        passed_on(watch, progress)

    monkeypatch.setattr(watching.Watch, "progressed", progressed)
    events = tmp_path / "events.json"
    for name, value in {"TYPE": "file", "LOG_FILE_PATH": str(events), "APPEND": "true"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    command = JobCommands(spark, monkeypatch)
    lake = tmp_path / "lake"
    report = command.json(
        *("ingest", "-n", cluster.name_server, "--topic", orders, "--lake", lake),
        *("--available-now", "--metrics", "0"),
    )
    assert report["messages"] == COUNT
    assert report["commit_s"] > 0
    exposition = Exposition()
    for _ in kept[-1].measure(exposition):
        pass
    found = values(exposition.text(), f"ingest {lake}")
    assert found["messages_total"] == COUNT
    assert found["commit_duration_seconds_count"] == report["batches"]
    start, complete = map(json.loads, events.read_text().splitlines())
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    offsets = complete["inputs"][0]["inputFacets"]["roquet_offsets"]["queues"]
    assert sum(each["end"] - each["start"] for each in offsets) == COUNT
