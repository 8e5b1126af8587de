"""Events of OpenLineage, sent by its own client to a file and to a server of this machine."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from roquet.pipeline.errors import BadLake
from roquet.pipeline.jobs.ingest import IngestPlan, IngestProgress
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.places import S3Location
from roquet.pipeline.watching import lineage
from roquet.pipeline.watching.lineage import ingest_lineage
from tests.support.lake_rows import publish_small_files

Event = dict[str, Any]


def plan(lake: Path, *, available_now: bool = True) -> IngestPlan:
    source = {"nameServer": "localhost:9876", "topic": "orders"}
    return IngestPlan(source=source, lake=lake, available_now=available_now)


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that events are appended to."""
    path = tmp_path / "events.json"
    for name, value in {"TYPE": "file", "LOG_FILE_PATH": str(path), "APPEND": "true"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    return path


def read(path: Path) -> list[Event]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_has_topics_offsets_and_the_lake(events: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with ingest_lineage(plan(lake), "4.3.0") as run:
        with Lake.open(lake, LakeSettings()) as opened:
            publish_small_files(opened, hours=1, files=2, rows=5)
        run.progressed(IngestProgress(batches=2, messages=10, files=2, bytes=700))
        run.is_complete = True
    start, complete = read(events)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["job"]["namespace"] == "shop"
    assert complete["job"]["name"] == "roquet.ingest.lake"
    assert complete["run"]["facets"]["processing_engine"]["version"] == "4.3.0"
    (topic,) = complete["inputs"]
    assert (topic["namespace"], topic["name"]) == ("rocketmq://localhost:9876", "orders")
    assert topic["inputFacets"]["roquet_offsets"]["queues"] == [
        {"broker": "broker-a", "queue": queue, "start": 0, "end": 10} for queue in range(2)
    ]
    (table,) = complete["outputs"]
    assert (table["namespace"], table["name"]) == ("file", str(lake))
    statistics = table["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (10, 2)


def test_a_failed_run_has_its_reason(events: Path, tmp_path: Path) -> None:
    with pytest.raises(BadLake), ingest_lineage(plan(tmp_path / "lake"), "4.3.0"):
        raise BadLake("its log has a hole")
    failed = read(events)[-1]
    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "its log has a hole"


@pytest.mark.parametrize(("available_now", "state"), [(True, "ABORT"), (False, "COMPLETE")])
def test_only_a_job_with_an_end_of_its_own_can_be_aborted(
    events: Path, tmp_path: Path, available_now: bool, state: str
) -> None:
    with ingest_lineage(plan(tmp_path / "lake", available_now=available_now), "4.3.0"):
        pass
    assert read(events)[-1]["eventType"] == state


def test_a_job_without_an_end_reports_itself(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "_RUNNING_EVERY_S", 0.0)
    with ingest_lineage(plan(tmp_path / "lake", available_now=False), "4.3.0") as run:
        run.progressed(IngestProgress(messages=3))
    assert [event["eventType"] for event in read(events)] == ["START", "RUNNING", "COMPLETE"]


@pytest.fixture
def server() -> Iterator[tuple[str, list[Event]]]:
    received: list[Event] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", received
        http.shutdown()
        thread.join()


def test_events_go_where_the_environment_says(
    server: tuple[str, list[Event]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, received = server
    for name, value in {"TYPE": "http", "URL": url, "COMPRESSION": ""}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    with ingest_lineage(plan(tmp_path / "lake"), "4.3.0") as run:
        run.is_complete = True
    assert [event["eventType"] for event in received] == ["START", "COMPLETE"]


def test_a_job_continues_when_no_event_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {"TYPE": "http", "URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY__TOTAL", "0")
    with ingest_lineage(plan(tmp_path / "lake"), "4.3.0") as run:
        run.is_complete = True
    assert sum("no lineage" in record.message for record in caplog.records) == 2


def test_a_lake_in_a_bucket_is_named_by_it() -> None:
    assert lineage._dataset(S3Location("messages", "tables/lake")) == (
        "s3://messages",
        "tables/lake",
    )
