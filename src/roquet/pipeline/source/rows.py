"""From ranges of queues to Arrow batches: what a task does."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from roquet.client.blocking.reader import TopicReader
from roquet.client.group.subscriptions import subscription_of
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.memory import keep_freed_memory
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.planning import QueueRange
from roquet.protocol.record_columns import decode_records

_OFFSET_COLUMN: Final = "queueOffset"
# Messages that stand for the others when bytes are counted.
_SAMPLE_COUNT: Final = 32


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
        for chunk in reader.records(
            each.queue,
            each.start,
            each.end,
            subscription=subscription,
            skip_gone=not options.fail_on_data_loss,
        ):
            if chunk.count:
                yield _decoded(options, columns, chunk)


def _decoded(options: ReadOptions, columns: Sequence[str], chunk: RecordChunk) -> pa.RecordBatch:
    batch = decode_records(
        chunk.data, columns, properties=options.properties, broker_name=chunk.queue.broker_name
    )
    if batch.num_rows == chunk.count:
        return batch
    # A record of 5.x may hold many messages, some of them outside of what was asked for.
    offsets = decode_records(chunk.data, [_OFFSET_COLUMN]).column(0)
    is_inside = pc.and_(
        pc.greater_equal(offsets, chunk.start_offset), pc.less(offsets, chunk.next_offset)
    )
    return batch.filter(is_inside)


def pull_group(options: ReadOptions) -> str:
    """The group that pulls go by; brokers count by it and may refuse it."""
    return options.group_id or options.group_id_prefix


def average_size(reader: TopicReader, queue: QueueRef, offset: int) -> float:
    """Of the messages from an offset on, by the first of them that are there."""
    chunks = list(reader.records(queue, offset, offset + _SAMPLE_COUNT, skip_gone=True))
    count = sum(chunk.count for chunk in chunks)
    return sum(len(chunk.data) for chunk in chunks) / count if count else 1.0
