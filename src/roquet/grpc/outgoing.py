"""Messages that SDKs send: what they may be, and the properties they are stored with.

What a message is follows from its properties, and has to be what its topic takes. A message group
keeps to one queue as long as the topic has as many, chosen as Apache's proxy chooses it.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from roquet.grpc.codes import Code, MessageType, RefusedCall
from roquet.grpc.message_form import SYSTEM_NAMES, ms_of
from roquet.grpc.schema import Message
from roquet.protocol.messages.message import KEY_SEPARATOR, Property

BODY_SIZE_MAX: Final = 4 * 1024 * 1024
PROPERTY_COUNT_MAX: Final = 128
PROPERTIES_SIZE_MAX: Final = 16 * 1024
GROUP_SIZE_MAX: Final = 64
DELAY_MS_MAX: Final = 24 * 3_600_000
RECOVERY_MS_MAX: Final = 3_600_000
# Messages of one request; an answer has a result for each.
BATCH_COUNT_MAX: Final = 1024

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_request(messages: Sequence[Message]) -> None:
    """Raises RefusedCall."""
    if not 0 < len(messages) <= BATCH_COUNT_MAX:
        text = f"a request has 1 to {BATCH_COUNT_MAX} messages and not {len(messages)}"
        raise RefusedCall(Code.MESSAGE_CORRUPTED, text)
    if any(each.topic.name != messages[0].topic.name for each in messages):
        raise RefusedCall(Code.MESSAGE_CORRUPTED, "messages of one request have one topic")


def checked_kind(
    topic: str, accepted: Collection[MessageType], message: Message, now_ms: int
) -> MessageType:
    """What the message is; `accepted` is what its topic takes. Raises RefusedCall."""
    system = message.system_properties
    if not message.body:
        raise RefusedCall(Code.MESSAGE_BODY_EMPTY, "a message has a body")
    if len(message.body) > BODY_SIZE_MAX:
        text = f"a body of {len(message.body)} bytes is larger than {BODY_SIZE_MAX}"
        raise RefusedCall(Code.MESSAGE_BODY_TOO_LARGE, text)
    if not system.message_id.strip():
        raise RefusedCall(Code.ILLEGAL_MESSAGE_ID, "a message has an id, made by its client")
    _check_texts(message)
    if ms_of(system.delivery_timestamp) - now_ms > DELAY_MS_MAX:
        text = f"a message is delivered within {DELAY_MS_MAX // 3_600_000} hours"
        raise RefusedCall(Code.ILLEGAL_DELIVERY_TIME, text)
    if ms_of(system.orphaned_transaction_recovery_duration) > RECOVERY_MS_MAX:
        text = f"a transaction is asked about within {RECOVERY_MS_MAX // 60_000} minutes"
        raise RefusedCall(Code.BAD_REQUEST, text)
    kind = _kind_of(system)
    if kind not in accepted:
        names = ", ".join(each.name for each in accepted)
        text = f"topic {topic!r} takes {names} and not {kind.name} messages"
        raise RefusedCall(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
    return kind


def _check_texts(message: Message) -> None:
    system = message.system_properties
    if system.HasField("tag") and (not _is_text(system.tag) or "|" in system.tag):
        raise RefusedCall(Code.ILLEGAL_MESSAGE_TAG, f"{system.tag[:100]!r} is no tag")
    for key in system.keys:
        if not _is_text(key):
            raise RefusedCall(Code.ILLEGAL_MESSAGE_KEY, f"{key[:100]!r} is no key")
    group = system.message_group
    if system.HasField("message_group") and (
        not _is_text(group) or len(group.encode()) >= GROUP_SIZE_MAX
    ):
        raise RefusedCall(Code.ILLEGAL_MESSAGE_GROUP, f"{group[:100]!r} is no message group")
    size = len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
    for each in message.user_properties:
        if each.key in SYSTEM_NAMES or _CONTROL.search(each.key + each.value):
            text = f"no client may set the property {each.key[:100]!r} to that value"
            raise RefusedCall(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        size += len(each.key.encode()) + len(each.value.encode())
    if len(message.user_properties) > PROPERTY_COUNT_MAX or size > PROPERTIES_SIZE_MAX:
        text = (
            f"{len(message.user_properties)} properties of {size} bytes: at most"
            f" {PROPERTY_COUNT_MAX} of {PROPERTIES_SIZE_MAX} bytes together"
        )
        raise RefusedCall(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)


def _is_text(text: str) -> bool:
    return bool(text.strip()) and not _CONTROL.search(text)


def _kind_of(system: Message) -> MessageType:
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.HasField("message_group"):
        return MessageType.FIFO
    if system.HasField("priority"):
        return MessageType.PRIORITY
    return MessageType.NORMAL


def stored_properties(topic: str, message: Message, kind: MessageType) -> dict[str, str]:
    """The user's, and what the message is."""
    system = message.system_properties
    found = {
        Property.UNIQUE_KEY: system.message_id,
        # Who is asked about transactions: any client that publishes the topic.
        Property.PRODUCER_GROUP: topic,
        Property.BORN_TIMESTAMP: str(ms_of(system.born_timestamp)),
        Property.TAGS: system.tag,
        Property.KEYS: KEY_SEPARATOR.join(system.keys),
        Property.BORN_HOST: system.born_host,
        Property.SHARDING_KEY: system.message_group,
        Property.TRACE_CONTEXT: system.trace_context,
    }
    if kind is MessageType.DELAY:
        found[Property.TIMER_DELIVER_MS] = str(ms_of(system.delivery_timestamp))
    if kind is MessageType.TRANSACTION:
        found[Property.TRANSACTION_PREPARED] = "true"
        recovery_ms = ms_of(system.orphaned_transaction_recovery_duration)
        if recovery_ms:
            found[Property.CHECK_IMMUNITY_TIME_S] = str(-(-recovery_ms // 1000))
    properties = {each.key: each.value for each in message.user_properties}
    properties.update({name: value for name, value in found.items() if value})
    return properties


def queue_index(messages: Sequence[Message], count: int, turn: int) -> int:
    """Which of `count` queues a request goes to: the next one, but for one of a message group."""
    group = messages[0].system_properties.message_group if len(messages) == 1 else ""
    return consistent_hash(java_hash(group), count) if group else turn % count


def java_hash(text: str) -> int:
    """Java's `String.hashCode`."""
    found = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        found = (31 * found + int.from_bytes(data[index : index + 2])) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def consistent_hash(number: int, bucket_count: int) -> int:
    """The jump hash of Lamping and Veach, with the random numbers of Guava."""
    state = number & 0xFFFFFFFFFFFFFFFF
    bucket = 0
    while True:
        state = (2862933555777941757 * state + 1) & 0xFFFFFFFFFFFFFFFF
        random = ((state >> 33) + 1) / (1 << 31)
        following = int((bucket + 1) / random)
        if following >= bucket_count:
            return bucket
        bucket = following
