"""Batches that become readable as a whole: prepared by tasks, ended by the driver.

1. A task sends each row as a half message. A property of the message names the attempt.
2. The driver records which attempts count (`TransactionLog`). That commits the batch.
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
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final
from urllib.parse import quote, unquote

import msgspec

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
from roquet.pipeline.durable_files import create_once, make_directories, replace_file
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

# Batches that Spark can go back to: by default it keeps a hundred in a checkpoint.
BATCHES_KEPT: Final = 1_000
# Brokers drop undecided messages with the files they are in, after three days by default.
KEPT_S: Final = 14 * 24 * 3600
# How long a driver that has decided is assumed to be ending its messages; then it has ended.
ENDING_S: Final = 60.0
# Listing all files costs a little, so it is not done for each batch.
_PRUNED_EVERY: Final = 100
_FILE_NAME: Final = re.compile(r"(?P<batch>[0-9]+)\.(?:json|\w+\.aborted)")


class Mark(NamedTuple):
    """Which attempt of which task prepared a message: one of its properties."""

    write_id: str
    batch_id: int
    run_id: str
    token: str

    def __str__(self) -> str:
        return "/".join((quote(self.write_id, safe=""), str(self.batch_id), *self[2:]))


def parse_mark(text: str) -> Mark | None:
    """None if it is not a mark."""
    parts = text.split("/")
    if len(parts) != len(Mark._fields) or not parts[1].isdecimal():
        return None
    return Mark(unquote(parts[0]), int(parts[1]), parts[2], parts[3])


@final
class Decision(msgspec.Struct, frozen=True):
    """Messages of these tasks are committed, those of all others of the batch rolled back."""

    tokens: frozenset[str]
    # Those that may not be delivered yet.
    prepared: Sequence[PreparedMessage] = ()


def outcome(token: str, decision: Decision | None, *, is_aborted: bool) -> TransactionState:
    """The answer to a broker's check of a message."""
    if decision is not None:
        is_in = token in decision.tokens
        return TransactionState.COMMIT if is_in else TransactionState.ROLLBACK
    return TransactionState.ROLLBACK if is_aborted else TransactionState.UNKNOWN


@final
class TransactionLog:
    """How the transactions of batches ended: a file for each batch, created once.

        DIRECTORY/WRITE/12.json            batch 12 is committed: tasks that count, their messages
        DIRECTORY/WRITE/12.RUN.aborted     what this run prepared for batch 12 is rolled back

    WRITE is the id of the write, for a stream that of its query. The file of a batch appears whole
    or not at all, and a second writer finds the decision of the first. Delivered messages are
    removed from the file; the tasks stay, because brokers may still check messages of other
    attempts. Files of a stream are removed when no broker checks them any more and Spark cannot
    repeat their batches; those of a batch write with a `writeId` stay, because it may be run again
    at any time.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def decision(self, write_id: str, batch_id: int) -> Decision | None:
        """None while undecided."""
        try:
            data = self._path(write_id, batch_id).read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(data, type=Decision)

    def decide(self, write_id: str, batch_id: int, decision: Decision) -> Decision | None:
        """Records it. None, or the decision that was recorded before."""
        path = self._path(write_id, batch_id)
        make_directories(path.parent)
        try:
            create_once(path, msgspec.json.encode(decision))
        except FileExistsError:
            return self.decision(write_id, batch_id)
        return None

    def note_delivered(self, write_id: str, batch_id: int, decision: Decision) -> None:
        path = self._path(write_id, batch_id)
        replace_file(path, msgspec.json.encode(Decision(decision.tokens)))

    def abort(self, write_id: str, batch_id: int, run_id: str) -> None:
        path = self._aborted_path(write_id, batch_id, run_id)
        make_directories(path.parent)
        replace_file(path, b"")

    def prune(self, write_id: str, batch_id: int) -> None:
        """Remove files that a stream at this batch no longer needs; every hundredth call."""
        if batch_id % _PRUNED_EVERY:
            return
        oldest_s = time.time() - KEPT_S
        for path in list(self._path(write_id, 0).parent.iterdir()):
            found = _FILE_NAME.fullmatch(path.name)
            # Other names are drafts of a writer that was killed.
            is_past = found is None or int(found["batch"]) <= batch_id - BATCHES_KEPT
            if is_past and path.stat().st_mtime < oldest_s and not self._has_undelivered(path):
                path.unlink(missing_ok=True)

    def _has_undelivered(self, path: Path) -> bool:
        """Whether it has messages that may not be delivered yet."""
        if path.suffix != ".json":
            return False
        return bool(msgspec.json.decode(path.read_bytes(), type=Decision).prepared)

    def outcome_of(self, mark: Mark) -> TransactionState:
        is_aborted = self._aborted_path(mark.write_id, mark.batch_id, mark.run_id).exists()
        # Read last: it counts more.
        decision = self.decision(mark.write_id, mark.batch_id)
        return outcome(mark.token, decision, is_aborted=is_aborted)

    def is_being_ended(self, mark: Mark) -> bool:
        """Whether the driver that decided the batch may be ending its messages right now."""
        try:
            decided_s = self._path(mark.write_id, mark.batch_id).stat().st_mtime
        except FileNotFoundError:
            return False
        return time.time() - decided_s < ENDING_S

    def _path(self, write_id: str, batch_id: int) -> Path:
        return self._directory / quote(write_id, safe="") / f"{batch_id}.json"

    def _aborted_path(self, write_id: str, batch_id: int, run_id: str) -> Path:
        return self._path(write_id, batch_id).with_name(f"{batch_id}.{run_id}.aborted")


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
