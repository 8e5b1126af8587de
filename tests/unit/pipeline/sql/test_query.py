"""SQL over topics, store directories and lakes: the same rows, and only what is needed of them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from roquet import Message, Producer
from roquet.pipeline.connections import close_readers
from roquet.pipeline.errors import BadLake, BadQuery
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.sql.query import run_sql
from roquet.pipeline.sql.tables import LakeTables, MessageTable, StoreTables, Tables, TopicTables
from roquet.protocol.record_columns import PropertiesForm, decode_records
from roquet.testing.blocking import BlockingCluster
from tests.support.drafts import draft
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.stores import opened

COUNT = 30
MAP = PropertiesForm.MAP
Row = tuple[Any, ...]


def rows(statement: str, tables: Tables) -> list[Row]:
    with run_sql(statement, tables) as result:
        return list(result.rows)


# Topics of a cluster.


@pytest.fixture(scope="module")
def topics() -> Iterator[TopicTables]:
    with BlockingCluster() as cluster:
        for topic in ("orders", "Paid-Orders"):
            cluster.new_topic(topic)
            messages = [
                Message(topic, b"%d" % number, f"t{number % 3}", (), {"price": str(number)})
                for number in range(COUNT)
            ]
            with Producer(cluster.name_server, "senders") as producer:
                producer.send_many(messages)
        yield TopicTables({"nameServer": cluster.name_server})
        close_readers()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select count(*) from orders", [(COUNT,)]),
        (
            "select tags, count(*) from ORDERS group by all order by tags",
            [("t0", 10), ("t1", 10), ("t2", 10)],
        ),
        ("select sum(decode(body)::int) from orders where tags = 't1' limit 9", [(145,)]),
        ("select max(properties['price']::int) from orders where queueId >= 0", [(COUNT - 1,)]),
        # A table is scanned as often as it is named.
        ("select count(*) from orders a join orders b using (queueId, queueOffset)", [(COUNT,)]),
        ('select count(*) from orders join "paid-orders" p using (body)', [(COUNT,)]),
        ("with o as (from orders) select distinct topic from o", [("orders",)]),
        ("select 1", [(1,)]),
    ],
)
def test_topics_are_tables(topics: TopicTables, statement: str, expected: list[Row]) -> None:
    assert rows(statement, topics) == expected


def test_a_whole_row_has_all_columns(topics: TopicTables) -> None:
    with run_sql("from orders where body = '7'::blob", topics) as result:
        (row,) = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    assert row["topic"] == "orders"
    assert row["properties"]["price"] == "7"
    assert row["msgId"] == row["properties"]["UNIQ_KEY"]
    # As a value of its own, it has them, too.
    ((whole,),) = rows("select o from orders o where body = '7'::blob", topics)
    assert whole == row


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("selec 1", "syntax error"),
        ("select nothing from orders", '"nothing" not found'),
        ("select * from missing", "no topic 'missing'; topics: Paid-Orders, orders"),
        ("select 1; select 2", "exactly one SQL statement"),
        ("", "exactly one SQL statement"),
        ("select tags::int from orders", "Conversion Error"),
    ],
)
def test_a_mistake_is_reported_in_one_line(topics: TopicTables, statement: str, says: str) -> None:
    with pytest.raises(BadQuery, match=says) as raised:
        rows(statement, topics)
    assert "\n" not in str(raised.value)


# What is decoded.


class OneTable:
    """Of a scan that notes what it is asked for."""

    def __init__(self, scan: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]) -> None:
        self.asked: list[list[str]] = []
        self._scan = scan

    def names(self) -> list[str]:
        return ["orders"]

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable:
        assert name == "orders"

        def scan(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            self.asked.append(list(columns))
            return self._scan(columns)

        return MessageTable(scan, on_rows)


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("select tags from orders where queueId = 1", ["queueId", "tags"]),
        ("select count(*) from orders where storeTimestamp > now()", ["storeTimestamp"]),
        ("select keys from orders where properties['a'] = 'b'", ["keys", "properties"]),
    ],
)
def test_only_columns_that_are_used_are_decoded(statement: str, columns: list[str]) -> None:
    tables = OneTable(lambda wanted: iter([decode_records(b"", wanted, properties=MAP)]))
    rows(statement, tables)
    assert {tuple(each) for each in tables.asked} == {tuple(columns)}


@pytest.mark.parametrize("error", [BadLake("it is gone"), KeyboardInterrupt()])
def test_what_a_scan_raises_is_raised(error: BaseException) -> None:
    def fail(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield decode_records(b"", ["tags"])
        raise error

    with pytest.raises(type(error)) as raised:
        rows("select count(tags) from orders", OneTable(fail))
    assert raised.value is error


# Directories.


def test_the_topics_of_a_store_are_tables(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(COUNT):
            store.append(draft(b"%d" % number, topic="orders"))
        seen: list[int] = []
        tables = StoreTables({"path": str(tmp_path)})
        with run_sql("select count(*), max(queueOffset) from orders", tables, seen.append) as found:
            assert list(found.rows) == [(COUNT, COUNT - 1)]
        assert sum(seen) == COUNT
        with pytest.raises(BadQuery, match="topics: orders"):
            rows("from paid", tables)


def test_the_topics_of_a_lake_are_tables(tmp_path: Path) -> None:
    with pytest.raises(BadLake, match="no lake"):
        LakeTables(tmp_path)
    with Lake.open(tmp_path / "lake", LakeSettings()) as lake:
        lake.publish(staged_rows(lake, message_batch(0, range(5))))
        lake.publish(staged_rows(lake, message_batch(1, range(7), hour=1)))
        # Of a writer that was killed.
        staged_rows(lake, message_batch(2, range(9)))
        (tmp_path / "lake/topic=orders/stray.parquet").write_bytes(b"none")
        found = rows(
            "select topic, hour, count(*), max(queueOffset) from orders group by all order by hour",
            LakeTables(tmp_path / "lake"),
        )
    assert found == [("orders", 12, 5, 4), ("orders", 13, 7, 6)]
