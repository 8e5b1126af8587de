"""A batch read: its bounds are fixed when it is planned, so every run has the same rows.

`BatchReader.partitions` runs in the driver; `read_ranges` runs in tasks, for streams as well.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from roquet.client.blocking.reader import TopicReader
from roquet.client.group.subscriptions import subscription_of
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.pipeline.connections import (
    UNANSWERED,
    is_missing_topic,
    retried,
    stays_missing,
    topic_reader,
)
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.planning import QueueRange, core_count, split_evenly, task_count
from roquet.pipeline.source.positions import batch_ranges
from roquet.protocol.record_columns import decode_records
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

_OFFSET_COLUMN: Final = "queueOffset"
# The sample of messages whose average size is taken.
_SAMPLE_COUNT: Final = 32


@final
class QueuePartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[QueueRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


@final
class BatchReader(DataSourceReader):
    """Made in the driver; pickled to tasks, which only `read`."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        reader = topic_reader(options.cluster, pull_group(options))
        ranges = retried(
            lambda: batch_ranges(reader, options), options.cluster.retry_timeout, is_starting=True
        )
        return planned(options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_rows(self._options, self._columns, partition)


def planned(options: ReadOptions, ranges: Sequence[QueueRange]) -> list[InputPartition]:
    count = task_count(
        sum(each.row_count for each in ranges),
        least=options.min_partitions,
        most=options.max_records_per_partition,
        cores=core_count(),
    )
    return [QueuePartition(share) for share in split_evenly(ranges, count)]


def read_rows(
    options: ReadOptions, columns: Sequence[str], partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    # With nothing to read, Spark makes a partition of its own.
    if not isinstance(partition, QueuePartition):
        return iter(())
    return read_ranges(options, columns, partition.ranges)


def read_ranges(
    options: ReadOptions, columns: Sequence[str], ranges: Sequence[QueueRange]
) -> Iterator[pa.RecordBatch]:
    """Batches of exactly these columns."""
    keep_freed_memory()
    reader = topic_reader(options.cluster, pull_group(options))
    for each in ranges:
        subscription = subscription_of(
            each.queue.topic, options.tag_expression, options.sql_expression
        )
        for chunk in _chunks(reader, options, each, subscription):
            if chunk.count:
                yield _decoded(options, columns, chunk)


def _chunks(
    reader: TopicReader, options: ReadOptions, each: QueueRange, subscription: Subscription
) -> Iterator[RecordChunk]:
    skip_gone = not options.fail_on_data_loss
    try:
        yield from reader.records(
            each.queue, each.start, each.end, subscription=subscription, skip_gone=skip_gone
        )
    except UNANSWERED as error:
        if not (skip_gone and is_missing_topic(error)):
            raise
        if not stays_missing(reader, each.queue.topic, options.cluster.retry_timeout):
            raise
        log.warning("data loss: offsets from %d to %d of %s: %s", *each[1:], each.queue, error)


def _decoded(options: ReadOptions, columns: Sequence[str], chunk: RecordChunk) -> pa.RecordBatch:
    batch = decode_records(
        chunk.data, columns, properties=options.properties, broker_name=chunk.queue.broker_name
    )
    if batch.num_rows == chunk.count:
        return batch
    # A record of 5.x may hold many messages, some of them outside of the requested range.
    offsets = decode_records(chunk.data, [_OFFSET_COLUMN]).column(0)
    is_inside = pc.and_(
        pc.greater_equal(offsets, chunk.start_offset), pc.less(offsets, chunk.next_offset)
    )
    return batch.filter(is_inside)


def pull_group(options: ReadOptions) -> str:
    """The group of pulls; brokers keep statistics by it and may refuse it."""
    return options.group_id or options.group_id_prefix


def average_size(reader: TopicReader, queue: QueueRef, offset: int) -> float:
    """Average size of the messages from an offset on, by the first of them."""
    chunks = list(reader.records(queue, offset, offset + _SAMPLE_COUNT, skip_gone=True))
    count = sum(chunk.count for chunk in chunks)
    return sum(len(chunk.data) for chunk in chunks) / count if count else 1.0
