"""A message as its sender hands it over and as its reader gets it.

The bytes of a stored message are drawn in `record.py`.
"""

from collections.abc import Mapping, Sequence
from enum import IntFlag
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, final
from uuid import UUID

import msgspec

from roquet.protocol.compression import DECOMPRESSED_SIZE_MAX, decompress
from roquet.protocol.fields import Int32
from roquet.protocol.host import Address, unpack_host
from roquet.protocol.messages.message_id import offset_id
from roquet.protocol.messages.properties import parse_properties, property_of_bytes

KEY_SEPARATOR: Final = " "

# What producers take for the keys of a message: one, or several.
Key: TypeAlias = str | int | UUID
Keys: TypeAlias = Key | Sequence[Key]


class Property:
    """Names that peers give a meaning. Users may take any other name."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    UNIQUE_KEY: Final = "UNIQ_KEY"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    CLUSTER: Final = "CLUSTER"
    INSTANCE_ID: Final = "INSTANCE_ID"
    # Where a message belongs that waits elsewhere: delayed, prepared, to be tried again.
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QUEUE_ID: Final = "REAL_QID"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
    # Added by our consumers to a message that they gave up.
    DEAD_REASON: Final = "DEAD_LETTER_REASON"
    DEAD_ERROR: Final = "DEAD_LETTER_ERROR"
    DEAD_TRIES: Final = "DEAD_LETTER_TRIES"
    # Transactions.
    TRANSACTION_PREPARED: Final = "TRAN_MSG"
    PRODUCER_GROUP: Final = "PGROUP"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    CHECK_IMMUNITY_TIME_S: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    # Set by a consumer on what it pulled.
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    # Requests and their replies.
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    MESSAGE_TYPE: Final = "MSG_TYPE"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    # Tracing.
    MESSAGE_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    # One record in many queues, many messages in one record.
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    # Timers of 5.x.
    TIMER_DELAY_S: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_DELETE_UNIQUE_KEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    # Pop consumption of 5.x.
    POP_CHECK_POINT: Final = "POP_CK"
    POP_CHECK_POINT_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    ORIGIN_GROUP: Final = "ORIGIN_GROUP"
    # Of ours: which delivery a retry replaces.
    POP_ORIGIN: Final = "POP_ORIGIN"
    # The rest of 5.x.
    SHARDING_KEY: Final = "__SHARDINGKEY"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    DUPLICATE_INFO: Final = "DUP_INFO"
    EXTEND_UNIQUE_INFO: Final = "EXTEND_UNIQ_INFO"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    CHECKSUM: Final = "__CRC32#"
    TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."
    # Long out of use, still reserved.
    BUYER_ID: Final = "BUYER_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"


class SysFlag(IntFlag):
    """Bits of `sys_flag`. Operators on them are slow; hot paths take `.value` once."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300
    COMPRESSION_MASK = 0x700


_COMPRESSED: Final = SysFlag.COMPRESSED.value
_TAGS: Final = Property.TAGS.encode()
_KEYS: Final = Property.KEYS.encode()
_UNIQUE_KEY: Final = Property.UNIQUE_KEY.encode()


class Message(msgspec.Struct, gc=False):
    """What a producer hands over.

    Consumers filter by `tags`, which is one word; messages are found by their `keys`, texts,
    numbers or UUIDs, of which one may stand alone; `properties` are names and texts that travel
    along. Its `message_id` is made by the producer, unless it is
    given: what is sent again under its id is known again by consumers.

    For example:

        Message("orders", b"one coffee", tags="new", keys=("order-1",), properties={"city": "Rome"})
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}
    flag: Int32 = 0
    message_id: str | None = None

    if TYPE_CHECKING:
        # Producers take more than they hand on: what middleware and hooks see is as above.
        def __init__(
            self,
            topic: str,
            body: bytes | bytearray | memoryview,
            tags: str | None = None,
            keys: Keys = (),
            properties: Mapping[str, str] = {},
            flag: int = 0,
            message_id: str | None = None,
        ) -> None: ...

    def all_properties(self) -> dict[str, str]:
        """A new map: the properties, with tags and keys among them."""
        named = dict(self.properties)
        if self.tags:
            named[Property.TAGS] = self.tags
        if self.keys:
            named[Property.KEYS] = KEY_SEPARATOR.join(self.keys)
        return named


@final
class StoredMessage(msgspec.Struct, dict=True):
    """What a reader gets: one record, its members in the order of the record.

    Texts that are no UTF-8 are shown with replacement characters, as Java does.
    """

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes  # as stored, maybe compressed
    topic: str
    raw_properties: bytes

    @cached_property
    def properties(self) -> dict[str, str]:
        return parse_properties(self.property_text)

    @property
    def property_text(self) -> str:
        return str(self.raw_properties, "utf-8", "replace")

    @property
    def tags(self) -> str | None:
        return self._property(_TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        keys = self._property(_KEYS)
        return tuple(filter(None, keys.split(KEY_SEPARATOR))) if keys else ()

    @property
    def message_id(self) -> str:
        """The id its producer gave it, else the id of its place."""
        return self._property(_UNIQUE_KEY) or self.offset_id

    @property
    def offset_id(self) -> str:
        return offset_id(self.store_host, self.physical_offset)

    @property
    def born_address(self) -> Address:
        return unpack_host(self.born_host)

    @property
    def store_address(self) -> Address:
        return unpack_host(self.store_host)

    def decompressed_body(self, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
        """Raises TooLarge when the body would grow beyond `size_max`, else BadMessage."""
        if self.sys_flag & _COMPRESSED:
            return decompress(self.body, self.sys_flag, size_max)
        return self.body

    def _property(self, name: bytes) -> str | None:
        value = property_of_bytes(self.raw_properties, name)
        return None if value is None else str(value, "utf-8", "replace")
