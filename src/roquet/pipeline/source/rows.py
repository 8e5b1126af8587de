"""From ranges of queues to Arrow batches: what a task does, and what needs no Spark."""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from roquet.client.blocking.reader import TopicReader
from roquet.client.group.subscriptions import subscription_of
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.client.reader.frames import decode_chunk
from roquet.pipeline.connections import (
    UNANSWERED,
    is_missing_topic,
    stays_missing,
    topic_reader,
)
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.planning import QueueRange
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

# The sample of messages whose average size is taken.
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
        for chunk in _chunks(reader, options, each, subscription):
            if chunk.count:
                yield decode_chunk(chunk, columns, options.properties)


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


def pull_group(options: ReadOptions) -> str:
    """The group of pulls; brokers keep statistics by it and may refuse it."""
    return options.group_id or options.group_id_prefix


def average_size(reader: TopicReader, queue: QueueRef, offset: int) -> float:
    """Average size of the messages from an offset on, by the first of them."""
    chunks = list(reader.records(queue, offset, offset + _SAMPLE_COUNT, skip_gone=True))
    count = sum(chunk.count for chunk in chunks)
    return sum(len(chunk.data) for chunk in chunks) / count if count else 1.0
