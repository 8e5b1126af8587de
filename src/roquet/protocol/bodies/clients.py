"""Clients: heartbeats (34), subscriptions (46, 345), connections (203, 204, 328), and what a
consumer reports when an operator asks it through the broker (307, 309).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import field

from roquet.protocol.bodies.body import Body, QueueTable, always
from roquet.protocol.fields import Int32, Int64


class SubscriptionData(Body, kw_only=True):
    class_filter_mode: bool = always(False)
    # Hashes of the tags. Some clients write them unsigned.
    code_set: list[Int64] = always([])
    expression_type: str = always("TAG")
    sub_string: str | None = None
    sub_version: Int64 = always(0)
    tags_set: list[str] = always([])
    topic: str


class SubscriptionCheck(Body, kw_only=True):
    """Request 46: can this expression be compiled?"""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription_data: SubscriptionData


class GroupSubscription(Body, kw_only=True):
    """Reply to 345."""

    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class ConsumeType(StrEnum):
    PULL = "CONSUME_ACTIVELY"
    PUSH = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(StrEnum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


# C++ clients send the place of a name in Java's enum, which Java reads as well as the name.
_CONSUME_TYPES: Final = tuple(ConsumeType)
_MESSAGE_MODELS: Final = tuple(MessageModel)
_STARTS: Final = (
    ConsumeFromWhere.LAST_OFFSET,
    # No client uses these three any more, but they have their places.
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    ConsumeFromWhere.FIRST_OFFSET,
    ConsumeFromWhere.TIMESTAMP,
)


# A number becomes a text as soon as it is read, so the type checker knows texts only.
if TYPE_CHECKING:
    _Choice = str
else:
    _Choice = str | Int32


class ProducerData(Body, kw_only=True):
    group_name: str


class ConsumerData(Body, kw_only=True):
    """One consumer group of a client.

    The three choices are texts: clients of other languages send names that are in no
    enum, or none at all, and Java accepts them all the same.
    """

    consume_from_where: _Choice | None = None
    consume_type: _Choice | None = None
    group_name: str
    message_model: _Choice | None = None
    subscription_data_set: list[SubscriptionData] = always([])
    unit_mode: bool = always(False)

    def __post_init__(self) -> None:
        self.consume_from_where = _name(self.consume_from_where, _STARTS)
        self.consume_type = _name(self.consume_type, _CONSUME_TYPES)
        self.message_model = _name(self.message_model, _MESSAGE_MODELS)


class Heartbeat(Body, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] = always([])
    # 5.x: a hash of the subscriptions, which may then be left out; 0 means not used.
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[ProducerData] = always([])
    without_sub: bool = False


def _name(choice: str | int | None, names: Sequence[str]) -> str | None:
    """None for a place that Java's enum does not have."""
    if isinstance(choice, int):
        return names[choice] if 0 <= choice < len(names) else None
    return choice


class ConnectionInfo(Body, kw_only=True):
    client_addr: str | None = None  # "ip:port"
    client_id: str
    language: str | None = None
    version: Int32 = always(0)


class ProducerConnections(Body, kw_only=True):
    """Reply to 204."""

    connection_set: list[ConnectionInfo] = always([])


class PastMember(Body, kw_only=True):
    """A member that left its group; `left` is in milliseconds since 1970."""

    client_addr: str | None = None
    client_id: str
    language: str | None = None
    left: Int64
    version: Int32 = always(0)


class PastMemberTable(Body, kw_only=True):
    """What a broker of ours keeps of them in its file, by group."""

    groups: dict[str, list[PastMember]] = always({})


class ConsumerConnections(Body, kw_only=True):
    """Reply to 203; the choices are those of `heartbeat.ConsumerData`."""

    connection_set: list[ConnectionInfo] = always([])
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    # Ours, of a group without members, if asked for: it is no error then.
    past_members: list[PastMember] | None = None
    subscription_table: dict[str, SubscriptionData] = always({})


class ProducerInfo(Body, kw_only=True):
    client_id: str
    language: str | None = None
    last_update_timestamp: Int64 = always(0)
    remote_ip: str | None = msgspec.field(name="remoteIP", default=None)  # "/ip:port"
    version: Int32 = always(0)


class ProducerTable(Body, kw_only=True):
    """Reply to 328, by producer group."""

    data: dict[str, list[ProducerInfo]] = always({})


class ConsumeResult(StrEnum):
    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class DirectConsumeResult(Body, kw_only=True):
    """Reply to 309: what the listener returned for the message it was given."""

    auto_commit: bool = always(True)
    consume_result: str | None = None  # a `ConsumeResult`
    order: bool = always(False)
    remark: str | None = None
    spent_time_mills: Int64 = always(0)


class ProcessQueueInfo(Body, kw_only=True):
    """One queue that is assigned to the consumer."""

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


class HeldMessage(Body, kw_only=True):
    """The first message of a call of a listener that has not returned."""

    broker_name: str
    # Not a time: clocks of clients and operators differ.
    held_ms: Int64
    keys: str | None = None
    message_id: str
    queue_id: Int32
    queue_offset: Int64
    topic: str


class ConsumerRunningInfo(Body, kw_only=True):
    """Reply to 307."""

    # Those held longest, first. Only consumers of Roquet report them; others ignore the member.
    held_messages: list[HeldMessage] | None = None
    jstack: str | None = None
    mq_pop_table: QueueTable[PopProcessQueueInfo] | None = None  # 5.x only
    mq_table: QueueTable[ProcessQueueInfo] = always(QueueTable())
    properties: dict[str, str] = always({})
    status_table: dict[str, ConsumeStatus] = always({})
    subscription_set: list[SubscriptionData] = always([])
    user_consumer_info: dict[str, str] = field(default_factory=dict)
