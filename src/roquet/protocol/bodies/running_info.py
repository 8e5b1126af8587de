"""What a consumer says about itself when an operator asks through the broker (307, 309)."""

from enum import StrEnum

from msgspec import field

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.queue_table import QueueTable
from roquet.protocol.bodies.subscription_data import SubscriptionData
from roquet.protocol.fields import Int32, Int64


class ConsumeResult(StrEnum):
    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class DirectConsumeResult(Body, kw_only=True):
    """Reply to 309: how the listener took the message it was given."""

    auto_commit: bool = always(True)
    consume_result: str | None = None  # a `ConsumeResult`
    order: bool = always(False)
    remark: str | None = None
    spent_time_mills: Int64 = always(0)


class ProcessQueueInfo(Body, kw_only=True):
    """One queue that the consumer owns."""

    cached_msg_count: Int32 = always(0)
    cached_msg_max_offset: Int64 = always(0)
    cached_msg_min_offset: Int64 = always(0)
    cached_msg_size_in_mib: Int32 = always(0, name="cachedMsgSizeInMiB")
    commit_offset: Int64 = always(0)
    dropped: bool = always(False, name="droped")  # Java's spelling
    last_consume_timestamp: Int64 = always(0)
    last_lock_timestamp: Int64 = always(0)
    last_pull_timestamp: Int64 = always(0)
    locked: bool = always(False)
    transaction_msg_count: Int32 = always(0)
    transaction_msg_max_offset: Int64 = always(0)
    transaction_msg_min_offset: Int64 = always(0)
    try_unlock_times: Int64 = always(0)


class PopProcessQueueInfo(Body, kw_only=True):
    dropped: bool = always(False, name="droped")  # Java's spelling, here too
    last_pop_timestamp: Int64 = always(0)
    wait_ack_count: Int32 = always(0)


class ConsumeStatus(Body, kw_only=True):
    """One topic: times in milliseconds, rates per second."""

    consume_failed_msgs: Int64 = always(0)
    consume_failed_tps: float = always(0.0, name="consumeFailedTPS")
    consume_ok_tps: float = always(0.0, name="consumeOKTPS")
    consume_rt: float = always(0.0, name="consumeRT")
    pull_rt: float = always(0.0, name="pullRT")
    pull_tps: float = always(0.0, name="pullTPS")


class ConsumerRunningInfo(Body, kw_only=True):
    """Reply to 307."""

    jstack: str | None = None
    mq_pop_table: QueueTable[PopProcessQueueInfo] | None = None  # 5.x only
    mq_table: QueueTable[ProcessQueueInfo] = always(QueueTable())
    properties: dict[str, str] = always({})
    status_table: dict[str, ConsumeStatus] = always({})
    subscription_set: list[SubscriptionData] = always([])
    user_consumer_info: dict[str, str] = field(default_factory=dict)
