"""What is done with a lake besides ingesting, by a real Spark: each message stays there once."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.pipeline.errors import BadOption
from roquet.pipeline.jobs.backfill import BackfillPlan, BackfillReport, backfill
from roquet.pipeline.jobs.compact import CompactPlan, compact
from roquet.pipeline.jobs.drift import DriftPlan, drift
from roquet.pipeline.jobs.ingest import IngestPlan, IngestReport, ingest
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from roquet.pipeline.queries import QueryFailed
from roquet.pipeline.selection import Selection, selected
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
from roquet.protocol.messages.message import Message
from tests.support.eventually import wait_until
from tests.support.lake_rows import (
    NOON,
    Found,
    found_by_arrow,
    found_by_duckdb,
    publish_small_files,
)
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.s3_store import S3Store
from tests.support.schema_registry import (
    FIRST_ORDER,
    SECOND_ORDER,
    avro_body,
    recorded_registry,
)
from tests.support.table_judges import JUDGES, found_in

COUNT = 50_000 if os.environ.get("ROQUET_LONG") else 1_000
TOPIC = "orders"
_PATIENCE_S = 300

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("spark")]


class Shop:
    """A broker with files that can be read, and a topic that gets messages."""

    def __init__(self, names: OurNameServer, broker: OurBroker) -> None:
        self.name_server = names.address
        self.store = broker.store_directory
        self.broker_name = broker.broker_name

    def send(self, *bodies: bytes) -> Found:
        with Producer(self.name_server, "sellers") as producer:
            receipts = [producer.send(Message(TOPIC, body)) for body in bodies]
        return Counter((each.queue.queue_id, each.queue_offset) for each in receipts)

    def ingest(
        self,
        spark: SparkSession,
        lake: Path,
        *,
        step: int = COUNT,
        table_format: str | None = None,
        json_schema: str | None = None,
        registry: str | None = None,
        infer: bool = False,
    ) -> IngestReport:
        source = {
            "nameServer": self.name_server,
            "topic": TOPIC,
            "maxOffsetsPerTrigger": str(step),
        }
        plan = IngestPlan(
            source=source,
            lake=lake,
            checkpoint=lake.with_name("checkpoint"),
            available_now=True,
            format=table_format,
            bodies=BodyOptions(json_schema=json_schema, registry=registry, infer=infer),
        )
        return ingest(spark, plan)

    def backfill(
        self, spark: SparkSession, lake: Path, broker_name: str | None = None
    ) -> BackfillReport:
        source = {"path": str(self.store), "topic": TOPIC, "splitSize": "64k"}
        return backfill(spark, BackfillPlan(source=source, lake=lake, broker_name=broker_name))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with (
        OurNameServer(tmp_path / "names") as names,
        OurBroker(tmp_path / "broker", names.address) as broker,
    ):
        yield Shop(names, broker)


def numbered(start: int, count: int) -> list[bytes]:
    return [b'{"number": %d, "late": "x"}' % each for each in range(start, start + count)]


def found_by_spark(spark: SparkSession, lake: Path) -> Found:
    rows = spark.read.parquet(str(lake)).select("queueId", "queueOffset").collect()
    return Counter((row.queueId, row.queueOffset) for row in rows)


def test_files_and_brokers_fill_a_lake_in_turns_and_joining_changes_no_message(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    sent = shop.send(*numbered(0, COUNT))
    with pytest.raises(BadOption, match="--broker-name"):
        shop.backfill(spark, lake)
    filled = shop.backfill(spark, lake, shop.broker_name)
    assert (filled.messages, filled.missing) == (COUNT, 0)
    assert found_by_arrow(lake) == sent

    sent += shop.send(*numbered(COUNT, 100))
    added = shop.ingest(spark, lake, step=20)
    assert (added.messages, added.lake_messages) == (100, COUNT + 100)

    sent += shop.send(*numbered(COUNT + 100, 50))
    filled = shop.backfill(spark, lake)
    assert (filled.messages, filled.missing) == (50, 0)
    assert shop.ingest(spark, lake).messages == 0
    assert shop.backfill(spark, lake).messages == 0

    _kill_while_it_joins(lake)
    soon = datetime.now(UTC) + timedelta(hours=2)
    assert found_by_arrow(lake) == sent
    compacted = compact(spark, CompactPlan(lake=lake, now=soon))
    assert compacted.is_complete
    assert compacted.lake_files == compacted.hours == len(list(lake.glob("**/*.parquet")))
    assert compact(spark, CompactPlan(lake=lake, now=soon)).files_before == 0
    assert found_by_arrow(lake) == found_by_duckdb(lake) == found_by_spark(spark, lake) == sent
    assert shop.ingest(spark, lake).messages == 0


def _kill_while_it_joins(lake: Path) -> None:
    """The command, once it has begun to write; the hour that is not over counts as over."""
    program = (
        "import roquet.pipeline.jobs.compact as job;"
        "from datetime import timedelta;"
        "job.GRACE_DEFAULT = timedelta(hours=-2);"
        "from roquet.cli.main import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "spark", "compact", "--lake", str(lake), "--json"],
        env={key: value for key, value in os.environ.items() if "PYSPARK" not in key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(
            lambda: process.poll() is not None or any(lake.glob("_roquet/staged/*/*")), _PATIENCE_S
        )
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        stdout, stderr = process.communicate()
    # It may have been faster: then it has reported that.
    assert not stdout or json.loads(stdout)["is_complete"], stderr


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_topic_without_messages_makes_a_lake_without_files(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    with Admin(shop.name_server) as admin:
        admin.create_topic(TOPIC)
    report = shop.ingest(spark, tmp_path / "lake")
    assert (report.messages, report.lake_files, report.is_complete) == (0, 0, True)
    sent = shop.send(b"1")
    assert shop.ingest(spark, tmp_path / "lake").messages == 1
    assert found_by_arrow(tmp_path / "lake") == sent


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_what_a_task_finds_wrong_is_reported_in_one_line_and_nothing_is_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        publish_small_files(lake, hours=1, files=2, rows=2)
        entry_number = lake.state.entry_number
    paths = sorted((tmp_path / "lake").glob("topic=*/**/*.parquet"))
    paths[0].write_bytes(b"PAR1 and no more")
    with pytest.raises(QueryFailed, match=r"hour=12 cannot be compacted: [^\n]+$"):
        compact(spark, CompactPlan(lake=tmp_path / "lake", now=NOON + timedelta(days=1)))
    with Lake.open_existing(tmp_path / "lake") as lake:
        assert lake.state.entry_number == entry_number
    assert sorted((tmp_path / "lake").glob("**/*.parquet")) == paths


@pytest.mark.full("what unit tests show without Spark, once more through it")
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_lake_can_be_a_table(
    spark: SparkSession, shop: Shop, tmp_path: Path, table_format: str
) -> None:
    lake = tmp_path / "lake"
    sent = shop.send(*numbered(0, 100))
    assert shop.ingest(spark, lake, step=30, table_format=table_format).messages == 100
    shutil.rmtree(tmp_path / "checkpoint")
    assert shop.ingest(spark, lake).messages == 0
    soon = datetime.now(UTC) + timedelta(hours=2)
    compact(spark, CompactPlan(lake=lake, now=soon))
    judge = JUDGES[table_format]
    assert judge.file_count(lake) <= 2
    table = judge.rows(lake)
    assert found_in(table) == sent
    assert set(table["topic"].to_pylist()) == {TOPIC}


def test_bodies_become_columns_more_of_them_later_and_bad_ones_are_set_apart(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    shop.send(*numbered(0, 50), b"no json", b'{"number": "no number"}')
    first = shop.ingest(spark, lake, json_schema="number bigint")
    assert (first.messages, first.quarantined) == (50, 2)
    shop.send(*numbered(50, 50), b"[]")
    second = shop.ingest(spark, lake, json_schema="number bigint, late string")
    assert (second.messages, second.quarantined, second.lake_quarantined) == (50, 1, 3)

    rows = spark.read.option("mergeSchema", "true").parquet(str(lake)).collect()
    assert sorted(row.number for row in rows) == list(range(100))
    assert Counter(row.late for row in rows) == {None: 50, "x": 50}
    quarantine = ds.dataset(tmp_path / "lake-quarantine", format="parquet", partitioning="hive")
    bad = quarantine.to_table().to_pylist()
    assert {row["body"] for row in bad} == {b"no json", b'{"number": "no number"}', b"[]"}
    assert all(row["reason"] for row in bad)


def test_columns_are_inferred_and_what_differs_is_reported(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    shop.send(*numbered(0, 20), b"no json")
    first = shop.ingest(spark, lake, infer=True)
    assert (first.messages, first.quarantined) == (20, 1)
    shop.send(b'{"number": "none", "more": 1}', b'{"number": 5, "more": true}')
    second = shop.ingest(spark, lake)
    assert second.drift is not None
    # That of the whole lake has what the first run found, too.
    whole = drift(spark, DriftPlan(lake=lake))
    assert (whole.messages, whole.left_out) == (23, 0)
    assert [tuple(row[1:3]) for row in second.drift.rows] == [
        ("did not fit", "number"),
        ("no column", "more"),
        ("no column", "more"),
        ("never came", "late"),
    ]
    assert sorted(tuple(row[1:5]) for row in whole.rows) == [
        ("did not fit", "", "JSON is malformed: invalid character", 1),
        ("did not fit", "number", "Expected `int | null`, got `str`", 1),
        ("no column", "more", "boolean", 1),
        ("no column", "more", "number", 1),
    ]
    assert all(row.first_stored and row.example for row in whole.rows)


def test_schemas_of_a_registry_are_learned_in_mid_stream(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    bodies = [avro_body(FIRST_ORDER, "first", number=each, what="a") for each in range(20)]
    large = range(2**40, 2**40 + 20)
    bodies += [avro_body(SECOND_ORDER, "second", number=each, price=5) for each in large]
    sent = shop.send(*bodies, b"no head")
    with recorded_registry() as url:
        report = shop.ingest(spark, lake, step=15, table_format="iceberg", registry=url)
    assert (report.messages, report.quarantined, report.lake_quarantined) == (40, 1, 1)
    judge = JUDGES["iceberg"]
    rows = judge.rows(lake)
    assert found_in(rows) + found_in(judge.quarantined_rows(lake)) == sent
    assert sorted(rows["number"].to_pylist()) == [*range(20), *large]
    assert Counter(rows["price"].to_pylist()) == {None: 20, 5: 20}
    # What it has learned is with the lake: the registry is not asked again.
    shop.send(avro_body(SECOND_ORDER, "second", number=1, price=5))
    assert shop.ingest(spark, lake).messages == 1


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_lake_in_s3_is_filled_by_brokers_and_files_and_read_by_all(
    spark: SparkSession, shop: Shop, tmp_path: Path, table_format: str
) -> None:
    catalog = f"sqlite={tmp_path / 'catalog.sqlite'}" if table_format == "iceberg" else None
    with S3Store() as store:
        lake = store.location_with_file("lake", tmp_path)
        sent = shop.send(*numbered(0, 60))
        source = {"nameServer": shop.name_server, "topic": TOPIC, "maxOffsetsPerTrigger": "25"}
        plan = IngestPlan(
            source=source, lake=lake, available_now=True, format=table_format, catalog=catalog
        )
        assert ingest(spark, plan).messages == 60
        sent += shop.send(*numbered(60, 40))
        stored = {"path": str(shop.store), "topic": TOPIC}
        assert backfill(spark, BackfillPlan(source=stored, lake=lake)).messages == 40
        soon = datetime.now(UTC) + timedelta(hours=2)
        assert compact(spark, CompactPlan(lake=lake, now=soon)).lake_messages == 100
        assert ingest(spark, replace(plan, format=None, catalog=None)).messages == 0
        rows = selected(spark, Selection(source={}, lake=lake)).collect()
        assert Counter((row.queueId, row.queueOffset) for row in rows) == sent
        assert {row.topic for row in rows} == {TOPIC}
        with run_sql("select count(*) from orders", LakeTables(lake)) as result:
            assert list(result.rows) == [(100,)]
