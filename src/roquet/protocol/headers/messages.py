"""Headers of messages: send, reply, send back, recall; pull and look up; end transactions."""

from msgspec import field

from roquet.protocol.fields import AddressedHeader, Header, Int32, Int64, TopicAddressedHeader


class SendMessageHeader(TopicAddressedHeader, kw_only=True):
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False


class SendMessageHeaderV2(SendMessageHeader, kw_only=True):
    """The same header under one-letter names; one handler serves both."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int32 | None = field(name="j", default=None)
    unit_mode: bool = field(name="k", default=False)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool = field(name="m", default=False)
    broker_name: str | None = field(name="n", default=None)


class SendMessageReplyHeader(Header):
    msg_id: str  # the offset id; of a batch all of them, joined by commas
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = field(name="MSG_REGION", default=None)
    is_traced: bool | None = field(name="TRACE_ON", default=None)


class PushReplyHeader(Header):
    """A reply message on its way from the broker to the client that asked."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False


class SendBackHeader(AddressedHeader):
    offset: Int64  # physical
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class RecallMessageHeader(TopicAddressedHeader):
    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageReplyHeader(Header):
    msg_id: str
    region_id: str | None = field(name="MSG_REGION", default=None)


class PullMessageHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32  # PullFlag
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    # "Froward" is how the reference implementation spells it.
    proxy_forward_client_id: str | None = field(name="proxyFrowardClientId", default=None)


class PullMessageReplyHeader(Header):
    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryMessageHeader(TopicAddressedHeader):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    is_unique_key: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)
    index_type: str | None = None  # 5.5: "K" by key, "U" by unique key, "T" by tag


class QueryMessageReplyHeader(Header):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(TopicAddressedHeader):
    offset: Int64  # physical
    topic: str | None = None


class EndTransactionHeader(TopicAddressedHeader):
    producer_group: str
    tran_state_table_offset: Int64  # in the queue of half messages
    commit_log_offset: Int64
    commit_or_rollback: Int32  # 8 commit, 12 rollback, 0 not known
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionHeader(TopicAddressedHeader):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


class ResumeCheckHeader(TopicAddressedHeader):
    msg_id: str | None = None  # the offset id
    topic: str | None = None
