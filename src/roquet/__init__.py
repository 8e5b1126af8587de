"""RocketMQ in Python, its data pipeline on Spark.

    from roquet import Message, Producer

The public names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from roquet.errors import RoquetError

if TYPE_CHECKING:
    from roquet.client.blocking import Producer
    from roquet.client.config import Credentials
    from roquet.client.producer import AsyncProducer
    from roquet.client.receipt import QueueRef, SendReceipt
    from roquet.protocol.message import Message

__version__ = "0.1.0"

__all__ = [
    "AsyncProducer",
    "Credentials",
    "Message",
    "Producer",
    "QueueRef",
    "RoquetError",
    "SendReceipt",
]

_HOMES: Final = {
    "AsyncProducer": "roquet.client.producer",
    "Credentials": "roquet.client.config",
    "Message": "roquet.protocol.message",
    "Producer": "roquet.client.blocking",
    "QueueRef": "roquet.client.receipt",
    "SendReceipt": "roquet.client.receipt",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value
