"""A message made ready for the wire: checked, delayed, given an id, compressed. No I/O."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, final
from uuid import UUID

import msgspec
from msgspec.structs import replace as replaced

from roquet.client.arguments import bad, check_count, check_moment, check_number, shown
from roquet.client.config import ProducerConfig
from roquet.client.errors import BadArgument
from roquet.client.hooks import MessageKind
from roquet.client.names import check_topic, wrapped
from roquet.client.producer.request_reply import ReplyMessage
from roquet.client.queue_ref import QueueRef
from roquet.protocol.codes import RequestCode
from roquet.protocol.compression import compress
from roquet.protocol.errors import BadMessage
from roquet.protocol.headers.messages import SendMessageHeaderV2
from roquet.protocol.messages.message import KEY_SEPARATOR, Message, Property, SysFlag
from roquet.protocol.messages.properties import (
    PROPERTIES_SIZE_MAX,
    properties_text,
)

# A time from now, or a moment; both need a broker with timers.
Delay = timedelta | datetime

_MILLISECOND: Final = timedelta(milliseconds=1)

_USERS_MAY_SET: Final = frozenset(
    {Property.WAIT, Property.SHARDING_KEY, Property.CHECK_IMMUNITY_TIME_S}
)
RESERVED_NAMES: Final = (
    frozenset(value for name, value in vars(Property).items() if name.isupper()) - _USERS_MAY_SET
)
# A character takes four bytes at most, so shorter texts need not be encoded to be measured.
_SURELY_FITS: Final = PROPERTIES_SIZE_MAX // 4
# The properties of a message without any of its own.
_UNIQUE_KEY_MARK: Final = properties_text({Property.UNIQUE_KEY: "?"}).removesuffix("?")
_WAIT_END: Final = properties_text({"?": "?", Property.WAIT: "true"}).partition("?\x01?")[2]
# Sizes of a message in a batch, besides its body and its properties.
ITEM_SIZE: Final = 22
# Beyond this count of messages that are gathered, a larger request saves nothing more.
GATHERED_COUNT_MAX: Final = 1000
_PREPARED: Final = SysFlag.TRANSACTION_PREPARED.value
_SEND: Final = RequestCode.SEND_MESSAGE_V2
BATCH: Final = RequestCode.SEND_BATCH_MESSAGE
_REPLY: Final = RequestCode.SEND_REPLY_MESSAGE_V2


@final
class Ready(msgspec.Struct, gc=False):
    """A message that is checked and has its id, and its properties as they are sent."""

    message: Message
    message_id: str
    properties: str
    kind: MessageKind = MessageKind.NORMAL
    # A broker without timers would deliver it at once.
    needs_timers: bool = False
    # The reply is pushed by the broker, so the producer has to be registered there.
    is_request: bool = False


@final
class Outgoing(msgspec.Struct, gc=False):
    """What a request needs besides its queue."""

    messages: Sequence[Ready]  # more than one in a batch
    topic: str
    wire_topic: str  # with the namespace, as brokers know it
    body: bytes
    properties: str
    code: RequestCode
    flag: int = 0
    sys_flag: int = 0
    # Of messages in a body that the program encoded; otherwise they are in `messages`.
    encoded_count: int | None = None

    @property
    def message_count(self) -> int:
        return len(self.messages) if self.encoded_count is None else self.encoded_count


def taken(message: Any) -> Any:
    """The message with members of kinds that programs have at hand as those that are sent: one key
    as a text, numbers and UUIDs as keys, views of bytes."""
    if not isinstance(message, Message):
        return message
    keys: Any = message.keys
    if isinstance(keys, str | int | UUID) and not isinstance(keys, bool):
        keys = (keys,) if keys != "" else ()
    if isinstance(keys, tuple | list) and not all(type(key) is str for key in keys):
        keys = tuple(_key(key) for key in keys)
    body: Any = message.body
    if isinstance(body, memoryview):
        body = body.tobytes()
    if keys is message.keys and body is message.body:
        return message
    return replaced(message, keys=keys, body=body)


def _key(key: Any) -> Any:
    is_number = isinstance(key, int) and not isinstance(key, bool)
    return str(key) if is_number or isinstance(key, UUID) else key


def check_message(message: Message, config: ProducerConfig) -> None:
    """Raises BadArgument for a message that no broker would accept."""
    if not isinstance(message, Message):
        raise bad("message", "a Message", message)
    check_topic(message.topic)
    body = message.body
    if type(body) is not bytes:
        _check_body(body)
    size = len(body)
    if not size:
        raise BadArgument("a message with an empty body cannot be sent", "body")
    if size > config.message_size_max:
        raise BadArgument(
            f"a body of {size} bytes is over `message_size_max` of {config.message_size_max}; "
            "send less, or raise it here and at the broker",
            "body",
        )
    if message.tags is not None:
        _check_tags(message.tags)
    if message.keys:
        _check_keys(message.keys)
    if message.properties:
        _check_properties(message)
    if message.message_id is not None:
        _check_id(message.message_id)
    if message.flag:
        check_number("flag", message.flag, -(2**31), 2**31 - 1)


def _check_body(body: object) -> None:
    if isinstance(body, str):
        raise BadArgument(
            f"`body` has to be bytes, not the text {shown(body)}: use .encode()", "body"
        )
    if not isinstance(body, bytes | bytearray):
        raise bad("body", "bytes", body)


def _check_tags(tags: object) -> None:
    if not isinstance(tags, str):
        raise bad("tags", "a text", tags)
    if "||" in tags:
        raise BadArgument(
            f"a message has one tag, not {shown(tags)}: only subscriptions join tags by ||", "tags"
        )
    if tags != tags.strip():
        raise BadArgument(
            f"`tags` {shown(tags)} starts or ends with a blank: no subscription could match",
            "tags",
        )


def _check_id(message_id: object) -> None:
    if not isinstance(message_id, str) or not message_id:
        raise bad("message_id", "a text that is not empty", message_id)
    if KEY_SEPARATOR in message_id or not message_id.isprintable():
        raise bad("message_id", "a text without blanks", message_id)


def _check_keys(keys: object) -> None:
    if not isinstance(keys, tuple | list):
        raise bad("keys", "a tuple of texts", keys)
    for key in keys:
        if not isinstance(key, str) or not key:
            raise bad("each of keys", "a text that is not empty", key)
        if KEY_SEPARATOR in key:
            raise BadArgument(
                f"`keys` {shown(keys)} must not have spaces, which separate keys", "keys"
            )


def _check_properties(message: Message) -> None:
    properties = message.properties
    if not isinstance(properties, Mapping):
        raise bad("properties", "a dict of texts", properties)
    for name, value in properties.items():
        if not isinstance(name, str):
            raise bad("each name of properties", "a text", name)
        if not isinstance(value, str):
            raise BadArgument(
                f"property {shown(name)} has to be a text, not {shown(value)}: use str()",
                "properties",
            )
    if not (RESERVED_NAMES.isdisjoint(properties) or isinstance(message, ReplyMessage)):
        names = sorted(RESERVED_NAMES.intersection(properties))
        raise BadArgument(
            f"properties {names} are reserved; use `tags`, `keys` and `delay`", "properties"
        )


def bare_ready(message: Message, message_id: str, config: ProducerConfig) -> Ready:
    """A message whose only property of Roquet is its id. Raises BadArgument."""
    check_message(message, config)
    return Ready(message, message_id, property_text(message, message_id, {}, config.namespace))


def property_text(
    message: Message, message_id: str, extra: Mapping[str, str], namespace: str | None
) -> str:
    """Raises BadArgument for properties that cannot be written."""
    if not (message.tags or message.keys or message.properties or extra or namespace):
        return f"{_UNIQUE_KEY_MARK}{message_id}{_WAIT_END}"
    named = message.all_properties()
    named.update(extra)
    named[Property.UNIQUE_KEY] = message_id
    named.setdefault(Property.WAIT, "true")
    if namespace:
        named[Property.INSTANCE_ID] = namespace
    try:
        text = properties_text(named)
    except BadMessage as error:
        raise BadArgument(str(error), "properties") from None
    if not text.isascii():
        _check_encodable(text)
    if len(text) > _SURELY_FITS and (size := len(text.encode())) > PROPERTIES_SIZE_MAX:
        raise BadArgument(
            f"properties of {size} bytes are over {PROPERTIES_SIZE_MAX}; send less", "properties"
        )
    return text


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        broken = shown(text[error.start : error.end])
        raise BadArgument(
            f"properties with {broken}, half a character, cannot be sent", "properties"
        ) from None


def outgoing_of(ready: Ready, config: ProducerConfig) -> Outgoing:
    """One message for one request. Compresses, which may take a while."""
    message = ready.message
    body = message.body
    sys_flag = _PREPARED if ready.kind is MessageKind.HALF else 0
    if is_compressed(message, config):
        packed = compress(body, config.compression)
        # Random bytes grow, and might not fit any more.
        if len(packed) < len(body):
            body = packed
            sys_flag |= config.compression.sys_flag
    return Outgoing(
        (ready,),
        message.topic,
        wrapped(config.namespace, message.topic) if config.namespace else message.topic,
        body,
        ready.properties,
        _REPLY if isinstance(message, ReplyMessage) else _SEND,
        message.flag,
        sys_flag,
    )


def is_compressed(message: Message, config: ProducerConfig) -> bool:
    return config.compress_over is not None and len(message.body) >= config.compress_over


def header_of(
    outgoing: Outgoing, queue: QueueRef, config: ProducerConfig, now_ms: int
) -> SendMessageHeaderV2:
    return SendMessageHeaderV2(
        producer_group=wrapped(config.namespace, config.group),
        topic=outgoing.wire_topic,
        default_topic=config.template_topic,
        default_topic_queue_nums=config.new_topic_queue_count,
        queue_id=queue.queue_id,
        sys_flag=outgoing.sys_flag,
        born_timestamp=now_ms,
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsume_times=0,
        batch=outgoing.code is BATCH,
        broker_name=queue.broker_name,
    )


def delay_properties(
    delay: Delay | None, delay_level: int | None, now_ms: int
) -> Mapping[str, str]:
    """Properties that delay a message. Raises BadArgument.

    A level works with every broker: 1 is a second, 18 two hours, unless it is set up otherwise.
    """
    if delay_level is not None:
        if delay is not None:
            raise BadArgument("give `delay` or `delay_level`, not both", "delay_level")
        check_count("delay_level", delay_level)
        return {Property.DELAY: str(delay_level)}
    if delay is None:
        return {}
    if isinstance(delay, timedelta):
        # By the broker's clock, which may differ from this one.
        delay_ms = delay // _MILLISECOND
        return {Property.TIMER_DELAY_MS: str(delay_ms)} if delay_ms > 0 else {}
    if not isinstance(delay, datetime):
        raise _no_delay(delay)
    check_moment("delay", delay)
    due_ms = round(delay.timestamp() * 1000)
    # A time in the past is no delay.
    return {Property.TIMER_DELIVER_MS: str(due_ms)} if due_ms > now_ms else {}


def _no_delay(delay: Any) -> BadArgument:
    """A bare number could be seconds as well as a level."""
    error = bad("delay", "a timedelta or a datetime", delay)
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        return error
    levels = f", for a level of the broker delay_level={delay}" if isinstance(delay, int) else ""
    return BadArgument(
        f"{error}: for seconds give timedelta(seconds={delay}){levels}", error.argument
    )


def needs_timers(properties: Mapping[str, str]) -> bool:
    """Whether a broker without timers would deliver a message with these at once."""
    return Property.TIMER_DELIVER_MS in properties or Property.TIMER_DELAY_MS in properties
