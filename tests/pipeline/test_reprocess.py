"""`roquet spark reprocess` by a real Spark: the quarantine is read again, by a later schema."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.avro import AvroCodec
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.opening import open_existing_lake, open_lake
from roquet.pipeline.lake.places import beside
from roquet.pipeline.lake.staging import LATEST_SUFFIX, TableStaging
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
from roquet.testing.blocking import BlockingCluster
from tests.support.gates import few
from tests.support.job_commands import JobCommands

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "price", "type": "int"}]}

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("spark")]


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    return JobCommands(spark, monkeypatch)


@pytest.fixture
def schemas(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "first.avsc", tmp_path / "second.avsc"
    for file, schema in zip(files, (FIRST, SECOND), strict=True):
        file.write_text(json.dumps(schema))
    return files


def orders(lake: Path, columns: str, topic: str) -> list[Any]:
    statement = f'select {columns} from "{topic}"'  # noqa: S608
    with run_sql(statement, LakeTables(lake)) as result:
        return sorted(result.rows)


@pytest.mark.parametrize(
    "table_format", few(["delta", "parquet", "iceberg"], 1, "the same with another format")
)
def test_messages_of_a_later_schema_come_into_the_lake_once(
    command: JobCommands,
    cluster: BlockingCluster,
    schemas: tuple[Path, Path],
    tmp_path: Path,
    table_format: str,
) -> None:
    topic, lake = cluster.new_topic("orders", queues=1), tmp_path / "lake"
    codecs = {number: AvroCodec(dict, schema) for number, schema in enumerate((FIRST, SECOND))}
    with Producer(cluster.name_server, "sellers") as producer:
        for number in range(20):
            value = {"id": number // 2, "price": number}
            producer.send(Message(topic, codecs[number % 2].encode(value)))
        producer.send(Message(topic, b"no Avro"))
    latest: list[str] = [] if table_format == "parquet" else ["--latest-by", "id"]
    ingested = command.json(
        *("ingest", "-n", cluster.name_server, "--topic", topic, "--lake", str(lake)),
        *("--available-now", "--format", table_format, "--avro-schema", str(schemas[0]), *latest),
    )
    assert (ingested["messages"], ingested["quarantined"]) == (10, 11)
    nothing = command.json("reprocess", "--lake", lake)
    assert (nothing["messages"], nothing["added"], nothing["quarantined"]) == (11, 0, 11)
    both = [word for file in schemas for word in ("--avro-schema", str(file))]
    found = command.json("reprocess", "--lake", lake, "--topic", topic, *both)
    assert (found["messages"], found["added"], found["quarantined"]) == (11, 10, 1)
    assert (found["lake_messages"], found["lake_quarantined"]) == (20, 1)
    expected = sorted((each // 2, each if each % 2 else -1) for each in range(20))
    assert orders(lake, "id, coalesce(price, -1)", topic) == expected
    again = command.json("reprocess", "--lake", lake)
    assert (again["added"], again["lake_messages"]) == (0, 20)
    if latest:
        # Each key has a message of the second schema, sent after that of the first.
        assert newest_prices(lake) == list(range(1, 20, 2))


def newest_prices(place: Path) -> list[int]:
    lake = open_existing_lake(place)
    assert isinstance(lake, TableLake)
    table = lake.tables[LATEST_SUFFIX]
    table.refresh()
    staging = TableStaging(beside(place, LATEST_SUFFIX))
    found: list[int] = []
    for file in table.files():
        with staging.read(file.path) as source:
            found += source.read()["price"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--lake", "none"), "no lake in"),
        (("--lake", "lake"), "does not decode bodies"),
        (("--lake", "lake", "--json-schema", "id bigint", "--topic", "x"), "no topic 'x'"),
        (("--lake", "lake", "--json-schema", "id nothing"), "nothing"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    command: JobCommands,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    with open_lake(tmp_path / "lake", LakeSettings()):
        pass
    monkeypatch.chdir(tmp_path)
    finished = command("reprocess", *arguments)
    assert finished.exit_code != 0
    assert words in finished.stderr
    assert "Traceback" not in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1
