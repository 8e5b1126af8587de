"""Headers of pulls, and of looking messages up by key or by physical offset."""

from msgspec import field

from roquet.protocol.fields import Header, Int32, Int64
from roquet.protocol.headers.addressed import TopicAddressedHeader


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
