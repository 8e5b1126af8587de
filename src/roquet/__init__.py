"""RocketMQ in Python, its data pipeline on Spark.

    from roquet import Message, Producer

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from roquet.errors import RoquetError

if TYPE_CHECKING:
    from roquet.client.admin import AsyncAdmin
    from roquet.client.admin_groups import GroupSettings
    from roquet.client.admin_topics import TopicSettings
    from roquet.client.blocking import Producer
    from roquet.client.blocking_admin import Admin
    from roquet.client.blocking_consumers import PullConsumer, PushConsumer
    from roquet.client.blocking_transactions import TransactionProducer
    from roquet.client.config import Credentials
    from roquet.client.hooks import SendHook, Sending, TransactionState
    from roquet.client.outcome import DeadLetter, RetryLater
    from roquet.client.producer import AsyncProducer
    from roquet.client.pull_consumer import AsyncPullConsumer
    from roquet.client.push_consumer import AsyncPushConsumer
    from roquet.client.receipt import QueueRef, SendReceipt
    from roquet.client.received import ReceivedMessage
    from roquet.client.request_reply import reply_to
    from roquet.client.starting import StartFrom
    from roquet.client.tls import TlsConfig
    from roquet.client.transaction_producer import AsyncTransactionProducer, Transaction
    from roquet.protocol.message import Message

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "AsyncTransactionProducer",
    "Credentials",
    "DeadLetter",
    "GroupSettings",
    "Message",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "QueueRef",
    "ReceivedMessage",
    "RetryLater",
    "RoquetError",
    "SendHook",
    "SendReceipt",
    "Sending",
    "StartFrom",
    "TlsConfig",
    "TopicSettings",
    "Transaction",
    "TransactionProducer",
    "TransactionState",
    "reply_to",
]

_HOMES: Final = {
    "Admin": "roquet.client.blocking_admin",
    "AsyncAdmin": "roquet.client.admin",
    "AsyncProducer": "roquet.client.producer",
    "AsyncPullConsumer": "roquet.client.pull_consumer",
    "AsyncPushConsumer": "roquet.client.push_consumer",
    "AsyncTransactionProducer": "roquet.client.transaction_producer",
    "Credentials": "roquet.client.config",
    "DeadLetter": "roquet.client.outcome",
    "GroupSettings": "roquet.client.admin_groups",
    "Message": "roquet.protocol.message",
    "Producer": "roquet.client.blocking",
    "PullConsumer": "roquet.client.blocking_consumers",
    "PushConsumer": "roquet.client.blocking_consumers",
    "QueueRef": "roquet.client.receipt",
    "ReceivedMessage": "roquet.client.received",
    "RetryLater": "roquet.client.outcome",
    "SendHook": "roquet.client.hooks",
    "SendReceipt": "roquet.client.receipt",
    "Sending": "roquet.client.hooks",
    "StartFrom": "roquet.client.starting",
    "TlsConfig": "roquet.client.tls",
    "TopicSettings": "roquet.client.admin_topics",
    "Transaction": "roquet.client.transaction_producer",
    "TransactionProducer": "roquet.client.blocking_transactions",
    "TransactionState": "roquet.client.hooks",
    "reply_to": "roquet.client.request_reply",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value
