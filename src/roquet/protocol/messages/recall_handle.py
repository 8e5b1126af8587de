"""What a message with a delivery time of its own is recalled with, as 5.x brokers name it.

It is the padded base64url of five words:

    v1 orders broker-a 1794936077001 0102FC0000000179E70B0E270500000000

    version, topic, broker, one millisecond after TIMER_OUT_MS, id of the message

The reply to the send has it, for producers to keep and to hand back; they need not read it. Broker
and client both do: the one to find the message, the other to find the broker.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

from roquet.protocol.errors import BadMessage

HANDLE_SIZE_MAX: Final = 1_024

_VERSION: Final = "v1"
_DIGITS_MAX: Final = 15


class RecallHandle(NamedTuple):
    topic: str
    broker_name: str
    time_ms: int
    message_id: str

    @property
    def text(self) -> str:
        return urlsafe_b64encode(" ".join([_VERSION, *map(str, self)]).encode()).decode()

    @classmethod
    def read(cls, text: str) -> "RecallHandle":
        """Raises BadMessage."""
        try:
            items = urlsafe_b64decode(text[:HANDLE_SIZE_MAX]).decode().split(" ")
        except (binascii.Error, ValueError):
            items = []
        if len(items) != len(cls._fields) + 1 or items[0] != _VERSION:
            raise BadMessage(
                f"{text[:20]!r} is no recall handle: take it from the receipt of a timed send"
            )
        _, topic, broker_name, time_ms, message_id = items
        if not (time_ms.isascii() and time_ms.isdigit() and len(time_ms) <= _DIGITS_MAX):
            raise BadMessage(f"{time_ms[:20]!r} is no time: the recall handle was changed")
        return cls(topic, broker_name, int(time_ms), message_id)
