"""Headers of what clients and tools ask the name server about topics."""

from roquet.protocol.fields import Header
from roquet.protocol.headers.addressed import TopicAddressedHeader


class GetRouteHeader(TopicAddressedHeader):
    topic: str
    accept_standard_json_only: bool | None = None


class TopicsByClusterHeader(Header):
    cluster: str


class DeleteTopicFromNameServerHeader(TopicAddressedHeader):
    topic: str
    cluster_name: str | None = None


class RegisterTopicHeader(TopicAddressedHeader):
    topic: str
