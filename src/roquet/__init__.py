"""RocketMQ in Python, its data pipeline on Spark.

    from roquet import Message, Producer

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from roquet.errors import RoquetError

if TYPE_CHECKING:
    from roquet.client.blocking import Producer
    from roquet.client.blocking_consumers import PushConsumer
    from roquet.client.blocking_transactions import TransactionProducer
    from roquet.client.config import Credentials
    from roquet.client.hooks import SendHook, Sending, TransactionState
    from roquet.client.outcome import DeadLetter, RetryLater
    from roquet.client.producer import AsyncProducer
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
    "AsyncProducer",
    "AsyncPushConsumer",
    "AsyncTransactionProducer",
    "Credentials",
    "DeadLetter",
    "Message",
    "Producer",
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
    "Transaction",
    "TransactionProducer",
    "TransactionState",
    "reply_to",
]

_HOMES: Final = {
    "AsyncProducer": "roquet.client.producer",
    "AsyncPushConsumer": "roquet.client.push_consumer",
    "AsyncTransactionProducer": "roquet.client.transaction_producer",
    "Credentials": "roquet.client.config",
    "DeadLetter": "roquet.client.outcome",
    "Message": "roquet.protocol.message",
    "Producer": "roquet.client.blocking",
    "PushConsumer": "roquet.client.blocking_consumers",
    "QueueRef": "roquet.client.receipt",
    "ReceivedMessage": "roquet.client.received",
    "RetryLater": "roquet.client.outcome",
    "SendHook": "roquet.client.hooks",
    "SendReceipt": "roquet.client.receipt",
    "Sending": "roquet.client.hooks",
    "StartFrom": "roquet.client.starting",
    "TlsConfig": "roquet.client.tls",
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
