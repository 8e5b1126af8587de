"""THE TABLE: which headers and bodies every request code carries, in requests and replies.

    Entry(code, request header, reply header, request body, reply body)

A body is named by the type its JSON is read as, or by a function where the form is not JSON or
depends on the header. Where no body is named, there is none, or bytes that are not interpreted.
"""

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from roquet.protocol.bodies.body import DataVersion, read_body
from roquet.protocol.bodies.brokers import (
    AccountConfigs,
    Acl,
    BrokerStats,
    ColdDataFlow,
    EpochList,
    HaStatus,
    TimerCheckpoint,
    TimerMetrics,
    User,
    WaitingMessages,
    read_timer_checkpoint,
)
from roquet.protocol.bodies.clients import (
    ConsumerConnections,
    ConsumerRunningInfo,
    DirectConsumeResult,
    GroupSubscription,
    Heartbeat,
    ProducerConnections,
    ProducerTable,
    SubscriptionCheck,
)
from roquet.protocol.bodies.groups import (
    ConsumerIds,
    GroupConfig,
    GroupConfigList,
    GroupConfigTable,
    GroupForbidden,
    GroupList,
    LockedQueues,
    QueueLockRequest,
)
from roquet.protocol.bodies.name_server import (
    BrokerMemberGroupReply,
    BrokerRegistration,
    ClusterInfo,
    KvTable,
    TopicRoute,
    read_registration,
)
from roquet.protocol.bodies.offsets import (
    AllProgress,
    ConsumerOffsetTable,
    ConsumerStatus,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
    CorrectionOffsets,
    ResetOffsetList,
    ResetOffsets,
)
from roquet.protocol.bodies.pop import (
    AssignmentQuery,
    BatchAckRequest,
    QueueAssignments,
    RequestModeSetting,
    RequestModeTable,
)
from roquet.protocol.bodies.topics import (
    ConsumeQueueView,
    QueueCopyCheck,
    QueueMappingDetail,
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
    TopicList,
    TopicStats,
)
from roquet.protocol.codes import RequestCode as Code, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import AddressedHeader, Header, NoFields, read_header
from roquet.protocol.headers import (
    brokers,
    groups,
    messages,
    name_server,
    pop,
    topics,
)
from roquet.protocol.messages.batch import BatchItem, decode_batch
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from roquet.protocol.properties_text import read_properties_text

BodyReader: TypeAlias = Callable[[Command, Header], object]
BodyForm: TypeAlias = type[Any] | BodyReader


class Entry(NamedTuple):
    """One line of the table."""

    code: int
    header: type[Header] = NoFields
    reply_header: type[Header] = NoFields
    body: BodyForm | None = None
    reply_body: BodyForm | None = None
    # Replies with other codes are refusals: they have a remark and carry no header.
    reply_codes: tuple[int, ...] = (ResponseCode.SUCCESS,)


class DecodedCommand(NamedTuple):
    header: Header
    body: object  # None when there is none, bytes when the code declares none


def decode_request(command: Command) -> DecodedCommand:
    """Raises BadHeaderField, BadBody or BadMessage; unknown codes have no fields."""
    entry = CATALOG.get(command.code, _UNKNOWN)
    return _decoded(command, entry.header, entry.body)


def decode_reply(request_code: int, command: Command) -> DecodedCommand:
    """Like `decode_request`; the reply itself does not name its `request_code`."""
    entry = CATALOG.get(request_code, _UNKNOWN)
    if command.code not in entry.reply_codes:
        entry = _UNKNOWN
    return _decoded(command, entry.reply_header, entry.reply_body)


def _decoded(command: Command, header_type: type[Header], form: BodyForm | None) -> DecodedCommand:
    header = read_header(header_type, command.fields)
    return DecodedCommand(header, _read_body(command, header, form) if command.body else None)


def _read_body(command: Command, header: Header, form: BodyForm | None) -> object:
    if form is None:
        return command.body
    if isinstance(form, FunctionType):
        return cast("BodyReader", form)(command, header)
    return read_body(cast("type[object]", form), command.body)


def _sent(command: Command, header: Header) -> bytes | list[BatchItem]:
    """One message body as its producer made it, or the items of a batch."""
    assert isinstance(header, messages.SendMessageHeader)
    # The header decides, not the code: 320 without this flag is a single message.
    return decode_batch(command.body) if header.batch else command.body


def _records(command: Command, _header: Header) -> list[StoredMessage]:
    return split_records(command.body)


def _registration(command: Command, _header: Header) -> BrokerRegistration:
    return read_registration(command.body, command.version)


def _reset_offsets(command: Command, _header: Header) -> ResetOffsets | ResetOffsetList:
    """A table, or a list for clients in C++; only the body itself shows which."""
    try:
        return read_body(ResetOffsets, command.body)
    except BadBody:
        return read_body(ResetOffsetList, command.body)


def _settings(command: Command, _header: Header) -> dict[str, str]:
    return read_properties_text(command.body)


def _timer_checkpoint(command: Command, _header: Header) -> TimerCheckpoint:
    return read_timer_checkpoint(command.body)


_SENT_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
_PULLED_CODES: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
# 210 is what 5.x calls POLLING_TIMEOUT.
_POPPED_CODES: Final = (ResponseCode.SUCCESS, 210)


# fmt: off
# The formatter would give each name a line of its own; this is a table and is read as one.

# Clients to brokers: produce, consume, transactions.
_CLIENT_TO_BROKER: Final = (
    Entry(Code.SEND_MESSAGE, messages.SendMessageHeader, messages.SendMessageReplyHeader,
          body=_sent, reply_codes=_SENT_CODES),
    Entry(Code.SEND_MESSAGE_V2, messages.SendMessageHeaderV2, messages.SendMessageReplyHeader,
          body=_sent, reply_codes=_SENT_CODES),
    Entry(Code.SEND_BATCH_MESSAGE, messages.SendMessageHeaderV2, messages.SendMessageReplyHeader,
          body=_sent, reply_codes=_SENT_CODES),
    Entry(Code.SEND_REPLY_MESSAGE, messages.SendMessageHeader, messages.SendMessageReplyHeader,
          body=_sent, reply_codes=_SENT_CODES),
    Entry(Code.SEND_REPLY_MESSAGE_V2, messages.SendMessageHeaderV2, messages.SendMessageReplyHeader,
          body=_sent, reply_codes=_SENT_CODES),
    Entry(Code.CONSUMER_SEND_MSG_BACK, messages.SendBackHeader),
    Entry(Code.RECALL_MESSAGE, messages.RecallMessageHeader, messages.RecallMessageReplyHeader),
    Entry(Code.END_TRANSACTION, messages.EndTransactionHeader),
    Entry(Code.PULL_MESSAGE, messages.PullMessageHeader, messages.PullMessageReplyHeader,
          reply_body=_records, reply_codes=_PULLED_CODES),
    Entry(Code.LITE_PULL_MESSAGE, messages.PullMessageHeader, messages.PullMessageReplyHeader,
          reply_body=_records, reply_codes=_PULLED_CODES),
    Entry(Code.QUERY_MESSAGE, messages.QueryMessageHeader, messages.QueryMessageReplyHeader,
          reply_body=_records),
    Entry(Code.VIEW_MESSAGE_BY_ID, messages.ViewMessageHeader, reply_body=_records),
    Entry(Code.QUERY_CONSUMER_OFFSET, groups.QueryConsumerOffsetHeader, groups.OffsetReplyHeader),
    Entry(Code.UPDATE_CONSUMER_OFFSET, groups.UpdateConsumerOffsetHeader),
    Entry(Code.GET_MAX_OFFSET, groups.GetMaxOffsetHeader, groups.OffsetReplyHeader),
    Entry(Code.GET_MIN_OFFSET, groups.GetMinOffsetHeader, groups.OffsetReplyHeader),
    Entry(Code.SEARCH_OFFSET_BY_TIMESTAMP, groups.SearchOffsetHeader, groups.OffsetReplyHeader),
    Entry(Code.GET_EARLIEST_MSG_STORETIME, groups.EarliestStoreTimeHeader,
          groups.EarliestStoreTimeReplyHeader),
    Entry(Code.HEART_BEAT, AddressedHeader, groups.HeartbeatReplyHeader, body=Heartbeat),
    Entry(Code.UNREGISTER_CLIENT, groups.UnregisterClientHeader),
    Entry(Code.CHECK_CLIENT_CONFIG, body=SubscriptionCheck),
    Entry(Code.GET_CONSUMER_LIST_BY_GROUP, groups.ConsumerListHeader, reply_body=ConsumerIds),
    Entry(Code.LOCK_BATCH_MQ, AddressedHeader, body=QueueLockRequest, reply_body=LockedQueues),
    Entry(Code.UNLOCK_BATCH_MQ, AddressedHeader, body=QueueLockRequest),
)

# 5.x clients to brokers: the broker assigns queues and messages.
_POP: Final = (
    Entry(Code.QUERY_ASSIGNMENT, body=AssignmentQuery, reply_body=QueueAssignments),
    Entry(Code.SET_MESSAGE_REQUEST_MODE, body=RequestModeSetting),
    Entry(Code.GET_ALL_MESSAGE_REQUEST_MODE, reply_body=RequestModeTable),
    Entry(Code.POP_MESSAGE, pop.PopMessageHeader, pop.PopMessageReplyHeader,
          reply_body=_records, reply_codes=_POPPED_CODES),
    Entry(Code.PEEK_MESSAGE, pop.PeekMessageHeader, pop.PopMessageReplyHeader, reply_body=_records),
    Entry(Code.ACK_MESSAGE, pop.AckMessageHeader),
    Entry(Code.BATCH_ACK_MESSAGE, body=BatchAckRequest),
    Entry(Code.CHANGE_MESSAGE_INVISIBLETIME, pop.ChangeInvisibleTimeHeader,
          pop.ChangeInvisibleTimeReplyHeader),
    Entry(Code.NOTIFICATION, pop.NotificationHeader, pop.NotificationReplyHeader),
    Entry(Code.POLLING_INFO, pop.PollingInfoHeader, pop.PollingInfoReplyHeader),
    Entry(Code.POP_ROLLBACK),
)

# Brokers to clients, on the client's own connection. 307 and 309 come from tools, pass through
# the broker and reach the client unchanged.
_BROKER_TO_CLIENT: Final = (
    Entry(Code.CHECK_TRANSACTION_STATE, messages.CheckTransactionHeader, body=_records),
    Entry(Code.NOTIFY_CONSUMER_IDS_CHANGED, groups.ConsumersChangedHeader),
    Entry(Code.RESET_CONSUMER_CLIENT_OFFSET, groups.ResetOffsetHeader, body=_reset_offsets),
    Entry(Code.GET_CONSUMER_STATUS_FROM_CLIENT, groups.ConsumerStatusHeader,
          reply_body=ConsumerStatus),
    Entry(Code.GET_CONSUMER_RUNNING_INFO, groups.RunningInfoHeader,
          reply_body=ConsumerRunningInfo),
    Entry(Code.CONSUME_MESSAGE_DIRECTLY, groups.ConsumeDirectlyHeader, body=_records,
          reply_body=DirectConsumeResult),
    Entry(Code.PUSH_REPLY_MESSAGE_TO_CLIENT, messages.PushReplyHeader),
)

# Clients, tools and brokers to the name server.
_TO_NAME_SERVER: Final = (
    Entry(Code.GET_ROUTEINFO_BY_TOPIC, name_server.GetRouteHeader, reply_body=TopicRoute),
    Entry(Code.REGISTER_BROKER, name_server.RegisterBrokerHeader,
          name_server.RegisterBrokerReplyHeader, body=_registration, reply_body=KvTable),
    Entry(Code.UNREGISTER_BROKER, name_server.UnregisterBrokerHeader),
    Entry(Code.QUERY_DATA_VERSION, name_server.QueryDataVersionHeader,
          name_server.QueryDataVersionReplyHeader, body=DataVersion, reply_body=DataVersion),
    Entry(Code.BROKER_HEARTBEAT, name_server.BrokerHeartbeatHeader),
    Entry(Code.GET_BROKER_MEMBER_GROUP, name_server.BrokerMemberGroupHeader,
          reply_body=BrokerMemberGroupReply),
    Entry(Code.REGISTER_TOPIC_IN_NAMESRV, name_server.RegisterTopicHeader, body=TopicRoute),
    Entry(Code.GET_BROKER_CLUSTER_INFO, name_server.ClusterInfoHeader, reply_body=ClusterInfo),
    Entry(Code.WIPE_WRITE_PERM_OF_BROKER, name_server.WipeWritePermissionHeader,
          name_server.WipeWritePermissionReplyHeader),
    Entry(Code.ADD_WRITE_PERM_OF_BROKER, name_server.AddWritePermissionHeader,
          name_server.AddWritePermissionReplyHeader),
    Entry(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, reply_body=TopicList),
    Entry(Code.GET_TOPICS_BY_CLUSTER, name_server.TopicsByClusterHeader, reply_body=TopicList),
    Entry(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, reply_body=TopicList),
    Entry(Code.GET_UNIT_TOPIC_LIST, reply_body=TopicList),
    Entry(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, reply_body=TopicList),
    Entry(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, reply_body=TopicList),
    Entry(Code.DELETE_TOPIC_IN_NAMESRV, name_server.DeleteTopicFromNameServerHeader),
    Entry(Code.PUT_KV_CONFIG, name_server.PutKvConfigHeader),
    Entry(Code.GET_KV_CONFIG, name_server.GetKvConfigHeader, name_server.GetKvConfigReplyHeader),
    Entry(Code.DELETE_KV_CONFIG, name_server.DeleteKvConfigHeader),
    Entry(Code.GET_KVLIST_BY_NAMESPACE, name_server.ListKvConfigHeader, reply_body=KvTable),
    Entry(Code.UPDATE_NAMESRV_CONFIG, body=_settings),
    Entry(Code.GET_NAMESRV_CONFIG, reply_body=_settings),
)

# Tools to brokers: topics and groups.
_TOPICS_AND_GROUPS: Final = (
    Entry(Code.UPDATE_AND_CREATE_TOPIC, topics.CreateTopicHeader),
    Entry(Code.UPDATE_AND_CREATE_TOPIC_LIST, AddressedHeader, body=TopicConfigList),
    Entry(Code.UPDATE_AND_CREATE_STATIC_TOPIC, topics.CreateTopicHeader, body=QueueMappingDetail),
    Entry(Code.DELETE_TOPIC_IN_BROKER, topics.DeleteTopicHeader),
    Entry(Code.GET_ALL_TOPIC_CONFIG, topics.AllTopicConfigsHeader,
          topics.AllTopicConfigsReplyHeader, reply_body=TopicConfigTable),
    Entry(Code.GET_TOPIC_CONFIG, topics.GetTopicConfigHeader, reply_body=TopicConfig),
    Entry(Code.GET_TOPIC_STATS_INFO, topics.TopicStatsHeader, reply_body=TopicStats),
    Entry(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, reply_body=TopicList),
    Entry(Code.QUERY_TOPIC_CONSUME_BY_WHO, topics.TopicConsumersHeader, reply_body=GroupList),
    Entry(Code.QUERY_TOPICS_BY_CONSUMER, topics.TopicsByConsumerHeader, reply_body=TopicList),
    Entry(Code.QUERY_CONSUME_TIME_SPAN, groups.ConsumeTimeSpanHeader,
          reply_body=ConsumeTimeSpans),
    Entry(Code.QUERY_CONSUME_QUEUE, topics.QueryConsumeQueueHeader,
          reply_body=ConsumeQueueView),
    Entry(Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, topics.QueueProgressHeader,
          reply_body=QueueCopyCheck),
    Entry(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, AddressedHeader, body=GroupConfig),
    Entry(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, AddressedHeader, body=GroupConfigList),
    Entry(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups.AllGroupConfigsHeader,
          groups.AllGroupConfigsReplyHeader, reply_body=GroupConfigTable),
    Entry(Code.GET_SUBSCRIPTIONGROUP_CONFIG, groups.GetGroupConfigHeader, reply_body=GroupConfig),
    Entry(Code.DELETE_SUBSCRIPTIONGROUP, groups.DeleteGroupHeader),
    Entry(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, groups.GroupForbiddenHeader,
          reply_body=GroupForbidden),
    Entry(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, groups.SubscriptionByConsumerHeader,
          reply_body=GroupSubscription),
    Entry(Code.GET_CONSUME_STATS, groups.ConsumeStatsHeader, reply_body=ConsumeStats),
    Entry(Code.GET_CONSUMER_CONNECTION_LIST, groups.ConsumerConnectionsHeader,
          reply_body=ConsumerConnections),
    Entry(Code.GET_PRODUCER_CONNECTION_LIST, groups.ProducerConnectionsHeader,
          reply_body=ProducerConnections),
    Entry(Code.GET_ALL_PRODUCER_INFO, reply_body=ProducerTable),
    Entry(Code.INVOKE_BROKER_TO_RESET_OFFSET, groups.ResetOffsetHeader, reply_body=ResetOffsets),
    Entry(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, groups.ConsumerStatusHeader,
          reply_body=ConsumerStatus),
    Entry(Code.CLONE_GROUP_OFFSET, groups.CloneGroupOffsetHeader),
    Entry(Code.QUERY_CORRECTION_OFFSET, groups.CorrectionOffsetHeader,
          reply_body=CorrectionOffsets),
    Entry(Code.RESUME_CHECK_HALF_MESSAGE, messages.ResumeCheckHeader),
)

# Tools to brokers: the broker as a whole.
_BROKER_ADMIN: Final = (
    Entry(Code.UPDATE_BROKER_CONFIG, body=_settings),
    Entry(Code.GET_BROKER_CONFIG, reply_header=brokers.BrokerConfigReplyHeader,
          reply_body=_settings),
    Entry(Code.GET_BROKER_RUNTIME_INFO, reply_body=KvTable),
    Entry(Code.VIEW_BROKER_STATS_DATA, brokers.BrokerStatsHeader, reply_body=BrokerStats),
    Entry(Code.GET_BROKER_CONSUME_STATS, groups.BrokerConsumeStatsHeader,
          reply_body=ConsumeStatsList),
    Entry(Code.CLEAN_EXPIRED_CONSUMEQUEUE),
    Entry(Code.CLEAN_UNUSED_TOPIC),
    Entry(Code.DELETE_EXPIRED_COMMITLOG),
    Entry(Code.SWITCH_TIMER_ENGINE),
    Entry(Code.GET_COLD_DATA_FLOW_CTR_INFO, reply_body=ColdDataFlow),
)

# Tools to brokers: access control, 4.x and 5.x.
_ACCESS: Final = (
    Entry(Code.UPDATE_AND_CREATE_ACL_CONFIG, brokers.PutAccountHeader),
    Entry(Code.DELETE_ACL_CONFIG, brokers.DeleteAccountHeader),
    Entry(Code.GET_BROKER_CLUSTER_ACL_INFO, reply_header=brokers.AccountsVersionReplyHeader),
    Entry(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, brokers.GlobalWhiteAddressesHeader),
    Entry(Code.GET_BROKER_CLUSTER_ACL_CONFIG, reply_body=AccountConfigs),
    Entry(Code.AUTH_CREATE_USER, brokers.UserHeader, body=User),
    Entry(Code.AUTH_UPDATE_USER, brokers.UserHeader, body=User),
    Entry(Code.AUTH_DELETE_USER, brokers.UserHeader),
    Entry(Code.AUTH_GET_USER, brokers.UserHeader, reply_body=User),
    Entry(Code.AUTH_LIST_USER, brokers.ListUsersHeader, reply_body=list[User]),
    Entry(Code.AUTH_CREATE_ACL, brokers.PolicyHeader, body=Acl),
    Entry(Code.AUTH_UPDATE_ACL, brokers.PolicyHeader, body=Acl),
    Entry(Code.AUTH_DELETE_ACL, brokers.DeletePolicyHeader),
    Entry(Code.AUTH_GET_ACL, brokers.PolicyHeader, reply_body=Acl),
    Entry(Code.AUTH_LIST_ACL, brokers.ListPoliciesHeader, reply_body=list[Acl]),
)

# Between replicas of a broker, and from tools to them.
_REPLICAS: Final = (
    Entry(
        Code.GET_ALL_CONSUMER_OFFSET,
        brokers.AllOffsetsHeader,
        brokers.AllOffsetsReplyHeader,
        reply_body=ConsumerOffsetTable,
    ),
    Entry(
        Code.GET_ALL_DELAY_OFFSET,
        brokers.AllOffsetsHeader,
        brokers.AllProgressReplyHeader,
        reply_body=AllProgress,
    ),
    Entry(Code.GET_TIMER_CHECK_POINT, reply_body=_timer_checkpoint),
    Entry(Code.GET_TIMER_METRICS, reply_body=TimerMetrics),
    Entry(Code.EXCHANGE_BROKER_HA_INFO, brokers.ExchangeReplicaInfoHeader,
          brokers.ExchangeReplicaInfoReplyHeader),
    Entry(Code.GET_BROKER_HA_STATUS, reply_body=HaStatus),
    Entry(Code.GET_BROKER_EPOCH_CACHE, reply_body=EpochList),
    Entry(Code.PROMOTE_BROKER, brokers.PromoteBrokerHeader, brokers.PromoteBrokerReplyHeader),
    Entry(Code.DEMOTE_BROKER, brokers.DemoteBrokerHeader),
    Entry(Code.GET_WAITING_MESSAGES, reply_body=WaitingMessages),
)
# fmt: on

# Codes of 5.x that Roquet neither sends nor answers: the controller, its view of replicas, cold
# data, RocksDB. Their fields are not declared, so their bodies stay bytes.
UNDECLARED_CODES: Final = frozenset(
    {
        Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
        Code.ADD_BROKER,
        Code.REMOVE_BROKER,
        Code.NOTIFY_MIN_BROKER_ID_CHANGE,
        Code.RESET_MASTER_FLUSH_OFFSET,
        Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        Code.CONTROLLER_ELECT_MASTER,
        Code.CONTROLLER_REGISTER_BROKER,
        Code.CONTROLLER_GET_REPLICA_INFO,
        Code.CONTROLLER_GET_METADATA_INFO,
        Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.NOTIFY_BROKER_ROLE_CHANGED,
        Code.UPDATE_CONTROLLER_CONFIG,
        Code.GET_CONTROLLER_CONFIG,
        Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID,
        Code.CONTROLLER_APPLY_BROKER_ID,
        Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.SET_COMMITLOG_READ_MODE,
    }
)

# Codes that Apache reserves and that no release of it, 4.9 or 5.x, answers or sends.
UNUSED_CODES: Final = frozenset(
    {
        Code.QUERY_BROKER_OFFSET,
        Code.GET_TOPIC_CONFIG_LIST,
        Code.GET_TOPIC_NAME_LIST,
        Code.TRIGGER_DELETE_FILES,
        Code.GET_CLIENT_CONFIG,
        Code.SUSPEND_CONSUMER,
        Code.RESUME_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_BROKER,
        Code.ADJUST_CONSUMER_THREAD_POOL,
        Code.WHO_CONSUME_THE_MESSAGE,
        Code.REGISTER_FILTER_SERVER,
        Code.REGISTER_MESSAGE_FILTER_CLASS,
    }
)

_UNKNOWN: Final = Entry(-1)

_ENTRIES: Final = (
    *_CLIENT_TO_BROKER,
    *_POP,
    *_BROKER_TO_CLIENT,
    *_TO_NAME_SERVER,
    *_TOPICS_AND_GROUPS,
    *_BROKER_ADMIN,
    *_ACCESS,
    *_REPLICAS,
)

CATALOG: Final[Mapping[int, Entry]] = {entry.code: entry for entry in _ENTRIES}
assert len(CATALOG) == len(_ENTRIES), "duplicate code in the table"
