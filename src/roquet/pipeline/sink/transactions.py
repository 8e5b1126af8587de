"""Batches that become readable as a whole: prepared by tasks, ended by the driver.

1. A task prepares each row: brokers keep it back. A property of the message names the attempt.
2. The driver writes down which attempts count (`transaction_log.py`). That is the moment at which
   the batch is committed.
3. It tells brokers to deliver the messages of these attempts.

A driver that dies before 2 leaves nothing that can be read; its batch is prepared again, and the
older messages are rolled back. If it dies between 2 and 3, the batch that is repeated prepares
nothing, and what is not delivered yet is delivered then. Whatever a broker was not told it asks
for: tasks of any write with the same `groupId` and `transactionLog` answer, from the log. What
nobody decides is given up by brokers after a time, and was never readable.

A broker of Apache delivers twice what it is told twice, and it asks about whatever is old enough,
also while 3 is under way, and 5.x even for seconds afterwards. So it is answered "unknown" about
what a driver is telling it or what can be read already, and asks again.
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
    Pace,
    Patience,
    attempted,
    in_parallel,
    is_stored_anywhere,
    outlet,
    patience_of,
)
from roquet.pipeline.sink.rows import SingleRow, row_error
from roquet.pipeline.sink.transaction_log import Decision, Mark, TransactionLog, parse_mark

log = logging.getLogger(__name__)

T = TypeVar("T")

MARK: Final = "SPARK_ATTEMPT"

_LOOKED_EVERY_S: Final = 0.2


@final
class TransactionOutlet(BlockingTwin[AsyncTransactionProducer]):
    """A transaction producer whose loop other threads can give work to."""

    def __init__(self, cluster: ClusterOptions, group: str, check: Check | None) -> None:
        producer = AsyncTransactionProducer(
            cluster.name_server,
            group,
            check=check,
            namespace=cluster.namespace,
            credentials=credentials_of(cluster),
            tls=tls_of(cluster),
            # Not even once by itself: see `_prepare`.
            retry_count=0,
        )
        super().__init__(producer, "transactional sink")

    def run(self, work: Callable[[AsyncTransactionProducer], Coroutine[Any, Any, T]]) -> T:
        return self._thread.run(work(self._twin))


@lru_cache(maxsize=16)
def answering_outlet(cluster: ClusterOptions, group: str, directory: str) -> TransactionOutlet:
    """Open, kept as long as the process, and answering brokers from the log."""
    transactions = TransactionLog(directory)

    def check(message: ReceivedMessage) -> TransactionState:
        mark = parse_mark(message.properties.get(MARK, ""))
        if mark is None:
            return TransactionState.UNKNOWN
        state = transactions.outcome_of(mark)
        if state is not TransactionState.COMMIT:
            return state
        if transactions.is_being_told(mark) or may_be_readable(cluster, group, message):
            return TransactionState.UNKNOWN
        return state

    opened = TransactionOutlet(cluster, group, check)
    opened.open()
    return opened


def may_be_readable(cluster: ClusterOptions, group: str, message: ReceivedMessage) -> bool:
    """Unless all brokers of its topic say that they do not have it."""
    patience = patience_of(cluster)

    async def ask(producer: AsyncProducer) -> bool:
        queues = await producer.queues(message.topic, timeout_s=patience.request_s)
        return await is_stored_anywhere(producer, queues, message.message_id, patience)

    try:
        return outlet(cluster, group).run(ask)
    except ClientError as error:
        log.info("a broker that asks about %s has to ask again: %s", message.message_id, error)
        return True


def prepare_rows(
    transactions: TransactionOutlet,
    rows: Iterable[SingleRow],
    mark: Mark,
    options: WriteOptions,
    pace: Pace,
    place: str,
) -> list[PreparedMessage]:
    """Returns when brokers have all of them and keep them back; if not, none is kept."""
    patience = patience_of(options.cluster)

    async def work(producer: AsyncTransactionProducer) -> list[PreparedMessage]:
        prepared: list[PreparedMessage] = []
        works = (
            partial(_prepare, producer, row, mark, patience, pace, place, prepared) for row in rows
        )
        try:
            await in_parallel(works, options.in_flight)
        except Exception:
            await _roll_back(producer, prepared, patience)
            raise
        return prepared

    return transactions.run(work)


async def _prepare(
    producer: AsyncTransactionProducer,
    row: SingleRow,
    mark: Mark,
    patience: Patience,
    pace: Pace,
    place: str,
    prepared: list[PreparedMessage],
) -> None:
    message = row.message
    message.properties = {**message.properties, MARK: str(mark)}

    async def attempt(_count: int) -> PreparedMessage:
        return await producer.prepare(message, timeout_s=patience.request_s)

    await pace.admit(1)
    try:
        # One that may or may not be there would be committed by its mark, besides its repetition.
        # So it costs the attempt, and the next one has another mark.
        prepared.append(await attempted(attempt, patience, SendUnknown))
    except BadArgument as error:
        raise row_error(place, row.number, "properties", str(error)) from None


def roll_back(options: WriteOptions, prepared: Sequence[PreparedMessage]) -> None:
    """As far as brokers can be told; the others will ask."""
    patience = patience_of(options.cluster)
    if prepared:
        with TransactionOutlet(options.cluster, options.group_id, None) as transactions:
            transactions.run(lambda producer: _roll_back(producer, prepared, patience))


async def _roll_back(
    producer: AsyncTransactionProducer, prepared: Sequence[PreparedMessage], patience: Patience
) -> None:
    await producer.end(prepared, TransactionState.ROLLBACK, timeout_s=patience.request_s)


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
        log.info("batch %d of %s was committed before", batch_id, write_id)
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
    """Takes back what tasks prepared, by their tokens, unless it is committed.

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
    """Those that could not be ended, or of which that is not known."""
    if not prepared:
        return ()
    timeout_s = options.cluster.request_timeout.total_seconds()
    with TransactionOutlet(options.cluster, options.group_id, None) as transactions:
        return transactions.run(
            lambda producer: producer.end(prepared, TransactionState.COMMIT, timeout_s=timeout_s)
        )


def _end_what_is_missing(
    options: WriteOptions, prepared: Sequence[PreparedMessage], what: str
) -> None:
    """A broker may deliver twice what is ended twice, so each is looked for first.

    And for a while: an end that was not confirmed in time may wait at a broker that is busy, also
    that of a driver that died. Brokers give up what waited longer than anybody waits for it.
    """
    patience = patience_of(options.cluster)

    async def missing(producer: AsyncProducer) -> Sequence[PreparedMessage]:
        loop = asyncio.get_running_loop()
        settled_s = loop.time() + patience.request_s
        left = await _not_stored(producer, prepared, patience, options.in_flight)
        while left and loop.time() < settled_s:
            await asyncio.sleep(_LOOKED_EVERY_S)
            left = await _not_stored(producer, left, patience, options.in_flight)
        return left

    try:
        left = outlet(options.cluster, options.group_id).run(missing)
    except ClientError as error:
        raise NotAllEnded(what, len(prepared), str(error)) from None
    unended = _end(options, left)
    if unended:
        raise NotAllEnded(what, len(unended), "brokers could not be told")


async def _not_stored(
    producer: AsyncProducer,
    prepared: Sequence[PreparedMessage],
    patience: Patience,
    in_flight: int,
) -> Sequence[PreparedMessage]:
    """Those that cannot be read. Raises ClientError."""
    left: list[PreparedMessage] = []

    async def look(each: PreparedMessage) -> None:
        def is_stored(_count: int) -> Coroutine[Any, Any, bool]:
            return producer.is_stored(each.receipt.queue, each.id, timeout_s=patience.request_s)

        if not await attempted(is_stored, patience):
            left.append(each)

    await in_parallel((partial(look, each) for each in prepared), in_flight)
    return left
