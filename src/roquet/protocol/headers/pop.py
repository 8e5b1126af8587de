"""Headers of 5.x pop consumption: the broker hands out messages one by one and waits for acks."""

from roquet.protocol.fields import Header, Int32, Int64, TopicAddressedHeader


class PopMessageHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32  # -1 means any
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PopMessageReplyHeader(Header):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PeekMessageHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class AckMessageHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTimeHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    suspend: bool = False


class ChangeInvisibleTimeReplyHeader(Header):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class NotificationHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool | None = None
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationReplyHeader(Header):
    has_msg: bool
    polling_full: bool = False


class PollingInfoHeader(TopicAddressedHeader):
    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoReplyHeader(Header):
    polling_num: Int32
