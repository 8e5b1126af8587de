"""Limits by filters: of many filters, all rows that match are read, and Spark finds the same."""

import operator
import pickle
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark.sql.datasource import (
    DataSource,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from roquet import Message, Producer
from roquet.pipeline.data_sources import (
    RocketmqDataSource,
    RocketmqStoreDataSource,
    message_schema,
)
from roquet.pipeline.pushdown import PushdownReader
from roquet.protocol.record_columns import PropertiesForm
from roquet.testing.blocking import BlockingCluster
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.spark_store import TOPICS, fill_with_everything
from tests.support.stores import opened

Row = dict[str, Any]
ROUNDS = 6
STEP = timedelta(seconds=90)

COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: lambda value, other: value[: len(other)] == other,
    StringEndsWith: lambda value, other: value[len(value) - len(other) :] == other,
    StringContains: lambda value, other: value.find(other) >= 0,
}
ORDERED = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, EqualNullSafe)
TEXTUAL = (EqualTo, EqualNullSafe, StringStartsWith, StringEndsWith, StringContains, GreaterThan)


def matches(row: Row, condition: Any) -> bool | None:
    """By the rules of SQL, for one row."""
    if isinstance(condition, Not):
        truth = matches(row, condition.child)
        return None if truth is None else not truth
    value = row[condition.attribute[0]]
    match condition:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe():
            return bool(value == condition.value)
        case In():
            found = [each == value for each in condition.value if each is not None]
            is_unknown = value is None or (not any(found) and None in condition.value)
            return None if is_unknown else any(found)
    if value is None or condition.value is None:
        return None
    return COMPARED[type(condition)](value, condition.value)


def conditions_on(rows: Sequence[Row]) -> st.SearchStrategy[list[Filter]]:
    """Filters as queries have them, with values that rows have, and their neighbours."""

    def values_of(name: str) -> st.SearchStrategy[Any]:
        there = sorted({row[name] for row in rows if row[name] is not None})
        match there[0]:
            case datetime():
                shifts = [
                    timedelta(),
                    *(s * timedelta(microseconds=u) for s in (1, -1) for u in (1, 999, 5000)),
                ]
                near = st.builds(operator.add, st.sampled_from(there), st.sampled_from(shifts))
                far = st.sampled_from(
                    [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)]
                )
                return st.one_of(near, near, far)
            case int():
                return st.builds(operator.add, st.sampled_from(there), st.integers(-2, 2))
        return st.sampled_from([*there, there[0][:-1], "", "none", "a||b", " Aa"])

    def of(name: str) -> st.SearchStrategy[Filter]:
        values, path = values_of(name), st.just((name,))
        kinds = TEXTUAL if name in ("topic", "brokerName", "tags") else ORDERED
        plain = st.one_of(
            *(st.builds(kind, path, values) for kind in kinds),
            st.builds(In, path, st.lists(st.none() | values, min_size=1, max_size=3).map(tuple)),
            st.builds(IsNull, path),
            st.builds(IsNotNull, path),
        )
        return plain | st.builds(Not, plain)

    names = ("topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "tags")
    known = [name for name in names if any(row[name] is not None for row in rows)]
    return st.lists(st.sampled_from(known).flatmap(of), min_size=1, max_size=3)


def read(source: DataSource, filters: list[Filter]) -> list[Row]:
    """As Spark does: one process plans, others read."""
    reader = source.reader(message_schema(PropertiesForm.MAP))
    assert isinstance(reader, PushdownReader)
    assert list(reader.pushFilters(filters)) == filters
    partitions = reader.partitions()
    sent = pickle.loads(pickle.dumps((reader, partitions)))  # noqa: S301  It was made here.
    batches: Iterator[pa.RecordBatch] = (batch for each in sent[1] for batch in sent[0].read(each))
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]


def matching(rows: Sequence[Row], filters: list[Filter]) -> list[Row]:
    found = [row for row in rows if all(matches(row, each) is True for each in filters)]
    return sorted(found, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


def check_all_filters(source: DataSource) -> None:
    rows = read(source, [])

    @settings(suppress_health_check=list(HealthCheck))
    @given(filters=conditions_on(rows))
    def check(filters: list[Filter]) -> None:
        found = read(source, filters)
        assert matching(found, filters) == matching(rows, filters)
        assert len(found) <= len(rows)

    check()


@pytest.mark.parametrize("more", [{}, {"brokerName": "broker-a", "include": "all"}])
def test_rows_of_a_store_are_the_same_with_all_filters(
    tmp_path: Path, more: dict[str, str]
) -> None:
    clock = FakeClock()
    with opened(
        tmp_path,
        clock=clock,
        commit_log_file_size=1 << 18,
        queue_file_size=2000,
        write_checksums=False,
    ) as store:
        fill_with_everything(store, clock, 100, seed=1)
        for number in range(ROUNDS * 20):
            tag = {"TAGS": ("Aa", "BB")[number % 2]} if number % 3 else {}
            topic = TOPICS[number % len(TOPICS)]
            store.append(draft(b"%d" % number, topic=topic, queue_id=number % 2, properties=tag))
            if number % 20 == 0:
                clock.advance(STEP.total_seconds())
    options = {"path": str(tmp_path), "topics": ",".join(TOPICS), "filterPushdown": "true"}
    check_all_filters(RocketmqStoreDataSource(options | more))


def test_rows_of_topics_are_the_same_with_all_filters() -> None:
    with BlockingCluster(brokers=2) as cluster:
        topics = [cluster.new_topic(queues=2), cluster.new_topic(queues=3)]
        with Producer(cluster.name_server, "senders") as producer:
            for number in range(ROUNDS * 20):
                topic, tag = topics[number % 2], ("Aa", "BB", None)[number % 3]
                producer.send(Message(topic, b"%d" % number, tags=tag))
                if number % 20 == 0:
                    cluster.clock.advance(STEP)
        options = {"nameServer": cluster.name_server, "topics": ",".join(topics)}
        check_all_filters(RocketmqDataSource(options | {"filterPushdown": "true"}))
