"""What a client tells a broker about itself every 30 seconds (34)."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.subscription_data import SubscriptionData
from roquet.protocol.fields import Int32


class ConsumeType(StrEnum):
    PULL = "CONSUME_ACTIVELY"
    PUSH = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(StrEnum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


# C++ clients send the place of a name in Java's enum, which Java reads as well as the name.
_CONSUME_TYPES: Final = tuple(ConsumeType)
_MESSAGE_MODELS: Final = tuple(MessageModel)
_STARTS: Final = (
    ConsumeFromWhere.LAST_OFFSET,
    # No client uses these three any more, but they have their places.
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    ConsumeFromWhere.FIRST_OFFSET,
    ConsumeFromWhere.TIMESTAMP,
)

# A number becomes a text as soon as it is read: nobody sees it.
if TYPE_CHECKING:
    _Choice = str
else:
    _Choice = str | Int32


class ProducerData(Body, kw_only=True):
    group_name: str


class ConsumerData(Body, kw_only=True):
    """One consumer group of a client.

    The three choices are plain texts: clients of other languages send names that are in no
    enum, or none at all, and Java accepts them all the same.
    """

    consume_from_where: _Choice | None = None
    consume_type: _Choice | None = None
    group_name: str
    message_model: _Choice | None = None
    subscription_data_set: list[SubscriptionData] = always([])
    unit_mode: bool = always(False)

    def __post_init__(self) -> None:
        self.consume_from_where = _name(self.consume_from_where, _STARTS)
        self.consume_type = _name(self.consume_type, _CONSUME_TYPES)
        self.message_model = _name(self.message_model, _MESSAGE_MODELS)


class Heartbeat(Body, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] = always([])
    # 5.x: a hash of the subscriptions, which may then be left out; 0 means not used.
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[ProducerData] = always([])
    without_sub: bool = False


def _name(choice: str | int | None, names: Sequence[str]) -> str | None:
    """None for a place that Java's enum does not have."""
    if isinstance(choice, int):
        return names[choice] if 0 <= choice < len(names) else None
    return choice
