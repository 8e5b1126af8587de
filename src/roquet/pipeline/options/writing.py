"""Options of format `rocketmq` for writing, in batch and from a stream."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import group, option
from roquet.pipeline.options.kinds import choice, count, size, text

# What brokers take in one request unless they are set up otherwise.
REQUEST_SIZE_MAX: Final = 4 << 20
REQUEST_COUNT_MAX: Final = 65_000


class DeliveryMode(StrEnum):
    """What a repeated task or batch leaves behind.

    `at_least_once`   All rows are messages when the write ends well. What was sent by a task that
                      failed, or in a batch that was repeated, is there again with another id.
                      Costs nothing.
    `idempotent`      The same, and a piece of rows that is there already is not sent again: each
                      row is one message, however often its task or batch is repeated, as long as
                      the repetition has the same rows in the same order and the same options. A
                      piece that differs is sent, so no row is ever missing. Messages of a task
                      that failed for good stay. Costs a question to a broker for each request. Not
                      with speculative tasks, of which two may ask before one sends; not with
                      delays.
    `transactional`   All rows of a batch become messages that can be read, or none. Rows are sent
                      one by one and kept back by brokers, until the driver ends them: two requests
                      a row, and a file for each batch in the directory `transactionLog`. Not with
                      order keys or delays.
    """

    AT_LEAST_ONCE = "at_least_once"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    cluster: ClusterOptions = group(ClusterOptions)
    topic: str | None = option(
        "topic", text, "the topic of rows that have no column `topic`, or null in it", None
    )
    delivery_mode: DeliveryMode = option(
        "deliveryMode",
        choice(DeliveryMode),
        "what a repeated task or batch leaves behind; see below",
        DeliveryMode.AT_LEAST_ONCE,
    )
    write_id: str | None = option(
        "writeId",
        text,
        "names a batch write, so that the same write can be run again and is not done twice;"
        " for `idempotent` and `transactional`, a stream has its own",
        None,
    )
    transaction_log: str | None = option(
        "transactionLog",
        text,
        "a directory that the driver and all executors share, where it is written down how"
        " transactions ended; `transactional` needs it",
        None,
    )
    group_id: str = option(
        "groupId",
        text,
        "the producer group; transactions are asked about by it",
        "roquet-spark-sink",
    )
    batch_size: int = option(
        "batchSize", size, "the most bytes of one request", 512 << 10, shown="512k"
    )
    batch_count: int = option("batchCount", count, "the most messages of one request", 1024)
    in_flight: int = option("inFlight", count, "requests of one task that are under way", 16)
    max_messages_per_second: int | None = option(
        "maxMessagesPerSecond",
        count,
        "the most messages that one task sends in a second, on average",
        None,
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if self.batch_size > REQUEST_SIZE_MAX:
            raise BadOption("batchSize", f"brokers take at most {REQUEST_SIZE_MAX} bytes")
        if self.batch_count > REQUEST_COUNT_MAX:
            raise BadOption("batchCount", f"brokers take at most {REQUEST_COUNT_MAX} messages")
        is_transactional = self.delivery_mode is DeliveryMode.TRANSACTIONAL
        if is_transactional and self.transaction_log is None:
            raise BadOption("transactionLog", "deliveryMode 'transactional' needs a directory")
        if not is_transactional and self.transaction_log is not None:
            raise BadOption("transactionLog", "it goes with deliveryMode 'transactional' only")
        if self.write_id is not None and self.delivery_mode is DeliveryMode.AT_LEAST_ONCE:
            raise BadOption("writeId", "at_least_once keeps no account of what was written")
