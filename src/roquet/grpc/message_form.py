"""Messages as SDKs send and get them, and as they are stored.

    system property                          stored
    tag, keys, message_id                    TAGS, KEYS (separated by spaces), UNIQ_KEY
    message_group                            __SHARDINGKEY
    delivery_timestamp                       TIMER_DELIVER_MS
    orphaned_transaction_recovery_duration   CHECK_IMMUNITY_TIME_IN_SECONDS
    born_host, born_timestamp                __BORNHOST, BORN_TIMESTAMP
    trace_context                            TRACE_CONTEXT
    dead_letter_queue                        DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID
    body_encoding GZIP                       sys_flag; the bytes stay as they are
    delivery_attempt                         reconsume_times + 1

User properties are all others. Names that brokers and clients give a meaning are not shown as
such, and may not be sent as such.
"""

import hashlib
from typing import Final

from roquet.grpc.codes import DigestType, Encoding, MessageType
from roquet.grpc.schema import Message, pb
from roquet.protocol.messages.message import Property, StoredMessage, SysFlag

_COMPRESSED: Final = SysFlag.COMPRESSED.value
_COMPRESSION_MASK: Final = SysFlag.COMPRESSION_MASK.value
# What SDKs can unpack themselves.
_ZLIB: Final = (0, SysFlag.COMPRESSION_ZLIB.value)
_TIMERS: Final = (
    Property.DELAY,
    Property.TIMER_DELAY_S,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
    Property.TIMER_OUT_MS,
)
# Those that are shown as they are stored.
_TEXTS: Final = (
    ("tag", Property.TAGS),
    ("message_group", Property.SHARDING_KEY),
    ("trace_context", Property.TRACE_CONTEXT),
)
# Every name that is declared, but for those that our own consumers add for their users.
SYSTEM_NAMES: Final = frozenset(
    value
    for name, value in vars(Property).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("DEAD_")
) | {"__LITE_TOPIC", "_SYS_MSG_PRIORITY_", "POP_NEXT"}


def put_time(timestamp: Message, time_ms: int) -> None:
    timestamp.seconds, rest = divmod(time_ms, 1000)
    timestamp.nanos = rest * 1_000_000


def ms_of(time: Message) -> int:
    """Of a time, or of a duration."""
    return int(time.seconds * 1000 + time.nanos // 1_000_000)


def duration_of(time_ms: int) -> Message:
    duration = pb.Duration()
    put_time(duration, time_ms)
    return duration


def shown_message(message: StoredMessage, topic: str) -> Message:
    """As a client gets it. Raises TooLarge and BadMessage for a body that cannot be unpacked."""
    shown = pb.Message()
    put_message(shown, message, topic)
    return shown


def put_message(
    shown: Message, message: StoredMessage, topic: str, receipt_handle: str | None = None
) -> None:
    """Fills it where it is: what is built apart is copied. Raises as `shown_message` does."""
    properties = message.properties
    system = shown.system_properties
    body, system.body_encoding = _shown_body(message)
    shown.body = body
    shown.topic.resource_namespace, shown.topic.name = _split_name(topic)
    system.keys.extend(message.keys)
    system.message_id = message.message_id
    system.body_digest.type = DigestType.MD5
    system.body_digest.checksum = _md5(body)
    system.message_type = _type_of(properties)
    system.born_host = properties.get(Property.BORN_HOST) or message.born_address.ip
    system.store_host = str(message.store_address)
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    system.delivery_attempt = message.reconsume_times + 1
    for field, name in _TEXTS:
        if name in properties:
            setattr(system, field, properties[name])
    if receipt_handle is not None:
        system.receipt_handle = receipt_handle
    put_time(system.born_timestamp, message.born_timestamp)
    put_time(system.store_timestamp, message.store_timestamp)
    delivery = properties.get(Property.TIMER_DELIVER_MS, "")
    if delivery.isdecimal():
        put_time(system.delivery_timestamp, int(delivery))
    if Property.DLQ_ORIGIN_TOPIC in properties:
        system.dead_letter_queue.topic = properties[Property.DLQ_ORIGIN_TOPIC]
        system.dead_letter_queue.message_id = properties.get(Property.DLQ_ORIGIN_MESSAGE_ID, "")
    for key, value in properties.items():
        if key not in SYSTEM_NAMES:
            shown.user_properties.add(key=key, value=value)


def _shown_body(message: StoredMessage) -> tuple[bytes, Encoding]:
    if not message.sys_flag & _COMPRESSED:
        return message.body, Encoding.IDENTITY
    if message.sys_flag & _COMPRESSION_MASK in _ZLIB:
        return message.body, Encoding.GZIP
    return message.decompressed_body(), Encoding.IDENTITY


def resource_of(name: str) -> Message:
    """A namespace that is part of a name is shown apart."""
    namespace, rest = _split_name(name)
    return pb.Resource(resource_namespace=namespace, name=rest)


def _split_name(name: str) -> tuple[str, str]:
    namespace, _, rest = name.partition("%")
    return (namespace, rest) if namespace and rest else ("", name)


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def _type_of(properties: dict[str, str]) -> MessageType:
    if properties.get(Property.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION  # Committed or not, as at Apache.
    if any(name in properties for name in _TIMERS):
        return MessageType.DELAY
    if Property.SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.NORMAL
