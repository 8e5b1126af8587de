"""Headers about offsets: read, commit, search, reset, clone; how far a group is with its queues."""

from roquet.protocol.fields import Header, Int32, Int64
from roquet.protocol.headers.addressed import TopicAddressedHeader


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
