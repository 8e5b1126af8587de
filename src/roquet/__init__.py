"""RocketMQ in Python, its data pipeline on Spark.

    from roquet import Message, Producer

Everything public is here, and loaded when it is first used, so that importing the package costs
nothing: clients, their settings, results and errors, and the packages `testing` and `pipeline`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from roquet.errors import RoquetError

if TYPE_CHECKING:
    from roquet import pipeline, testing
    from roquet.client.admin.admin import AsyncAdmin
    from roquet.client.admin.cluster import (
        AccountSettings,
        BrokerAccounts,
        BrokerInfo,
        Displacement,
        DivergentMessages,
        Promotion,
    )
    from roquet.client.admin.dead_letters import LetterPlace, Resent
    from roquet.client.admin.deliveries import Deliveries, DeliveryState, GroupDelivery
    from roquet.client.admin.groups import (
        ClientConnection,
        GroupMembers,
        GroupSettings,
        MemberInfo,
        MemberQueue,
        MemberRates,
        MemberSilent,
        MessageInHand,
        PastMember,
    )
    from roquet.client.admin.inspection import (
        BrokerTables,
        Cleaning,
        MasterState,
        QueueEntries,
        QueueEntry,
        ReplicationStatus,
        SlaveState,
        Traffic,
    )
    from roquet.client.admin.messages import TraceEvent
    from roquet.client.admin.missing import LostBroker, MissingBroker
    from roquet.client.admin.producers import ConnectedProducer
    from roquet.client.admin.progress import GroupProgress, QueueProgress
    from roquet.client.admin.resets import QueueMove, ResetPlan
    from roquet.client.admin.servers import AdminConfig
    from roquet.client.admin.topics import (
        BrokerRoute,
        QueueStatistics,
        TopicSettings,
        TopicStatistics,
    )
    from roquet.client.admin.users import UserPolicy, UserSettings
    from roquet.client.admin.waiting import DelayedMessages, WaitingMessages
    from roquet.client.blocking.admin import Admin
    from roquet.client.blocking.consumers import PopConsumer, PullConsumer, PushConsumer
    from roquet.client.blocking.producer import Producer, TransactionProducer
    from roquet.client.blocking.reader import TopicReader
    from roquet.client.cluster.pulling import Pulled, PullStatus
    from roquet.client.config import Credentials, ProducerConfig, TlsConfig
    from roquet.client.errors import (
        BadAddress,
        BadArgument,
        ClientError,
        GroupNotFound,
        MembersConnected,
        MessageNotFound,
        NoBroker,
        NoNameServer,
        NoReply,
        NotConnected,
        NothingToRead,
        NoTimers,
        NotOpen,
        NotTheLongestLog,
        NotYetSafe,
        OffsetsGone,
        RequestRefused,
        SendError,
        SendFailed,
        SendForbidden,
        SendImpossible,
        SendRefused,
        SendUnknown,
        SomeFailed,
        TopicNotFound,
        Unreachable,
        UsedAfterFork,
        WrongLoop,
    )
    from roquet.client.group.allocation import (
        Allocation,
        ConsistentHash,
        FixedQueues,
        MachineRoom,
        MachineRoomNearby,
        average,
        circle,
    )
    from roquet.client.group.offsets import OffsetStore
    from roquet.client.group.start_offset import StartFrom
    from roquet.client.hooks import (
        Attempt,
        ConsumeHook,
        ConsumeOutcome,
        Consuming,
        MessageKind,
        SendHook,
        Sending,
        SendMode,
        TransactionEnd,
        TransactionState,
    )
    from roquet.client.middleware import Middleware
    from roquet.client.pop.consumer import AsyncPopConsumer, PopConsumerConfig
    from roquet.client.producer.producer import AsyncProducer
    from roquet.client.producer.receipt import BatchReceipt, ProducerStatistics, SendReceipt
    from roquet.client.producer.request_reply import reply_to
    from roquet.client.producer.transaction_producer import (
        AsyncTransactionProducer,
        PreparedMessage,
        Transaction,
    )
    from roquet.client.pull.config import PullConsumerConfig
    from roquet.client.pull.consumer import AsyncPullConsumer, PullProgress, PullStatistics
    from roquet.client.push.config import PushConsumerConfig
    from roquet.client.push.consumer import AsyncPushConsumer
    from roquet.client.push.outcome import DeadLetter, RetryLater
    from roquet.client.push.statistics import (
        ConsumerStatistics,
        PushProgress,
        TopicCounts,
        TopicRates,
    )
    from roquet.client.queue_ref import QueueRef
    from roquet.client.reader.chunk import RecordChunk
    from roquet.client.reader.reader import AsyncTopicReader, Bounds, TopicReaderConfig
    from roquet.client.received import Death, DlqReason, ReceivedMessage
    from roquet.client.typed.codecs import Codec
    from roquet.client.typed.topic import Topic, TypedOn, Undecodable
    from roquet.protocol.codes import Permission, ResponseCode
    from roquet.protocol.compression import Compression
    from roquet.protocol.errors import BadMessage
    from roquet.protocol.messages.message import Message
    from roquet.protocol.subscription import Subscription
    from roquet.state_file import BadStateFile, StateNotSaved

__version__ = "0.1.0"

__all__ = [
    "AccountSettings",
    "Admin",
    "AdminConfig",
    "Allocation",
    "AsyncAdmin",
    "AsyncPopConsumer",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "AsyncTopicReader",
    "AsyncTransactionProducer",
    "Attempt",
    "BadAddress",
    "BadArgument",
    "BadMessage",
    "BadStateFile",
    "BatchReceipt",
    "Bounds",
    "BrokerAccounts",
    "BrokerInfo",
    "BrokerRoute",
    "BrokerTables",
    "Cleaning",
    "ClientConnection",
    "ClientError",
    "Codec",
    "Compression",
    "ConnectedProducer",
    "ConsistentHash",
    "ConsumeHook",
    "ConsumeOutcome",
    "ConsumerStatistics",
    "Consuming",
    "Credentials",
    "DeadLetter",
    "Death",
    "DelayedMessages",
    "Deliveries",
    "DeliveryState",
    "Displacement",
    "DivergentMessages",
    "DlqReason",
    "FixedQueues",
    "GroupDelivery",
    "GroupMembers",
    "GroupNotFound",
    "GroupProgress",
    "GroupSettings",
    "LetterPlace",
    "LostBroker",
    "MachineRoom",
    "MachineRoomNearby",
    "MasterState",
    "MemberInfo",
    "MemberQueue",
    "MemberRates",
    "MemberSilent",
    "MembersConnected",
    "Message",
    "MessageInHand",
    "MessageKind",
    "MessageNotFound",
    "Middleware",
    "MissingBroker",
    "NoBroker",
    "NoNameServer",
    "NoReply",
    "NoTimers",
    "NotConnected",
    "NotOpen",
    "NotTheLongestLog",
    "NotYetSafe",
    "NothingToRead",
    "OffsetStore",
    "OffsetsGone",
    "PastMember",
    "Permission",
    "PopConsumer",
    "PopConsumerConfig",
    "PreparedMessage",
    "Producer",
    "ProducerConfig",
    "ProducerStatistics",
    "Promotion",
    "PullConsumer",
    "PullConsumerConfig",
    "PullProgress",
    "PullStatistics",
    "PullStatus",
    "Pulled",
    "PushConsumer",
    "PushConsumerConfig",
    "PushProgress",
    "QueueEntries",
    "QueueEntry",
    "QueueMove",
    "QueueProgress",
    "QueueRef",
    "QueueStatistics",
    "ReceivedMessage",
    "RecordChunk",
    "ReplicationStatus",
    "RequestRefused",
    "Resent",
    "ResetPlan",
    "ResponseCode",
    "RetryLater",
    "RoquetError",
    "SendError",
    "SendFailed",
    "SendForbidden",
    "SendHook",
    "SendImpossible",
    "SendMode",
    "SendReceipt",
    "SendRefused",
    "SendUnknown",
    "Sending",
    "SlaveState",
    "SomeFailed",
    "StartFrom",
    "StateNotSaved",
    "Subscription",
    "TlsConfig",
    "Topic",
    "TopicCounts",
    "TopicNotFound",
    "TopicRates",
    "TopicReader",
    "TopicReaderConfig",
    "TopicSettings",
    "TopicStatistics",
    "TraceEvent",
    "Traffic",
    "Transaction",
    "TransactionEnd",
    "TransactionProducer",
    "TransactionState",
    "TypedOn",
    "Undecodable",
    "Unreachable",
    "UsedAfterFork",
    "UserPolicy",
    "UserSettings",
    "WaitingMessages",
    "WrongLoop",
    "average",
    "circle",
    "pipeline",
    "reply_to",
    "testing",
]

_ROOMS: Final = frozenset({"pipeline", "testing"})
_HOMES: Final = {
    "AccountSettings": "roquet.client.admin.cluster",
    "Admin": "roquet.client.blocking.admin",
    "AdminConfig": "roquet.client.admin.servers",
    "Allocation": "roquet.client.group.allocation",
    "AsyncAdmin": "roquet.client.admin.admin",
    "AsyncProducer": "roquet.client.producer.producer",
    "AsyncPopConsumer": "roquet.client.pop.consumer",
    "AsyncPullConsumer": "roquet.client.pull.consumer",
    "AsyncPushConsumer": "roquet.client.push.consumer",
    "AsyncTopicReader": "roquet.client.reader.reader",
    "AsyncTransactionProducer": "roquet.client.producer.transaction_producer",
    "Attempt": "roquet.client.hooks",
    "BadAddress": "roquet.client.errors",
    "BadArgument": "roquet.client.errors",
    "BadMessage": "roquet.protocol.errors",
    "BadStateFile": "roquet.state_file",
    "BatchReceipt": "roquet.client.producer.receipt",
    "Bounds": "roquet.client.reader.reader",
    "BrokerAccounts": "roquet.client.admin.cluster",
    "BrokerInfo": "roquet.client.admin.cluster",
    "Displacement": "roquet.client.admin.cluster",
    "DivergentMessages": "roquet.client.admin.cluster",
    "LostBroker": "roquet.client.admin.missing",
    "LetterPlace": "roquet.client.admin.dead_letters",
    "Resent": "roquet.client.admin.dead_letters",
    "Deliveries": "roquet.client.admin.deliveries",
    "DeliveryState": "roquet.client.admin.deliveries",
    "GroupDelivery": "roquet.client.admin.deliveries",
    "BrokerTables": "roquet.client.admin.inspection",
    "Cleaning": "roquet.client.admin.inspection",
    "ConnectedProducer": "roquet.client.admin.producers",
    "MasterState": "roquet.client.admin.inspection",
    "Promotion": "roquet.client.admin.cluster",
    "BrokerRoute": "roquet.client.admin.topics",
    "ClientConnection": "roquet.client.admin.groups",
    "ClientError": "roquet.client.errors",
    "Codec": "roquet.client.typed.codecs",
    "Compression": "roquet.protocol.compression",
    "ConsistentHash": "roquet.client.group.allocation",
    "ConsumeHook": "roquet.client.hooks",
    "ConsumeOutcome": "roquet.client.hooks",
    "ConsumerStatistics": "roquet.client.push.statistics",
    "Consuming": "roquet.client.hooks",
    "Credentials": "roquet.client.config",
    "DeadLetter": "roquet.client.push.outcome",
    "Death": "roquet.client.received",
    "DelayedMessages": "roquet.client.admin.waiting",
    "DlqReason": "roquet.client.received",
    "FixedQueues": "roquet.client.group.allocation",
    "GroupMembers": "roquet.client.admin.groups",
    "GroupNotFound": "roquet.client.errors",
    "GroupProgress": "roquet.client.admin.progress",
    "GroupSettings": "roquet.client.admin.groups",
    "MachineRoom": "roquet.client.group.allocation",
    "MachineRoomNearby": "roquet.client.group.allocation",
    "MemberInfo": "roquet.client.admin.groups",
    "MemberQueue": "roquet.client.admin.groups",
    "MemberRates": "roquet.client.admin.groups",
    "MemberSilent": "roquet.client.admin.groups",
    "PastMember": "roquet.client.admin.groups",
    "MessageInHand": "roquet.client.admin.groups",
    "MembersConnected": "roquet.client.errors",
    "Message": "roquet.protocol.messages.message",
    "MessageKind": "roquet.client.hooks",
    "MessageNotFound": "roquet.client.errors",
    "Middleware": "roquet.client.middleware",
    "MissingBroker": "roquet.client.admin.missing",
    "NoBroker": "roquet.client.errors",
    "NoNameServer": "roquet.client.errors",
    "NoReply": "roquet.client.errors",
    "NoTimers": "roquet.client.errors",
    "NotConnected": "roquet.client.errors",
    "NotOpen": "roquet.client.errors",
    "NotTheLongestLog": "roquet.client.errors",
    "NotYetSafe": "roquet.client.errors",
    "NothingToRead": "roquet.client.errors",
    "OffsetStore": "roquet.client.group.offsets",
    "OffsetsGone": "roquet.client.errors",
    "Permission": "roquet.protocol.codes",
    "PreparedMessage": "roquet.client.producer.transaction_producer",
    "Producer": "roquet.client.blocking.producer",
    "ProducerConfig": "roquet.client.config",
    "ProducerStatistics": "roquet.client.producer.receipt",
    "PopConsumer": "roquet.client.blocking.consumers",
    "PopConsumerConfig": "roquet.client.pop.consumer",
    "PullConsumer": "roquet.client.blocking.consumers",
    "PullConsumerConfig": "roquet.client.pull.config",
    "PullProgress": "roquet.client.pull.consumer",
    "PullStatistics": "roquet.client.pull.consumer",
    "PullStatus": "roquet.client.cluster.pulling",
    "Pulled": "roquet.client.cluster.pulling",
    "PushConsumer": "roquet.client.blocking.consumers",
    "PushConsumerConfig": "roquet.client.push.config",
    "PushProgress": "roquet.client.push.statistics",
    "QueueEntries": "roquet.client.admin.inspection",
    "QueueEntry": "roquet.client.admin.inspection",
    "QueueMove": "roquet.client.admin.resets",
    "QueueProgress": "roquet.client.admin.progress",
    "QueueRef": "roquet.client.queue_ref",
    "QueueStatistics": "roquet.client.admin.topics",
    "ReceivedMessage": "roquet.client.received",
    "RecordChunk": "roquet.client.reader.chunk",
    "ReplicationStatus": "roquet.client.admin.inspection",
    "RequestRefused": "roquet.client.errors",
    "ResetPlan": "roquet.client.admin.resets",
    "ResponseCode": "roquet.protocol.codes",
    "RetryLater": "roquet.client.push.outcome",
    "SendError": "roquet.client.errors",
    "SendFailed": "roquet.client.errors",
    "SendForbidden": "roquet.client.errors",
    "SendHook": "roquet.client.hooks",
    "SendImpossible": "roquet.client.errors",
    "SendMode": "roquet.client.hooks",
    "SendReceipt": "roquet.client.producer.receipt",
    "SendRefused": "roquet.client.errors",
    "SendUnknown": "roquet.client.errors",
    "Sending": "roquet.client.hooks",
    "SlaveState": "roquet.client.admin.inspection",
    "SomeFailed": "roquet.client.errors",
    "StartFrom": "roquet.client.group.start_offset",
    "StateNotSaved": "roquet.state_file",
    "Subscription": "roquet.protocol.subscription",
    "TlsConfig": "roquet.client.config",
    "Topic": "roquet.client.typed.topic",
    "TopicCounts": "roquet.client.push.statistics",
    "TopicNotFound": "roquet.client.errors",
    "TopicRates": "roquet.client.push.statistics",
    "TopicReader": "roquet.client.blocking.reader",
    "TopicReaderConfig": "roquet.client.reader.reader",
    "TopicSettings": "roquet.client.admin.topics",
    "TopicStatistics": "roquet.client.admin.topics",
    "TraceEvent": "roquet.client.admin.messages",
    "Traffic": "roquet.client.admin.inspection",
    "Transaction": "roquet.client.producer.transaction_producer",
    "TransactionEnd": "roquet.client.hooks",
    "TransactionProducer": "roquet.client.blocking.producer",
    "TransactionState": "roquet.client.hooks",
    "TypedOn": "roquet.client.typed.topic",
    "Undecodable": "roquet.client.typed.topic",
    "Unreachable": "roquet.client.errors",
    "UsedAfterFork": "roquet.client.errors",
    "UserPolicy": "roquet.client.admin.users",
    "UserSettings": "roquet.client.admin.users",
    "WaitingMessages": "roquet.client.admin.waiting",
    "WrongLoop": "roquet.client.errors",
    "average": "roquet.client.group.allocation",
    "circle": "roquet.client.group.allocation",
    "reply_to": "roquet.client.producer.request_reply",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
