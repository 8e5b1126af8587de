"""Options of format `rocketmq` for writing, in batch and from a stream."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.cluster import ClusterOptions, check_group_option
from roquet.pipeline.options.declaring import COUNT, NAMES, SIZE, group, option
from roquet.settings.options import TEXT, one_of

# What brokers accept in one request by default.
REQUEST_SIZE_MAX: Final = 4 << 20
REQUEST_COUNT_MAX: Final = 65_000


class DeliveryMode(StrEnum):
    """What the repetition of a task or batch results in.

    `at_least_once`   All rows are messages when the write succeeds. What a failed task, or a
                      repeated batch, has sent before is stored twice, with different ids. Costs
                      nothing.
    `idempotent`      The same, and a row that is already stored is not sent again: each row is one
                      message, however often its task or batch is repeated, with whatever tasks,
                      order and options. A row is identified by `idColumn` within its batch or
                      write. Messages of a task that failed for good stay. Costs a query to a broker
                      for each row. Not with speculative tasks, of which two may check before one
                      sends; not with delays.
    """

    AT_LEAST_ONCE = "at_least_once"
    IDEMPOTENT = "idempotent"


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    cluster: ClusterOptions = group(ClusterOptions)
    topic: str | None = option(
        "topic", TEXT, "the topic of rows without a column `topic`, or with null in it", None
    )
    delivery_mode: DeliveryMode = option(
        "deliveryMode",
        one_of(DeliveryMode, ignore_case=True),
        "what the repetition of a task or batch results in; see below",
        DeliveryMode.AT_LEAST_ONCE,
    )
    id_columns: tuple[str, ...] | None = option(
        "idColumn",
        NAMES,
        "the column, or the columns, whose values identify a row of a batch;"
        " required for `idempotent`",
        None,
    )
    write_id: str | None = option(
        "writeId",
        TEXT,
        "identifies a batch write, so that it can be repeated without duplicates;"
        " for `idempotent`, a stream has its own",
        None,
    )
    group_id: str = option("groupId", TEXT, "the producer group", "roquet-spark-sink")
    batch_size: int = option(
        "batchSize", SIZE, "maximum number of bytes of one request", 512 << 10, shown="512k"
    )
    batch_count: int = option(
        "batchCount", COUNT, "maximum number of messages of one request", 1024
    )
    in_flight: int = option("inFlight", COUNT, "concurrent requests of one task", 16)
    max_messages_per_second: int | None = option(
        "maxMessagesPerSecond",
        COUNT,
        "maximum number of messages that one task sends per second, on average",
        None,
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        check_group_option("groupId", self.group_id)
        if self.batch_size > REQUEST_SIZE_MAX:
            raise BadOption("batchSize", f"brokers accept at most {REQUEST_SIZE_MAX} bytes")
        if self.batch_count > REQUEST_COUNT_MAX:
            raise BadOption("batchCount", f"brokers accept at most {REQUEST_COUNT_MAX} messages")
        is_idempotent = self.delivery_mode is DeliveryMode.IDEMPOTENT
        if is_idempotent and self.id_columns is None:
            raise BadOption(
                "idColumn",
                "required for deliveryMode 'idempotent': name the columns that identify a row, such"
                " as 'brokerName,queueId,queueOffset' for rows of one topic",
            )
        if not is_idempotent and self.id_columns is not None:
            raise BadOption("idColumn", "only for deliveryMode 'idempotent'")
        if not is_idempotent and self.write_id is not None:
            raise BadOption("writeId", "only for deliveryMode 'idempotent'")
