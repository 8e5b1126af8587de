"""Batches that become readable as a whole: prepared by tasks, ended by the driver.

1. A task sends each row as a half message. A property of the message names the attempt.
2. The driver records which attempts count (`transaction_log.py`). That commits the batch.
3. It ends the messages of these attempts with a commit, and brokers deliver them.

A driver that ends before 2 leaves nothing that can be read; its batch is prepared again, and the
older messages are rolled back. If it ends between 2 and 3, the repeated batch prepares nothing, and
what is not delivered yet is delivered then. Brokers check every message that was not ended: tasks
of any write with the same `groupId` and `transactionLog` answer, from the log. Messages that are
never decided are dropped by brokers after a time, and were never readable.

An Apache broker delivers a message twice that is ended twice, and it checks every message that is
old enough, also during 3, and 5.x even for seconds afterwards. So the answer is "unknown" for
messages that a driver is ending or that can be read already, and the broker checks again.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeVar, final

from roquet.client.blocking.twin import BlockingTwin
from roquet.client.errors import BadArgument, ClientError, SendUnknown
from roquet.client.hooks import TransactionState
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.transaction_producer import (
    AsyncTransactionProducer,
    Check,
    PreparedMessage,
)
from roquet.client.received import ReceivedMessage
from roquet.pipeline.connections import credentials_of, tls_of
from roquet.pipeline.errors import NotAllEnded
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.writing import WriteOptions
from roquet.pipeline.sink.delivery import (
    RateLimit,
    SendTimeouts,
    attempted,
    in_parallel,
    is_stored_anywhere,
    shared_producer,
    timeouts_of,
)
from roquet.pipeline.sink.rows import SingleRow, row_error
from roquet.pipeline.sink.transaction_log import Decision, Mark, TransactionLog, parse_mark

log = logging.getLogger(__name__)

T = TypeVar("T")

MARK: Final = "SPARK_ATTEMPT"

_SEARCH_INTERVAL_S: Final = 0.2


@final
class SharedTransactionProducer(BlockingTwin[AsyncTransactionProducer]):
    """A transaction producer whose event loop runs work of other threads."""

    def __init__(self, cluster: ClusterOptions, group: str, check: Check | None) -> None:
        producer = AsyncTransactionProducer(
            cluster.name_server,
            group,
            check=check,
            namespace=cluster.namespace,
            credentials=credentials_of(cluster),
            tls=tls_of(cluster),
            # It must not retry by itself: see `_prepare`.
            retry_count=0,
        )
        super().__init__(producer, "transactional sink")

    def run(self, work: Callable[[AsyncTransactionProducer], Coroutine[Any, Any, T]]) -> T:
        return self._thread.run(work(self._twin))


@lru_cache(maxsize=16)
def answering_producer(
    cluster: ClusterOptions, group: str, directory: str
) -> SharedTransactionProducer:
    """Open as long as the process runs, answering checks of brokers from the log."""
    transactions = TransactionLog(directory)

    def check(message: ReceivedMessage) -> TransactionState:
        mark = parse_mark(message.properties.get(MARK, ""))
        if mark is None:
            return TransactionState.UNKNOWN
        state = transactions.outcome_of(mark)
        if state is not TransactionState.COMMIT:
            return state
        if transactions.is_being_ended(mark) or may_be_readable(cluster, group, message):
            return TransactionState.UNKNOWN
        return state

    opened = SharedTransactionProducer(cluster, group, check)
    opened.open()
    return opened


def may_be_readable(cluster: ClusterOptions, group: str, message: ReceivedMessage) -> bool:
    """Unless all brokers of its topic report that they do not have it."""
    timeouts = timeouts_of(cluster)

    async def ask(producer: AsyncProducer) -> bool:
        queues = await producer.queues(message.topic, timeout_s=timeouts.request_s)
        return await is_stored_anywhere(producer, queues, message.message_id, timeouts)

    try:
        return shared_producer(cluster, group).run(ask)
    except ClientError as error:
        log.info("check of message %s is answered later: %s", message.message_id, error)
        return True


def prepare_rows(
    transactions: SharedTransactionProducer,
    rows: Iterable[SingleRow],
    mark: Mark,
    options: WriteOptions,
    rate_limit: RateLimit,
    place: str,
) -> list[PreparedMessage]:
    """Returns when brokers have all of them as half messages; on an error, none is left."""
    timeouts = timeouts_of(options.cluster)

    async def work(producer: AsyncTransactionProducer) -> list[PreparedMessage]:
        prepared: list[PreparedMessage] = []
        works = (
            partial(_prepare, producer, row, mark, timeouts, rate_limit, place, prepared)
            for row in rows
        )
        try:
            await in_parallel(works, options.in_flight)
        except Exception:
            await _roll_back(producer, prepared, timeouts)
            raise
        return prepared

    return transactions.run(work)


async def _prepare(
    producer: AsyncTransactionProducer,
    row: SingleRow,
    mark: Mark,
    timeouts: SendTimeouts,
    rate_limit: RateLimit,
    place: str,
    prepared: list[PreparedMessage],
) -> None:
    message = row.message
    message.properties = {**message.properties, MARK: str(mark)}

    async def attempt(_count: int) -> PreparedMessage:
        return await producer.prepare(message, timeout_s=timeouts.request_s)

    await rate_limit.admit(1)
    try:
        # One that may or may not be stored would be committed by its mark, besides its retry. So it
        # fails the attempt, and the next one has another mark.
        prepared.append(await attempted(attempt, timeouts, SendUnknown))
    except BadArgument as error:
        raise row_error(place, row.number, "properties", str(error)) from None


def roll_back(options: WriteOptions, prepared: Sequence[PreparedMessage]) -> None:
    """As far as brokers are reachable; the others check later."""
    timeouts = timeouts_of(options.cluster)
    if prepared:
        with SharedTransactionProducer(options.cluster, options.group_id, None) as transactions:
            transactions.run(lambda producer: _roll_back(producer, prepared, timeouts))


async def _roll_back(
    producer: AsyncTransactionProducer, prepared: Sequence[PreparedMessage], timeouts: SendTimeouts
) -> None:
    await producer.end(prepared, TransactionState.ROLLBACK, timeout_s=timeouts.request_s)


def commit_batch(
    options: WriteOptions,
    write_id: str,
    batch_id: int,
    tokens: frozenset[str],
    prepared: Sequence[PreparedMessage],
) -> None:
    """Decides, and returns when all messages are delivered. Raises NotAllEnded."""
    assert options.transaction_log is not None
    transactions = TransactionLog(options.transaction_log)
    decision = Decision(tokens, prepared)
    older = transactions.decide(write_id, batch_id, decision)
    if older is None:
        left = _end(options, prepared)
    else:
        log.info("batch %d of %s is already committed", batch_id, write_id)
        roll_back(options, [] if tokens <= older.tokens else prepared)
        decision, left = older, older.prepared
    if left:
        _end_what_is_missing(options, left, f"batch {batch_id} of {write_id}")
    transactions.note_delivered(write_id, batch_id, decision)


def abort_batch(
    options: WriteOptions,
    write_id: str,
    batch_id: int,
    run_id: str,
    prepared_by: Mapping[str, Sequence[PreparedMessage]],
) -> None:
    """Rolls back what tasks prepared, by their tokens, unless it is committed.

    Spark aborts a write whose commit failed, too, and that may have been after its decision.
    """
    assert options.transaction_log is not None
    transactions = TransactionLog(options.transaction_log)
    decision = transactions.decision(write_id, batch_id)
    if decision is None:
        transactions.abort(write_id, batch_id, run_id)
    committed = frozenset[str]() if decision is None else decision.tokens
    roll_back(
        options,
        [
            each
            for token, prepared in prepared_by.items()
            if token not in committed
            for each in prepared
        ],
    )


def _end(options: WriteOptions, prepared: Sequence[PreparedMessage]) -> Sequence[PreparedMessage]:
    """Those that could not be ended, or whose end is not confirmed."""
    if not prepared:
        return ()
    timeout_s = options.cluster.request_timeout.total_seconds()
    with SharedTransactionProducer(options.cluster, options.group_id, None) as transactions:
        return transactions.run(
            lambda producer: producer.end(prepared, TransactionState.COMMIT, timeout_s=timeout_s)
        )


def _end_what_is_missing(
    options: WriteOptions, prepared: Sequence[PreparedMessage], what: str
) -> None:
    """A broker may deliver twice what is ended twice, so each message is searched for first.

    And for a while: an end that was not confirmed in time may wait at a busy broker, also one of a
    driver that ended. Brokers drop requests that waited longer than their timeout.
    """
    timeouts = timeouts_of(options.cluster)

    async def missing(producer: AsyncProducer) -> Sequence[PreparedMessage]:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeouts.request_s
        left = await _not_stored(producer, prepared, timeouts, options.in_flight)
        while left and loop.time() < deadline_s:
            await asyncio.sleep(_SEARCH_INTERVAL_S)
            left = await _not_stored(producer, left, timeouts, options.in_flight)
        return left

    try:
        left = shared_producer(options.cluster, options.group_id).run(missing)
    except ClientError as error:
        raise NotAllEnded(what, len(prepared), str(error)) from None
    unended = _end(options, left)
    if unended:
        raise NotAllEnded(what, len(unended), "brokers could not be reached")


async def _not_stored(
    producer: AsyncProducer,
    prepared: Sequence[PreparedMessage],
    timeouts: SendTimeouts,
    in_flight: int,
) -> Sequence[PreparedMessage]:
    """Those that are not readable. Raises ClientError."""
    left: list[PreparedMessage] = []

    async def look(each: PreparedMessage) -> None:
        def is_stored(_count: int) -> Coroutine[Any, Any, bool]:
            return producer.is_stored(each.receipt.queue, each.id, timeout_s=timeouts.request_s)

        if not await attempted(is_stored, timeouts):
            left.append(each)

    await in_parallel((partial(look, each) for each in prepared), in_flight)
    return left
