"""SQL over topics, store directories and lakes: the same rows, and only what is needed of them."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from roquet import Message, Producer
from roquet.pipeline.connections import close_readers
from roquet.pipeline.errors import BadLake, BadQuery
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.limits import NO_LIMITS, ReadLimits, Span
from roquet.pipeline.sql.lakes import LakeTables
from roquet.pipeline.sql.query import run_sql
from roquet.pipeline.sql.stores import StoreTables
from roquet.pipeline.sql.tables import MessageTable, Tables
from roquet.pipeline.sql.topics import TopicTables
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
        self.limits: list[ReadLimits] = []
        self._scan = scan

    def names(self) -> list[str]:
        return ["orders"]

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable:
        assert name == "orders"

        def scan(columns: Sequence[str], limits: ReadLimits) -> Iterator[pa.RecordBatch]:
            self.limits.append(limits)
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


# What is read.


def counting(condition: str) -> str:
    return f"select count(*) from orders where {condition}"  # noqa: S608


def limits_of_scan(statement: str) -> ReadLimits:
    """Of the only scan of a statement."""
    tables = OneTable(lambda wanted: iter([decode_records(b"", wanted, properties=MAP)]))
    rows(statement, tables)
    (limits,) = set(tables.limits)
    return limits


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("queueOffset > 3 and queueOffset <= 9", ReadLimits(offsets=Span(4, 10))),
        ("queueOffset between 3 and 9", ReadLimits(offsets=Span(3, 10))),
        ("queueOffset in (5, 8)", ReadLimits(offsets=Span(5, 9))),
        ("storeTimestamp >= '1970-01-01 00:00:01+00'", ReadLimits(stored_ms=Span(1000))),
        ("storeTimestamp < '1970-01-01 01:00:00.0015+01'", ReadLimits(stored_ms=Span(None, 2))),
        ("tags = 'it''s AND queueOffset = 1'", NO_LIMITS),
        ("tags = 'paid' and body is not null", ReadLimits(tags=("paid",))),
        ("tags in ('paid', 'new') and length(keys) > 3", ReadLimits(tags=("paid", "new"))),
        ("(tags = 'paid' or tags = chr(10))", NO_LIMITS),
        # Not limits.
        ("queueOffset != 3 and tags != 'paid'", NO_LIMITS),
        ("not (queueOffset = 3 and tags = 'paid')", NO_LIMITS),
        ("queueOffset = 3 or body = 'x'", NO_LIMITS),
        ("queueOffset > 3.5", NO_LIMITS),
        ("tags = 'paid' or tags is null", NO_LIMITS),
        ("keys = 'queueOffset = 3'", NO_LIMITS),
        ("storeTimestamp < 'infinity'", NO_LIMITS),
    ],
)
def test_a_condition_limits_what_is_read(condition: str, expected: ReadLimits) -> None:
    assert limits_of_scan(counting(condition)) == expected


def test_a_time_before_now_is_computed_before_messages_are_read() -> None:
    start_ms = limits_of_scan(
        "select tags from orders where storeTimestamp > now() - interval 1 hour"
    ).stored_ms.start
    assert start_ms is not None
    assert start_ms > 1_700_000_000_000


@pytest.mark.parametrize(
    "statement",
    [
        # Other columns have the name.
        (
            "with o as (select queueOffset as queueId, queueId as queueOffset from orders)"
            " select count(*) from o where queueOffset = 3 and queueId < 9"
        ),
        (
            "select count(*) from orders as o(topic, brokerName, queueOffset, queueId)"
            " where queueOffset = 3 and queueId < 9"
        ),
        (
            "with o(topic, brokerName, queueOffset, queueId) as (from orders)"
            " select count(*) from o where queueOffset = 3 and queueId < 9"
        ),
        # Rows are needed that do not meet it.
        "select queueOffset, row_number() over () from orders qualify queueOffset = 3",
        "select * from (from orders limit 9) where queueOffset = 3",
        "select count(*) filter (where queueOffset = 3) from orders",
        # Of several scans, one meets it.
        "select count(*) from orders a join orders b using (queueId) where a.queueOffset = 3",
        "select tags from orders where queueOffset = 3 union all select tags from orders",
    ],
)
def test_a_condition_that_is_not_one_of_all_rows_is_no_limit(statement: str) -> None:
    assert limits_of_scan(statement) == NO_LIMITS


def rows_read(statement: str, tables: Tables) -> tuple[list[Row], int]:
    seen: list[int] = []
    with run_sql(statement, tables, seen.append) as result:
        return list(result.rows), sum(seen)


@pytest.mark.parametrize(
    "condition",
    ["tags = 't1'", "queueOffset < 2", "queueId = 3", "brokerName = 'other'", "topic = 'none'"],
)
def test_less_is_read_of_topics(topics: TopicTables, condition: str) -> None:
    [(count,)], read_count = rows_read(counting(condition), topics)
    # What is compared with a value that is computed limits nothing.
    [(same_count,)], whole_count = rows_read(counting(f"({condition}) = (random() >= 0)"), topics)
    assert count == same_count == read_count
    assert whole_count == COUNT


@pytest.mark.parametrize("error", [BadLake("it is gone"), KeyboardInterrupt()])
def test_what_a_scan_raises_is_raised(error: BaseException) -> None:
    def fail(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield decode_records(b"", ["tags"])
        raise error

    with pytest.raises(type(error)) as raised:
        rows("select count(tags) from orders", OneTable(fail))
    assert raised.value is error


# Five times, because it was a matter of chance which thread of DuckDB computes.
INTERRUPTED: Final = """
import os, signal, sys, threading, time
from roquet.pipeline.sql.query import run_sql
from roquet.pipeline.sql.stores import StoreTables

def interrupt_when_it_computes(_):
    def interrupt():
        started_s = time.process_time()
        while time.process_time() < started_s + 0.2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()

for _ in range(5):
    try:
        with run_sql(sys.argv[1], StoreTables({"path": sys.argv[2]}), interrupt_when_it_computes):
            pass
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_a_statement_that_computes_is_interrupted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"coffee", topic="orders"))
    statement = "select count(*) from orders, range(1000000000000) where range % 7 = 3"
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, statement, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout == "interrupted\n" * 5, ended.stderr


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


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("queueId = 1", 10),
        ("queueOffset between 2 and 4", 9),
        ("queueId in (0, 2) and queueOffset < 1", 2),
        ("storeTimestamp < '2001-01-01'", 0),
        ("storeTimestamp > '2001-01-01' and topic = 'orders'", COUNT),
    ],
)
def test_less_is_read_of_a_store(tmp_path: Path, condition: str, count: int) -> None:
    with opened(tmp_path) as store:
        for number in range(COUNT):
            store.append(draft(b"%d" % number, topic="orders", queue_id=number % 3))
        tables = StoreTables({"path": str(tmp_path)})
        assert rows_read(counting(condition), tables) == ([(count,)], count)


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
