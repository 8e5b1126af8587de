"""Filters that limit what is read: which ones, and how much less that is."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from roquet import Message, Producer, QueueRef
from roquet.pipeline.data_sources import RocketmqDataSource, message_schema
from roquet.pipeline.errors import BadOption
from roquet.pipeline.limits import ANY, Span, limits_of
from roquet.pipeline.pushdown import PushdownReader, conditions_of
from roquet.protocol.record_columns import PropertiesForm
from roquet.testing.blocking import BlockingCluster
from tests.support.raising import raises

MESSAGES = 40
HOUR = timedelta(hours=1)
STORED = ("storeTimestamp",)
OFFSET = ("queueOffset",)
MS = datetime(2026, 1, 1, tzinfo=UTC)
MS_NUMBER = 1_767_225_600_000
INSIDE = MS + timedelta(microseconds=500)


@pytest.mark.parametrize(
    ("condition", "span"),
    [
        (GreaterThanOrEqual(STORED, MS), Span(MS_NUMBER, None)),
        (GreaterThan(STORED, MS), Span(MS_NUMBER + 1, None)),
        (LessThan(STORED, MS), Span(None, MS_NUMBER)),
        (LessThanOrEqual(STORED, MS), Span(None, MS_NUMBER + 1)),
        (EqualTo(STORED, MS), Span(MS_NUMBER, MS_NUMBER + 1)),
        # Between two milliseconds.
        (GreaterThanOrEqual(STORED, INSIDE), Span(MS_NUMBER + 1, None)),
        (LessThan(STORED, INSIDE), Span(None, MS_NUMBER + 1)),
        (EqualTo(STORED, INSIDE), Span(MS_NUMBER + 1, MS_NUMBER + 1)),
        (In(STORED, (MS, None, MS + HOUR)), Span(MS_NUMBER, MS_NUMBER + 3_600_001)),
        (Not(EqualTo(STORED, MS)), ANY),
        (GreaterThan(("bornTimestamp",), MS), ANY),
        (GreaterThan((*STORED, "field"), MS), ANY),
    ],
)
def test_store_times_are_limits_in_milliseconds(condition: Filter, span: Span) -> None:
    assert limits_of(conditions_of([condition])).stored_ms == span


def test_several_filters_limit_together() -> None:
    found = limits_of(
        conditions_of([GreaterThan(OFFSET, 3), LessThan(OFFSET, 9), GreaterThan(OFFSET, 5)])
    )
    assert found.offsets == Span(6, 9)


@pytest.mark.parametrize("tag", ["", "a b", "a||b", "*"])
def test_tags_that_no_expression_can_name_are_no_limit(tag: str) -> None:
    assert limits_of(conditions_of([EqualTo(("tags",), tag)])).tags is None
    assert limits_of(conditions_of([In(("tags",), ("plain", tag))])).tags is None


# At a broker.


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as running:
        yield running


@pytest.fixture(scope="module")
def middle(cluster: BlockingCluster) -> datetime:
    """Half of the messages in each of two queues were stored before, half after."""
    cluster.new_topic("orders", queues=2)
    with Producer(cluster.name_server, "senders") as producer:
        for number in range(MESSAGES):
            if number == MESSAGES // 2:
                cluster.clock.advance(2 * HOUR)
            tag = "new" if number % 4 < 2 else "paid"
            queue = QueueRef("orders", producer.queues("orders")[0].broker_name, number % 2)
            producer.send(Message("orders", b"%d" % number, tags=tag), queue=queue)
        return cluster.clock.now() - HOUR


def reader(cluster: BlockingCluster, **more: str) -> DataSourceReader:
    options = {"nameServer": cluster.name_server, "topic": "orders"}
    return RocketmqDataSource(options | more).reader(message_schema(PropertiesForm.NONE))


def read_count(cluster: BlockingCluster, *filters: Filter, **more: str) -> int:
    """The rows that Spark gets."""
    found = reader(cluster, filterPushdown="true", properties="none", **more)
    assert isinstance(found, PushdownReader)
    assert list(found.pushFilters(list(filters))) == list(filters)
    partitions: list[InputPartition] = list(found.partitions())
    batches: list[pa.RecordBatch] = [batch for each in partitions for batch in found.read(each)]
    return sum(batch.num_rows for batch in batches)


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ([], MESSAGES),
        ([IsNotNull(STORED)], MESSAGES),
        ([EqualTo(("queueId",), 1)], MESSAGES // 2),
        ([Not(In(("queueId",), (0, 5)))], MESSAGES // 2),
        ([EqualTo(("topic",), "others")], 0),
        ([EqualTo(("brokerName",), None)], 0),
        ([EqualTo(("tags",), "paid")], MESSAGES // 2),
        ([In(("tags",), ("paid", "new"))], MESSAGES),
        ([GreaterThanOrEqual(OFFSET, MESSAGES // 2 - 3)], 6),
        ([LessThan(OFFSET, 1), EqualTo(("queueId",), 0)], 1),
    ],
)
def test_only_what_can_match_is_read(
    cluster: BlockingCluster, middle: datetime, conditions: list[Filter], count: int
) -> None:
    assert read_count(cluster, *conditions) == count


def test_times_become_offsets(cluster: BlockingCluster, middle: datetime) -> None:
    assert read_count(cluster, GreaterThan(STORED, middle)) == MESSAGES // 2
    assert read_count(cluster, LessThan(STORED, middle), EqualTo(("queueId",), 0)) == MESSAGES // 4
    assert read_count(cluster, LessThan(STORED, middle), GreaterThan(STORED, middle)) == 0


def test_an_expression_of_the_options_stays(cluster: BlockingCluster, middle: datetime) -> None:
    other = EqualTo(("tags",), "paid")
    assert read_count(cluster, other, tagExpression="new") == MESSAGES // 2


def test_without_the_option_spark_sees_a_reader_that_takes_no_filters(
    cluster: BlockingCluster,
) -> None:
    plain = reader(cluster, properties="none")
    assert type(plain).pushFilters is DataSourceReader.pushFilters


def test_a_stream_refuses_the_option(cluster: BlockingCluster) -> None:
    options = {"nameServer": cluster.name_server, "topic": "orders", "filterPushdown": "true"}
    with raises(BadOption, name="filterPushdown"):
        RocketmqDataSource(options).streamReader(message_schema(PropertiesForm.MAP))
