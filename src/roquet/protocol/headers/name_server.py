"""Headers of requests to a name server: routes, registrations, permissions, key-value configs."""

from msgspec import field

from roquet.protocol.fields import Header, Int32, Int64, TopicAddressedHeader


class GetRouteHeader(TopicAddressedHeader):
    topic: str
    accept_standard_json_only: bool | None = None


class ClusterInfoHeader(Header):
    """Apache's has no fields. With ours the reply has the lost brokers, too."""

    with_lost_brokers: bool | None = None


class TopicsByClusterHeader(Header):
    cluster: str


class DeleteTopicFromNameServerHeader(TopicAddressedHeader):
    topic: str
    cluster_name: str | None = None


class RegisterTopicHeader(TopicAddressedHeader):
    topic: str


class RegisterBrokerHeader(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0  # 0 means: do not check
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBrokerReplyHeader(Header):
    ha_server_addr: str | None = None
    master_addr: str | None = None
    # Ours: another broker that is registered under the same name and id.
    duplicate_addr: str | None = None


class UnregisterBrokerHeader(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionHeader(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionReplyHeader(Header):
    changed: bool
    # Ours: the latest master of that broker name, where masters have epochs.
    latest_master_addr: str | None = None
    latest_master_epoch: Int64 | None = None


class BrokerHeartbeatHeader(Header):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    # "Mills" is how the reference implementation spells it here, unlike in a registration.
    heartbeat_timeout_millis: Int64 | None = field(name="heartbeatTimeoutMills", default=None)
    election_priority: Int32 | None = None


class BrokerMemberGroupHeader(Header):
    cluster_name: str
    broker_name: str


class WipeWritePermissionHeader(Header):
    broker_name: str


class WipeWritePermissionReplyHeader(Header):
    wipe_topic_count: Int32


class AddWritePermissionHeader(Header):
    broker_name: str


class AddWritePermissionReplyHeader(Header):
    add_topic_count: Int32


class PutKvConfigHeader(Header):
    namespace: str
    key: str
    value: str


class GetKvConfigHeader(Header):
    namespace: str
    key: str


class GetKvConfigReplyHeader(Header):
    value: str | None = None


class DeleteKvConfigHeader(Header):
    namespace: str
    key: str


class ListKvConfigHeader(Header):
    namespace: str
