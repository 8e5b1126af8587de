"""What Spark calls: `write` in each task. The driver has nothing to commit or to abort.

The writer of a batch write is made once and goes to all tasks and all their attempts, so an id that
it makes up is that of the write. A stream has the id of its query, which stays the same when it is
restarted from its checkpoint.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from roquet.client.producer.producer import AsyncProducer
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import retried
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.options.writing import DeliveryMode, WriteOptions
from roquet.pipeline.sink.delivery import (
    Deliverer,
    RateLimit,
    SharedProducer,
    in_parallel,
    send_row,
    shared_producer,
    timeouts_of,
)
from roquet.pipeline.sink.requests import RequestBuilder, RequestLimits, SendRequest, TaskId
from roquet.pipeline.sink.rows import SingleRow, checked_rows, grouped, single_rows
from roquet.protocol.messages.message import Property

# Apache brokers find a message by its id a few milliseconds after they stored it. A second attempt
# waits once, so that it finds everything that the first one has sent.
_INDEX_DELAY_S: Final = 0.5
_ONLY_BATCH: Final = 0


class TaskAttempt(NamedTuple):
    """One attempt of one task."""

    task: TaskId
    number: int


@final
class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._write_id = options.write_id or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task_context()
        task = TaskId(self._write_id, _ONLY_BATCH, context.partitionId())
        write_rows(self._options, TaskAttempt(task, context.attemptNumber()), iterator)
        return WriterCommitMessage()


@final
class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task_context()
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None
        assert batch_id is not None
        task = TaskId(query_id, int(batch_id), context.partitionId())
        write_rows(self._options, TaskAttempt(task, context.attemptNumber()), iterator)
        return WriterCommitMessage()


def write_rows(
    options: WriteOptions, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch]
) -> int:
    """Writes all rows of a task and counts them.

    Raises BadRow or SendError, and Spark retries the task.
    """
    keep_freed_memory()
    task, attempt_number = attempt
    is_idempotent = options.delivery_mode is DeliveryMode.IDEMPOTENT
    if not is_idempotent:
        # Stored messages are not searched for, so a repetition must have other ids.
        task = task._replace(write_id=uuid4().hex)
    elif attempt_number:
        time.sleep(_INDEX_DELAY_S)
    sending = shared_producer(options.cluster, options.group_id)
    queues = _QueueLists(sending, options)
    namespace = options.cluster.namespace
    extra = {} if namespace is None else {Property.INSTANCE_ID: namespace}
    limits = RequestLimits(options.batch_size, options.batch_count)
    builder = RequestBuilder(task, limits, extra, options.id_columns or ())
    rate_limit = RateLimit(options.max_messages_per_second)
    first_row = 0
    with ThreadPoolExecutor(1) as sender:
        under_way: Future[None] | None = None
        for batch in batches:
            rows = checked_rows(batch, options.topic, task.place, first_row)
            shares, alone = grouped(rows, queues.of_topic)
            turn = task.partition + builder.request_count
            builder.check(rows, alone, first_row)
            requests = list(builder.requests(rows, shares, first_row))
            single = list(single_rows(rows, alone, task.place, first_row))
            deliver = partial(
                _deliver, sending, options, rate_limit, requests, turn, single, task.place
            )
            if under_way is not None:
                # Order is kept, and memory bounded: one batch is sent while the next is encoded.
                under_way.result()
            under_way = sender.submit(deliver)
            first_row += batch.num_rows
        if under_way is not None:
            under_way.result()
    return first_row


def _deliver(
    sending: SharedProducer,
    options: WriteOptions,
    rate_limit: RateLimit,
    requests: Sequence[SendRequest],
    turn: int,
    single: Sequence[SingleRow],
    place: str,
) -> None:
    timeouts = timeouts_of(options.cluster)

    async def work(producer: AsyncProducer) -> None:
        deliverer = Deliverer(
            producer,
            timeouts,
            rate_limit,
            checks_first=options.delivery_mode is DeliveryMode.IDEMPOTENT,
            turn=turn,
        )
        await deliverer.deliver(requests, options.in_flight)
        works = (partial(send_row, producer, row, place, timeouts, rate_limit) for row in single)
        await in_parallel(works, options.in_flight)

    sending.run(work)


@final
class _QueueLists:
    """The queues of topics at their first use in a task, so that its rows keep their order."""

    def __init__(self, sending: SharedProducer, options: WriteOptions) -> None:
        self._sending = sending
        self._timeouts = timeouts_of(options.cluster)
        self._known: dict[str, Sequence[QueueRef]] = {}

    def of_topic(self, topic: str) -> Sequence[QueueRef]:
        if topic not in self._known:
            self._known[topic] = retried(
                lambda: self._sending.run(
                    lambda producer: producer.queues(topic, timeout_s=self._timeouts.request_s)
                ),
                self._timeouts.total,
            )
        return self._known[topic]


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
