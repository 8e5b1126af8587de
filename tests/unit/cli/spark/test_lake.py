"""`roquet spark ingest`, `backfill`, `compact` and `drift` as a person sees them, without Spark."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import Finished, roquet
from tests.support.drafts import draft
from tests.support.lake_rows import (
    TOPIC,
    found_by_arrow,
    message_batch,
    publish_small_files,
    staged_rows,
)
from tests.support.ports import free_port
from tests.support.s3_store import S3Store
from tests.support.stores import opened
from tests.support.tasks_here import run_tasks_here


def ingest(directory: Path, *more: str, name_server: str = "localhost:9876") -> Finished:
    needed = ("-n", name_server, "--topic", "orders")
    places = ("--lake", directory / "lake", "--checkpoint", directory / "checkpoint")
    return roquet("spark", "ingest", *needed, *places, *more)


def test_what_is_needed_is_reported(tmp_path: Path) -> None:
    finished = roquet("spark", "ingest", "--topic", "orders", "--checkpoint", tmp_path)
    assert finished.exit_code == 2
    assert "--lake" in finished.stderr


def ingest_into(lake: str, *more: str) -> Finished:
    return roquet(
        "spark", "ingest", "-n", "localhost:9876", "--topic", "orders", "--lake", lake, *more
    )


@pytest.mark.parametrize("lake", ["hdfs://host:9000/lake", "gs://bucket/lake", "s3://bucket"])
def test_a_place_that_cannot_be_a_lake_is_a_wrong_argument(lake: str) -> None:
    finished = ingest_into(lake)
    assert finished.exit_code == 2
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("name", ["notes", "notes/lake"])
def test_a_file_in_the_place_of_a_lake_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes").touch()
    finished = ingest_into(str(tmp_path / name))
    assert finished.exit_code == 1
    assert finished.stderr.splitlines() == [
        f"roquet spark ingest: {tmp_path / name}: {tmp_path / 'notes'} is a file, not a directory"
    ]


def test_a_file_in_the_place_of_a_checkpoint_is_named_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    finished = ingest(tmp_path)
    assert finished.exit_code == 1
    reason = f"option 'checkpoint': {tmp_path / 'checkpoint'} is a file, not a directory"
    assert finished.stderr.splitlines() == [f"roquet spark ingest: {reason}"]


def test_parquet_in_s3_and_a_missing_bucket_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Store() as store:
        store.use(monkeypatch)
        plain = ingest_into("s3://messages/lake")
        missing = ingest_into("s3://missing/lake", "--format", "delta")
    assert (plain.exit_code, missing.exit_code) == (1, 1)
    assert "--format delta" in plain.stderr
    assert "NoSuchBucket" in missing.stderr
    assert plain.stderr.count("\n") == missing.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--format", "iceberg", "--catalog", "hive=x"), "rest=URL"),
        (("--format", "delta", "--catalog", "rest=http://host"), "catalog"),
        (("--format", "iceberg", "--partition-by", "tags"), "hours(storeTimestamp)"),
        (("--format", "delta", "--partition-by", "days(storeTimestamp)"), "'topic, dt'"),
        (("--format", "delta", "--partition-by", "dt"), "'topic, dt'"),
        (("--format", "parquet", "--partition-by", "topic, dt"), "'topic, dt, hour'"),
    ],
)
def test_what_a_format_cannot_have_is_one_line(
    tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    finished = ingest_into(str(tmp_path / "lake"), *options)
    assert finished.exit_code == 1
    assert named in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert not (tmp_path / "lake").exists()


def test_iceberg_in_s3_asks_for_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Store() as store:
        store.use(monkeypatch)
        finished = ingest_into("s3://messages/lake", "--format", "iceberg")
    assert finished.exit_code == 1
    assert "--catalog rest=URL" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_missing_keys_are_one_line_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    # A cloud that was asked would refuse the connection: the line would be another.
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    finished = ingest_into("s3://messages/lake", "--format", "delta")
    assert finished.exit_code == 1
    assert "AWS_ACCESS_KEY_ID" in finished.stderr
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "content", "named"),
    [
        ("--json-schema", None, "'json-schema': orders.avsc: No such file"),
        ("--json-schema", "id bigit", "'json-schema': orders.avsc: unknown type 'bigit'"),
        ("--avro-schema", None, "'avro-schema': orders.avsc: No such file"),
        ("--avro-schema", '{"type": "recrd"}', "'avro-schema': orders.avsc: not an Avro schema"),
        ("--protobuf-schema", "none", "'protobuf-schema': orders.avsc: not a set of Protobuf"),
    ],
)
def test_a_file_of_a_schema_is_named_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, content: str | None, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "orders.avsc").write_text(content)
    finished = ingest_into("lake", option, "orders.avsc")
    assert finished.exit_code != 0
    assert named in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert not (tmp_path / "lake").exists()


def test_a_mistake_in_a_proto_is_named_by_file_and_line(tmp_path: Path) -> None:
    """Without the directory in which it is compiled, and without the log of the compiler."""
    proto = tmp_path / "orders.proto"
    proto.write_text("message Order {\n  int64 id = 1\n}")
    finished = ingest_into(str(tmp_path / "lake"), "--protobuf-schema", str(proto))
    assert f"'protobuf-schema': {proto}: orders.proto cannot be compiled" in finished.stderr
    assert " orders.proto:2:" in finished.stderr
    assert "WARNING" not in finished.stderr


def test_a_registry_that_is_not_there_is_reported_before_spark_starts(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    finished = ingest_into(str(tmp_path / "lake"), "--registry", url)
    assert finished.exit_code == 1
    assert f"the schema registry {url} failed" in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert not (tmp_path / "lake").exists()


def test_a_store_that_is_not_there_is_reported_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with S3Store() as store:
        store.use(monkeypatch)
    finished = ingest_into("s3://messages/lake", "--format", "delta")
    assert finished.exit_code == 1
    assert "check AWS_ENDPOINT_URL" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_without_a_checkpoint_a_start_at_the_latest_is_refused(tmp_path: Path) -> None:
    finished = ingest_into(str(tmp_path / "lake"), "--starting-offsets", "latest")
    assert finished.exit_code == 1
    assert "--checkpoint" in finished.stderr


def test_storage_options_are_for_object_stores(tmp_path: Path) -> None:
    finished = ingest_into(str(tmp_path / "lake"), "--storage-options", str(tmp_path / "x.json"))
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1


def test_an_interval_and_an_end_contradict_each_other(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--available-now", "--interval", "10 seconds")
    assert finished.exit_code == 2
    assert "contradicts" in finished.stderr


def test_a_bad_option_is_reported_in_one_line_before_spark_starts(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--starting-offsets", "soon")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "earliest, latest, group" in finished.stderr
    assert not (tmp_path / "lake").exists()


def test_a_name_server_that_is_not_there_is_reported_before_spark_starts(tmp_path: Path) -> None:
    finished = ingest(tmp_path, name_server=f"127.0.0.1:{free_port()}")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert not (tmp_path / "lake").exists()


def test_a_topic_that_is_not_there_is_reported_before_spark_starts(tmp_path: Path) -> None:
    with BlockingCluster() as cluster:
        finished = ingest(tmp_path, name_server=cluster.name_server)
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "orders" in finished.stderr


def test_a_machine_without_java_is_an_error_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with BlockingCluster() as cluster:
        cluster.new_topic("orders")
        finished = ingest(tmp_path, name_server=cluster.name_server)
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1].endswith(
        "Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is"
    )


def test_a_python_without_spark_is_an_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.cli.spark.running.find_spec", lambda _: None)
    finished = ingest(tmp_path)
    assert finished.exit_code == 1
    assert "pip install roquet[spark]" in finished.stderr


def test_a_setting_of_spark_has_a_name_and_a_value(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--conf", "spark.executor.cores")
    assert finished.exit_code == 2
    assert "is not NAME=VALUE" in finished.stderr


def test_an_interval_is_a_time_span(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--interval", "soon")
    assert finished.exit_code == 2
    assert "'soon': expected a time span" in finished.stderr


def backfill(directory: Path, *more: str) -> Finished:
    places = (directory / "store", "--lake", directory / "lake")
    return roquet("spark", "backfill", *places, "--topic", "TopicA", *more)


def failed(finished: Finished) -> str:
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    return finished.stderr


def test_a_directory_that_is_no_store_is_reported_before_spark_starts(tmp_path: Path) -> None:
    assert "store" in failed(backfill(tmp_path, "--broker-name", "a"))
    assert not (tmp_path / "lake").exists()


def test_a_topic_that_is_not_there_is_reported_with_those_that_are(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.append(draft(b"x", topic="TopicB"))
    assert "topics: TopicB" in failed(backfill(tmp_path, "--broker-name", "a"))


def test_the_name_of_the_broker_is_asked_for_if_it_is_unknown(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.append(draft(b"x", topic="TopicA"))
    assert "give --broker-name" in failed(backfill(tmp_path))
    assert not (tmp_path / "lake").exists()


def test_columns_that_cannot_be_are_reported_before_spark_starts(tmp_path: Path) -> None:
    assert "type 'text'" in failed(backfill(tmp_path, "--json-schema", "name text"))


def test_a_lake_with_a_filter_is_refused(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", LakeSettings(tag_expression="paid")).close()
    assert "has a filter" in failed(backfill(tmp_path))


def test_what_was_added_is_summed_up_and_nothing_is_added_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tasks_here(monkeypatch, "backfill")
    with opened(tmp_path / "store") as store:
        for number in range(9):
            store.append(draft(b"%d" % number, topic="TopicA", queue_id=number % 3))
    first = backfill(tmp_path, "--broker-name", "a", "--json")
    assert first.exit_code == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["messages"], summary["missing"], summary["is_complete"]) == (9, 0, True)
    assert "9 of 9 messages" in first.stderr
    # The lake knows the broker by now.
    second = backfill(tmp_path, "--json")
    assert json.loads(second.stdout)["messages"] == 0
    assert len(found_by_arrow(tmp_path / "lake")) == 9


def test_a_directory_that_is_no_lake_is_reported_before_spark_starts(tmp_path: Path) -> None:
    finished = roquet("spark", "compact", "--lake", tmp_path)
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "no lake in" in finished.stderr


@pytest.mark.parametrize("option", ["--target-size", "--grace"])
def test_sizes_and_times_have_to_be_such(tmp_path: Path, option: str) -> None:
    finished = roquet("spark", "compact", "--lake", tmp_path, option, "soon")
    assert finished.exit_code == 2
    assert f"argument {option}: 'soon': expected a" in finished.stderr


def test_compacted_files_are_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks_here(monkeypatch, "compact")
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        # Long ago: the hours of these tests may not be over yet.
        for offset in range(3):
            lake.publish(staged_rows(lake, message_batch(0, [offset], hour=-24 * 365)))
    finished = roquet("spark", "compact", "--lake", tmp_path / "lake", "--json")
    assert finished.exit_code == 0, finished.stderr
    summary = json.loads(finished.stdout)
    assert (summary["hours"], summary["files_before"], summary["files_after"]) == (1, 3, 1)
    assert (summary["messages"], summary["lake_files"], summary["is_complete"]) == (3, 1, True)
    assert len(found_by_arrow(tmp_path / "lake")) == 3
    assert "3 of 3 files" in finished.stderr


def test_drift_is_shown_to_people_and_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tasks_here(monkeypatch, "drift")
    rows = message_batch(0, range(2), bodies=[b'{"city": "Rome"}', b'{"price": "x"}'])
    rows = rows.append_column("brokerName", pa.array(["broker-a"] * 2))
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        lake.publish(staged_rows(lake, rows, JsonColumns("price int")), "price int")
    command = ("spark", "drift", "--lake", tmp_path / "lake", "--topic", TOPIC)
    shown = roquet(*command)
    assert shown.exit_code == 0, shown.stderr
    assert "did not fit" in shown.stdout
    summary = json.loads(roquet(*command, "--json").stdout)
    assert (summary["messages"], summary["left_out"]) == (2, 0)
    first = summary["drift"][0]
    assert (first["field"], first["messages"], first["example"]) == ("price", 1, "broker-a@0@1")
    assert summary["drift"][1]["first_stored"] == "2026-11-16T12:00:00Z"


def test_hours_that_are_not_over_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks_here(monkeypatch, "compact")
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        publish_small_files(lake, hours=1, files=2, rows=2)
    command = ("spark", "compact", "--lake", tmp_path / "lake")
    finished = roquet(*command, "--grace", "9999999h")
    assert finished.exit_code == 0, finished.stderr
    assert "files before" in finished.stdout
    assert len(list((tmp_path / "lake").glob("**/*.parquet"))) == 4


@pytest.mark.parametrize("name", ["--expire", "--orphans"])
def test_plain_parquet_has_nothing_to_expire(tmp_path: Path, name: str) -> None:
    Lake.open(tmp_path / "lake", LakeSettings()).close()
    finished = roquet("spark", "compact", "--lake", tmp_path / "lake", name, "2h")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
