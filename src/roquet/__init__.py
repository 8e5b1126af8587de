"""RocketMQ in Python, its data pipeline on Spark.

    from roquet import Message, Producer

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from roquet.errors import RoquetError

if TYPE_CHECKING:
    from roquet.client.admin.admin import AsyncAdmin
    from roquet.client.admin.groups import GroupSettings
    from roquet.client.admin.topics import TopicSettings
    from roquet.client.blocking.admin import Admin
    from roquet.client.blocking.consumers import PullConsumer, PushConsumer
    from roquet.client.blocking.producer import Producer
    from roquet.client.blocking.reader import TopicReader
    from roquet.client.blocking.transactions import TransactionProducer
    from roquet.client.cluster.tls import TlsConfig
    from roquet.client.config import Credentials
    from roquet.client.group.start_offset import StartFrom
    from roquet.client.hooks import SendHook, Sending, TransactionState
    from roquet.client.producer.producer import AsyncProducer
    from roquet.client.producer.receipt import BatchReceipt, SendReceipt
    from roquet.client.producer.request_reply import reply_to
    from roquet.client.producer.transaction_producer import (
        AsyncTransactionProducer,
        PreparedMessage,
        Transaction,
    )
    from roquet.client.pull.consumer import AsyncPullConsumer
    from roquet.client.push.consumer import AsyncPushConsumer
    from roquet.client.push.outcome import DeadLetter, RetryLater
    from roquet.client.queue_ref import QueueRef
    from roquet.client.reader.chunk import RecordChunk
    from roquet.client.reader.reader import AsyncTopicReader
    from roquet.client.received import ReceivedMessage
    from roquet.protocol.messages.message import Message

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "AsyncTopicReader",
    "AsyncTransactionProducer",
    "BatchReceipt",
    "Credentials",
    "DeadLetter",
    "GroupSettings",
    "Message",
    "PreparedMessage",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "QueueRef",
    "ReceivedMessage",
    "RecordChunk",
    "RetryLater",
    "RoquetError",
    "SendHook",
    "SendReceipt",
    "Sending",
    "StartFrom",
    "TlsConfig",
    "TopicReader",
    "TopicSettings",
    "Transaction",
    "TransactionProducer",
    "TransactionState",
    "reply_to",
]

_HOMES: Final = {
    "Admin": "roquet.client.blocking.admin",
    "AsyncAdmin": "roquet.client.admin.admin",
    "AsyncProducer": "roquet.client.producer.producer",
    "AsyncPullConsumer": "roquet.client.pull.consumer",
    "AsyncPushConsumer": "roquet.client.push.consumer",
    "AsyncTopicReader": "roquet.client.reader.reader",
    "AsyncTransactionProducer": "roquet.client.producer.transaction_producer",
    "BatchReceipt": "roquet.client.producer.receipt",
    "Credentials": "roquet.client.config",
    "DeadLetter": "roquet.client.push.outcome",
    "GroupSettings": "roquet.client.admin.groups",
    "Message": "roquet.protocol.messages.message",
    "PreparedMessage": "roquet.client.producer.transaction_producer",
    "Producer": "roquet.client.blocking.producer",
    "PullConsumer": "roquet.client.blocking.consumers",
    "PushConsumer": "roquet.client.blocking.consumers",
    "QueueRef": "roquet.client.queue_ref",
    "ReceivedMessage": "roquet.client.received",
    "RecordChunk": "roquet.client.reader.chunk",
    "RetryLater": "roquet.client.push.outcome",
    "SendHook": "roquet.client.hooks",
    "SendReceipt": "roquet.client.producer.receipt",
    "Sending": "roquet.client.hooks",
    "StartFrom": "roquet.client.group.start_offset",
    "TlsConfig": "roquet.client.cluster.tls",
    "TopicReader": "roquet.client.blocking.reader",
    "TopicSettings": "roquet.client.admin.topics",
    "Transaction": "roquet.client.producer.transaction_producer",
    "TransactionProducer": "roquet.client.blocking.transactions",
    "TransactionState": "roquet.client.hooks",
    "reply_to": "roquet.client.producer.request_reply",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value
