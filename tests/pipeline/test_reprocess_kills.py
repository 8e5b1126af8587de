"""Rows of a quarantine in S3 become messages once, though the jobs that move them are killed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.avro import AvroCodec
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.jobs.reprocess import ReprocessPlan, ReprocessReport, reprocess
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
from roquet.testing.blocking import BlockingCluster
from tests.support.killed_lake_jobs import kill_job
from tests.support.table_places import catalog_for, table_place

COUNT = 600
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "price", "type": "int"}]}
SCHEMAS = {"first.avsc": FIRST, "second.avsc": SECOND}

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("kills jobs of Spark again and again"),
]


class Survived(NamedTuple):
    lake: LakePlace
    topic: str
    report: ReprocessReport


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def survived(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Survived]:
    table_format: str = request.param
    directory = tmp_path_factory.mktemp("kills")
    moments = random.Random(0)
    first, second = (schema_file(directory / name, schema) for name, schema in SCHEMAS.items())
    with BlockingCluster() as cluster, table_place("s3", directory) as lake:
        topic = cluster.new_topic("orders", queues=1)
        send(cluster, topic)
        plan = IngestPlan(
            source={"nameServer": cluster.name_server, "topic": topic},
            lake=lake,
            available_now=True,
            file_rows_max=COUNT // 20,
            format=table_format,
            catalog=catalog_for(table_format, lake, directory),
            bodies=BodyOptions(avro_schemas=(first,)),
        )
        assert ingest(spark, plan).lake_quarantined == COUNT // 2
        words = [word for file in (first, second) for word in ("--avro-schema", str(file))]
        for _ in range(3):
            # Ten files are read; each becomes one of messages and one of rows that move.
            kill_job(lake, moments.randrange(1, 20), "reprocess", *words)
        both = BodyOptions(avro_schemas=(first, second))
        report = reprocess(spark, ReprocessPlan(lake=lake, bodies=both))
        yield Survived(lake, topic, report)


def schema_file(file: Path, schema: dict[str, Any]) -> Path:
    file.write_text(json.dumps(schema))
    return file


def send(cluster: BlockingCluster, topic: str) -> None:
    codecs = [AvroCodec(dict, schema) for schema in SCHEMAS.values()]
    with Producer(cluster.name_server, "sellers") as producer:
        for number in range(COUNT):
            value = {"id": number, "price": -number}
            producer.send(Message(topic, codecs[number % 2].encode(value)))


def test_each_message_is_in_the_lake_once(survived: Survived) -> None:
    with run_sql(f'select id, price from "{survived.topic}"', LakeTables(survived.lake)) as found:  # noqa: S608
        rows = sorted(found.rows)
    assert rows == [(number, -number if number % 2 else None) for number in range(COUNT)]


def test_nothing_is_left_in_the_quarantine(survived: Survived) -> None:
    assert (survived.report.lake_messages, survived.report.lake_quarantined) == (COUNT, 0)
