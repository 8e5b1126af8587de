"""Headers about groups: members, settings, heartbeats, connections, and offsets of their queues."""

from msgspec import field

from roquet.protocol.fields import AddressedHeader, Header, Int32, Int64, TopicAddressedHeader


class ConsumerListHeader(AddressedHeader):
    consumer_group: str


class ConsumersChangedHeader(AddressedHeader):
    consumer_group: str


class ConsumerConnectionsHeader(AddressedHeader):
    consumer_group: str
    # Ours: without members, the reply has those that left. Apache's brokers ignore it.
    with_past_members: bool | None = None


class AllGroupConfigsHeader(Header):
    """5.5 asks page by page; 4.9 sends no field and gets everything."""

    group_seq: Int32 | None = None
    max_group_num: Int32 | None = None
    data_version: str | None = None


class AllGroupConfigsReplyHeader(Header):
    total_group_num: Int32 | None = None


class GetGroupConfigHeader(AddressedHeader):
    group: str


class DeleteGroupHeader(AddressedHeader):
    group_name: str
    remove_offset: bool | None = None  # what 4.9 calls it
    clean_offset: bool | None = None  # what 5.x calls it


class GroupForbiddenHeader(TopicAddressedHeader):
    group: str
    topic: str
    readable: bool | None = None


class SubscriptionByConsumerHeader(TopicAddressedHeader):
    group: str
    topic: str


class HeartbeatReplyHeader(Header):
    """5.x only. Without these fields a client keeps sending full heartbeats."""

    is_v2_supported: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_subscription_changed: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClientHeader(AddressedHeader):
    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ProducerConnectionsHeader(AddressedHeader):
    producer_group: str


class RunningInfoHeader(AddressedHeader):
    """From a tool to the broker, and from the broker to the consumer."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(Header):
    """From a tool to the broker, and from the broker to the consumer."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None  # the offset id
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class OffsetReplyHeader(Header):
    offset: Int64


class QueryConsumerOffsetHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class GetMaxOffsetHeader(TopicAddressedHeader):
    topic: str
    queue_id: Int32
    committed: bool | None = None  # absent means true


class GetMinOffsetHeader(TopicAddressedHeader):
    topic: str
    queue_id: Int32


class SearchOffsetHeader(TopicAddressedHeader):
    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None  # 5.x: "LOWER" or "UPPER"


class EarliestStoreTimeHeader(TopicAddressedHeader):
    topic: str
    queue_id: Int32


class EarliestStoreTimeReplyHeader(Header):
    timestamp: Int64


class ResetOffsetHeader(TopicAddressedHeader):
    """From a tool to the broker, and from the broker to the consumers."""

    topic: str
    group: str
    timestamp: Int64  # -1 means the end
    is_force: bool
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class ConsumerStatusHeader(TopicAddressedHeader):
    """From a tool to the broker, and from the broker to the consumers."""

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffsetHeader(TopicAddressedHeader):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class CorrectionOffsetHeader(TopicAddressedHeader):
    compare_group: str
    topic: str
    filter_groups: str | None = None


class ConsumeStatsHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # 5.x: names, each followed by ";"


class ConsumeTimeSpanHeader(TopicAddressedHeader):
    topic: str
    group: str


class BrokerConsumeStatsHeader(Header):
    is_order: bool
