"""A table with the newest row of each key, beside a lake, by a real Spark."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roquet.client.blocking.producer import Producer
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.jobs.ingest import IngestPlan, check_plan, ingest
from roquet.pipeline.jobs.latest import LatestRows
from roquet.pipeline.lake import latest as latest_module
from roquet.pipeline.lake.opening import open_existing_lake, open_lake
from roquet.pipeline.lake.places import beside
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from roquet.pipeline.lake.table import CommitRefused, Rewrite, TableLake
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.keyed_messages import add_keyed
from tests.support.lake_rows import TOPIC, compact_all
from tests.support.table_judges import delta_table, iceberg_table
from tests.support.table_places import new_settings

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("spark")]


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> TableLake:
    opened = open_lake(tmp_path / "lake", new_settings(request.param))
    assert isinstance(opened, TableLake)
    return opened


def rows_beside(lake: TableLake) -> list[dict[str, object]]:
    """As others read them."""
    assert isinstance(lake.place, Path)
    if lake.settings.format == "delta":
        found = delta_table(beside(lake.place, "-latest")).to_pyarrow_table()
    else:
        found = iceberg_table(lake.place, "_latest").scan().to_arrow()
    rows: list[dict[str, object]] = found.to_pylist()
    return rows


def newest(lake: TableLake) -> dict[object, tuple[object, object]]:
    rows = rows_beside(lake)
    found = {row["keys"]: (row["queueId"], row["queueOffset"]) for row in rows}
    assert len(found) == len(rows)
    assert {row["topic"] for row in rows} <= {TOPIC}
    return found


def test_each_key_has_its_newest_row_through_late_commits_and_compaction(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_module, "BUCKET_ROWS_MAX", 3)
    latest = LatestRows(spark, lake, "keys")
    latest.update()
    assert newest(lake) == {}
    add_keyed(lake, 0, 10, "a", "b", "c")
    latest.update()
    # Another writer was late: what it adds was sent before.
    add_keyed(lake, 0, 0, "a", "d", "e", "f", "g")
    add_keyed(lake, 1, 11, "b", "c")
    compact_all(lake)
    latest.update()
    expected = {
        "a": (0, 10),
        "b": (1, 11),
        "c": (1, 12),
        "d": (0, 1),
        "e": (0, 2),
        "f": (0, 3),
        "g": (0, 4),
    }
    assert newest(lake) == expected
    before = lake_files(lake)
    LatestRows(spark, lake, "keys").update()
    assert lake_files(lake) == before


def lake_files(lake: TableLake) -> set[str]:
    found = open_existing_lake(lake.place)
    assert isinstance(found, TableLake)
    assert found.latest is not None
    found.latest.refresh()
    return {each.path for each in found.latest.files()}


def test_a_step_that_another_one_overtook_is_planned_again(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_keyed(lake, 0, 0, "a", "b")
    mine = LatestRows(spark, lake, "keys")
    other = LatestRows(spark, lake, "keys")
    table = type(lake.table)
    rewrite = table.rewrite
    refused: list[CommitRefused] = []

    def overtaken(self: object, step: Rewrite) -> int:
        monkeypatch.setattr(table, "rewrite", rewrite)
        add_keyed(lake, 0, 2, "a")
        other.update()
        try:
            return rewrite(self, step)  # type: ignore[arg-type]
        except CommitRefused as error:
            refused.append(error)
            raise

    monkeypatch.setattr(table, "rewrite", overtaken)
    mine.update()
    assert len(refused) == 1
    assert newest(lake) == {"a": (0, 2), "b": (0, 1)}


def test_a_driver_that_is_killed_around_the_commit_costs_nothing(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_keyed(lake, 0, 0, "a", "b", "a")
    table = type(lake.table)
    rewrite = table.rewrite

    def killed_before(self: object, step: Rewrite) -> int:
        raise KeyboardInterrupt

    def killed_after(self: object, step: Rewrite) -> int:
        rewrite(self, step)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    for killed in (killed_before, killed_after):
        with monkeypatch.context() as patched:
            patched.setattr(table, "rewrite", killed)
            with pytest.raises(KeyboardInterrupt):
                LatestRows(spark, lake, "keys").update()
    LatestRows(spark, lake, "keys").update()
    assert newest(lake) == {"a": (0, 2), "b": (0, 1)}


@pytest.fixture(params=["delta", "iceberg"])
def plan(request: pytest.FixtureRequest, cluster: BlockingCluster, tmp_path: Path) -> IngestPlan:
    topic = cluster.new_topic("orders", queues=2)
    return IngestPlan(
        source={"nameServer": cluster.name_server, "topic": topic},
        lake=tmp_path / "lake",
        available_now=True,
        format=request.param,
        bodies=BodyOptions(json_schema="id bigint, price int"),
        latest_by="id",
    )


@pytest.fixture
def orders(plan: IngestPlan) -> Iterator[Producer]:
    with Producer(plan.source["nameServer"], "sellers") as producer:
        yield producer


def send(producer: Producer, plan: IngestPlan, *orders: tuple[int, int]) -> None:
    for number, price in orders:
        body = b'{"id": %d, "price": %d}' % (number, price)
        producer.send(Message(plan.source["topic"], body))


def test_ingest_keeps_the_newest_rows_and_continues_without_the_option(
    spark: SparkSession, plan: IngestPlan, orders: Producer
) -> None:
    send(orders, plan, (1, 10), (2, 20), (1, 11), (3, 30))
    ingest(spark, plan)
    lake = open_existing_lake(plan.lake)
    assert isinstance(lake, TableLake)
    assert {row["id"]: row["price"] for row in rows_beside(lake)} == {1: 11, 2: 20, 3: 30}
    send(orders, plan, (2, 21))
    again = replace(plan, latest_by=None, bodies=BodyOptions())
    ingest(spark, again)
    assert {row["id"]: row["price"] for row in rows_beside(lake)} == {1: 11, 2: 21, 3: 30}
    with pytest.raises(BadLake, match="newest rows by 'id'"):
        check_plan(replace(plan, latest_by="price"))
    with pytest.raises(BadOption, match="no column"):
        check_plan(replace(plan, latest_by="name"))


def test_plain_parquet_is_refused(tmp_path: Path) -> None:
    source = {"nameServer": "127.0.0.1:1", "topic": "orders"}
    with pytest.raises(BadOption, match="plain Parquet cannot replace rows"):
        check_plan(IngestPlan(source=source, lake=tmp_path / "lake", latest_by="keys"))
