"""Headers of administration by topic."""

from roquet.protocol.fields import AddressedHeader, Header, Int32, Int64, TopicAddressedHeader


class CreateTopicHeader(TopicAddressedHeader):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None  # 5.x: "+key=value,-key"
    force: bool | None = None


class DeleteTopicHeader(TopicAddressedHeader):
    topic: str


class AllTopicConfigsHeader(Header):
    """5.5 asks page by page; 4.9 sends no field and gets everything."""

    topic_seq: Int32 | None = None
    max_topic_num: Int32 | None = None
    data_version: str | None = None


class AllTopicConfigsReplyHeader(Header):
    total_topic_num: Int32 | None = None


class GetTopicConfigHeader(TopicAddressedHeader):
    topic: str


class TopicStatsHeader(TopicAddressedHeader):
    topic: str


class TopicConsumersHeader(TopicAddressedHeader):
    topic: str


class TopicsByConsumerHeader(AddressedHeader):
    group: str


class QueryConsumeQueueHeader(TopicAddressedHeader):
    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class QueueProgressHeader(Header):
    """How far the RocksDB twin of a topic's consume queues has come."""

    topic: str
    check_store_time: Int64 = 0
