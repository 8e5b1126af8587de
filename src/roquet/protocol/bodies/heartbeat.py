"""What a client tells a broker about itself every 30 seconds (34)."""

from enum import StrEnum

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


class ProducerData(Body, kw_only=True):
    group_name: str


class ConsumerData(Body, kw_only=True):
    """One consumer group of a client.

    The three choices are plain texts: clients of other languages send names that are in no
    enum, or none at all, and Java takes them on all the same.
    """

    consume_from_where: str | None = None
    consume_type: str | None = None
    group_name: str
    message_model: str | None = None
    subscription_data_set: list[SubscriptionData] = always([])
    unit_mode: bool = always(False)


class Heartbeat(Body, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] = always([])
    # 5.x: a hash of the subscriptions, which may then be left out; 0 means not used.
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[ProducerData] = always([])
    without_sub: bool = False
