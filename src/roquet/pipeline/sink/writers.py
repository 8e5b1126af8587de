"""What Spark calls: `write` in each task, `commit` or `abort` in the driver.

The writer of a batch write is made once and goes to all tasks, and to all their attempts; so a
name that it gives itself is that of the write. A stream has the name of its query, which stays
the same when it is started again from its checkpoint; its driver makes a writer anew for each
end of a batch, and learns what tasks know from their reports.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.transaction_producer import PreparedMessage
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import retried
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.options.writing import (
    REQUEST_COUNT_MAX,
    REQUEST_SIZE_MAX,
    DeliveryMode,
    WriteOptions,
)
from roquet.pipeline.sink.delivery import (
    Deliverer,
    Outlet,
    Pace,
    in_parallel,
    outlet,
    patience_of,
    send_row,
)
from roquet.pipeline.sink.requests import Cuts, Cutter, SendPiece, TaskId
from roquet.pipeline.sink.rows import SingleRow, checked_rows, single_rows, sorted_out
from roquet.pipeline.sink.transaction_log import Mark, TransactionLog
from roquet.pipeline.sink.transactions import (
    MARK,
    abort_batch,
    answering_outlet,
    commit_batch,
    prepare_rows,
    roll_back,
)
from roquet.protocol.messages.message import Property

# Brokers of Apache find a message by its id a few milliseconds after they stored it. An attempt
# that comes after another waits once, so that it finds all that the other left.
_SETTLING_S: Final = 0.5
_ONLY_BATCH: Final = 0


@dataclass(frozen=True)
class WriteReport(WriterCommitMessage):
    """What a task tells the driver."""

    write_id: str
    run_id: str
    token: str
    row_count: int = 0
    prepared: Sequence[PreparedMessage] = ()


class TaskAttempt(NamedTuple):
    """One attempt of one task."""

    task: TaskId
    run_id: str
    number: int


@final
class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._run_id = uuid4().hex
        self._write_id = options.write_id or self._run_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task_context()
        task = TaskId(self._write_id, _ONLY_BATCH, context.partitionId())
        return write_rows(
            self._options, TaskAttempt(task, self._run_id, context.attemptNumber()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, self._write_id, _ONLY_BATCH, _reports(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, self._write_id, _ONLY_BATCH, self._run_id, _reports(messages))


@final
class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._run_id = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _task_context()
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None
        assert batch_id is not None
        task = TaskId(query_id, int(batch_id), context.partitionId())
        return write_rows(
            self._options, TaskAttempt(task, self._run_id, context.attemptNumber()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        reports = _reports(messages)
        if reports:
            _commit(self._options, reports[0].write_id, batchId, reports)
            _prune(self._options, reports[0].write_id, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        reports = _reports(messages)
        # Tasks that failed have taken back themselves what they prepared.
        if reports:
            first = reports[0]
            _abort(self._options, first.write_id, batchId, first.run_id, reports)


def write_rows(
    options: WriteOptions, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch]
) -> WriteReport:
    """All rows of a task. Raises BadRow or SendError, and Spark tries the task again."""
    keep_freed_memory()
    if options.delivery_mode is DeliveryMode.TRANSACTIONAL:
        return _prepare(options, attempt, batches)
    return _send(options, attempt, batches)


def _send(
    options: WriteOptions, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch]
) -> WriteReport:
    task, _, attempt_number = attempt
    is_idempotent = options.delivery_mode is DeliveryMode.IDEMPOTENT
    if not is_idempotent:
        # Nobody looks for what is there, so what is sent again must have other ids.
        task = task._replace(write_id=uuid4().hex)
    elif attempt_number:
        time.sleep(_SETTLING_S)
    sending = outlet(options.cluster, options.group_id)
    queues = _QueueLists(sending, options)
    namespace = options.cluster.namespace
    extra = {} if namespace is None else {Property.INSTANCE_ID: namespace}
    cutter = Cutter(task, Cuts(options.batch_size, options.batch_count), extra)
    pace = Pace(options.max_messages_per_second)
    first_row = 0
    with ThreadPoolExecutor(1) as sender:
        under_way: Future[None] | None = None
        for batch in batches:
            rows = checked_rows(batch, options.topic, task.place, first_row)
            shares, alone = sorted_out(rows, queues.of_topic)
            turn = task.partition + cutter.piece_count
            cutter.check(rows, alone, first_row)
            pieces = list(cutter.pieces(rows, shares, first_row))
            single = list(single_rows(rows, alone, task.place, first_row))
            deliver = partial(_deliver, sending, options, pace, pieces, turn, single, task.place)
            if under_way is not None:
                # Order is kept, and memory bounded: one batch is sent while the next is made.
                under_way.result()
            under_way = sender.submit(deliver)
            first_row += batch.num_rows
        if under_way is not None:
            under_way.result()
    return WriteReport(task.write_id, attempt.run_id, uuid4().hex, first_row)


def _deliver(
    sending: Outlet,
    options: WriteOptions,
    pace: Pace,
    pieces: Sequence[SendPiece],
    turn: int,
    single: Sequence[SingleRow],
    place: str,
) -> None:
    patience = patience_of(options.cluster)

    async def work(producer: AsyncProducer) -> None:
        deliverer = Deliverer(
            producer,
            patience,
            pace,
            looks_first=options.delivery_mode is DeliveryMode.IDEMPOTENT,
            turn=turn,
        )
        await deliverer.deliver(pieces, options.in_flight)
        works = (partial(send_row, producer, row, place, patience, pace) for row in single)
        await in_parallel(works, options.in_flight)

    sending.run(work)


def _prepare(
    options: WriteOptions, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch]
) -> WriteReport:
    task = attempt.task
    assert options.transaction_log is not None
    mark = Mark(task.write_id, task.batch_id, attempt.run_id, uuid4().hex)
    report = WriteReport(mark.write_id, mark.run_id, mark.token)
    if TransactionLog(options.transaction_log).decision(mark.write_id, mark.batch_id) is not None:
        # Committed before: the driver delivers what is left of it.
        for _ in batches:
            pass
        return report
    transactions = answering_outlet(options.cluster, options.group_id, options.transaction_log)
    cutter = Cutter(task, Cuts(REQUEST_SIZE_MAX, REQUEST_COUNT_MAX), {MARK: str(mark)})
    pace = Pace(options.max_messages_per_second)
    prepared: list[PreparedMessage] = []
    first_row = 0
    try:
        for batch in batches:
            rows = checked_rows(batch, options.topic, task.place, first_row)
            every = np.arange(rows.num_rows)
            cutter.check(rows, every, first_row)
            single = single_rows(rows, every, task.place, first_row)
            prepared += prepare_rows(transactions, single, mark, options, pace, task.place)
            first_row += batch.num_rows
    except Exception:
        roll_back(options, prepared)
        raise
    return WriteReport(mark.write_id, mark.run_id, mark.token, first_row, tuple(prepared))


@final
class _QueueLists:
    """The queues of topics, as they are when a task asks first: its rows keep their order."""

    def __init__(self, sending: Outlet, options: WriteOptions) -> None:
        self._sending = sending
        self._patience = patience_of(options.cluster)
        self._known: dict[str, Sequence[QueueRef]] = {}

    def of_topic(self, topic: str) -> Sequence[QueueRef]:
        if topic not in self._known:
            self._known[topic] = retried(
                lambda: self._sending.run(
                    lambda producer: producer.queues(topic, timeout_s=self._patience.request_s)
                ),
                self._patience.total,
            )
        return self._known[topic]


def _commit(
    options: WriteOptions, write_id: str, batch_id: int, reports: Sequence[WriteReport]
) -> None:
    if options.delivery_mode is DeliveryMode.TRANSACTIONAL:
        tokens = frozenset(report.token for report in reports)
        prepared = [each for report in reports for each in report.prepared]
        commit_batch(options, write_id, batch_id, tokens, prepared)


def _prune(options: WriteOptions, write_id: str, batch_id: int) -> None:
    if options.delivery_mode is DeliveryMode.TRANSACTIONAL:
        assert options.transaction_log is not None
        TransactionLog(options.transaction_log).prune(write_id, batch_id)


def _abort(
    options: WriteOptions,
    write_id: str,
    batch_id: int,
    run_id: str,
    reports: Sequence[WriteReport],
) -> None:
    if options.delivery_mode is DeliveryMode.TRANSACTIONAL:
        prepared_by = {report.token: report.prepared for report in reports}
        abort_batch(options, write_id, batch_id, run_id, prepared_by)


def _reports(messages: Sequence[Any]) -> list[WriteReport]:
    """Of tasks that succeeded."""
    return [each for each in messages if isinstance(each, WriteReport)]


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
