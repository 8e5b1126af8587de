"""Headers about consumer groups: their members and their settings."""

from roquet.protocol.fields import Header, Int32
from roquet.protocol.headers.addressed import AddressedHeader, TopicAddressedHeader


class ConsumerListHeader(AddressedHeader):
    consumer_group: str


class ConsumersChangedHeader(AddressedHeader):
    consumer_group: str


class ConsumerConnectionsHeader(AddressedHeader):
    consumer_group: str


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
