"""A topic whose messages are values of one type.

    orders = Topic("orders", Order)

    producer.send(orders(Order(7, "coffee"), keys=("7",)))

    @consumer.on(orders)
    def bill(order: Order) -> None: ...

The codec follows from the type, unless it is given: models of pydantic and messages of protobuf
have their own; structs of msgspec, dataclasses, TypedDicts and anything else that msgspec knows
are JSON. Each message has its content type in the property `contentType`, the name that Spring's
messaging gives it, so that readers in other languages know what they have.
"""

import inspect
from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any, Final, Generic, Protocol, TypeVar, final, is_typeddict, overload

from roquet.client.arguments import bad, shown
from roquet.client.callbacks import is_coroutine_function
from roquet.client.errors import BadArgument
from roquet.client.names import check_topic
from roquet.client.push.outcome import DeadLetter
from roquet.client.received import ReceivedMessage
from roquet.client.typed.codecs import Codec, codec_for
from roquet.protocol.messages.message import Keys, Message

CONTENT_TYPE: Final = "contentType"

T = TypeVar("T")
R = TypeVar("R")


class Undecodable(DeadLetter):
    """The body of a message is no value of its topic's type. No retry helps, so a message for which
    a listener raises it goes to the dead letters at once, with this reason.

    `content_type` is that of the message, if it is not that of the topic.
    """

    def __init__(
        self, reason: str, *, topic: str | None = None, content_type: str | None = None
    ) -> None:
        super().__init__(reason)
        self.topic = topic
        self.content_type = content_type


@final
class Topic(Generic[T]):
    """The name of a topic with the type of its values; calling it makes a message.

    `codec` is needed where it does not follow from the type, as for Avro. Raises BadArgument.

    For example:

        from dataclasses import dataclass

        @dataclass
        class Order:
            number: int
            what: str

        orders = Topic("orders", Order)
        with Producer("127.0.0.1:9876", "shop") as producer:
            producer.send(orders(Order(7, "coffee"), tags="new"))
    """

    __slots__ = ("_class", "codec", "name")

    def __init__(self, name: str, kind: type[T], *, codec: Codec[T] | None = None) -> None:
        check_topic(name)
        self.name: Final = name
        self.codec: Final[Codec[T]] = codec_for(kind) if codec is None else codec
        self._class = _class_of(kind)

    def __call__(
        self,
        value: T,
        *,
        tags: str | None = None,
        keys: Keys = (),
        properties: Mapping[str, str] | None = None,
        message_id: str | None = None,
    ) -> Message:
        """The message of a value, for any method of any producer. Raises BadArgument."""
        if self._class is not None and not isinstance(value, self._class):
            raise bad("value", f"{_article(self._class)} of topic {self.name!r}", value)
        try:
            body = self.codec.encode(value)
        except (TypeError, ValueError) as error:
            raise BadArgument(
                f"{shown(value)} cannot be encoded for {self.name!r}: {error}", "value"
            ) from error
        named = {CONTENT_TYPE: self.codec.content_type, **(properties or {})}
        return Message(self.name, body, tags, keys, named, message_id=message_id)

    def decode(self, message: ReceivedMessage) -> T:
        """The value of a message, wherever it was read. Raises Undecodable.

        A message without a content type is decoded, too: not every sender sets one.
        """
        found = message.properties.get(CONTENT_TYPE)
        expected = self.codec.content_type
        if found is not None and not is_same_type(found, expected):
            raise Undecodable(
                f"its content type is {found!r}, and {self.name!r} has {expected!r}",
                topic=self.name,
                content_type=found,
            )
        try:
            return self.codec.decode(message.body)
        except ValueError as error:
            raise Undecodable(
                f"no value of topic {self.name!r}: {error}", topic=self.name
            ) from error

    def __repr__(self) -> str:
        return f"<topic {self.name} of {self.codec.content_type}>"


class TypedOn(Protocol[T]):
    """What `consumer.on(topic)` returns for a typed topic: the decorator of its listener."""

    @overload
    def __call__(self, listener: Callable[[T], R]) -> Callable[[T], R]: ...

    @overload
    def __call__(
        self, listener: Callable[[T, ReceivedMessage], R]
    ) -> Callable[[T, ReceivedMessage], R]: ...


def decoding(topic: Topic[T], listener: Any) -> Callable[[ReceivedMessage], object]:
    """A listener of messages that calls `listener` with the value, and if it has a second
    parameter, with the message. Raises BadArgument."""
    wants_message = _wants_message(listener)

    def arguments(message: ReceivedMessage) -> tuple[Any, ...]:
        value = topic.decode(message)
        return (value, message) if wants_message else (value,)

    if is_coroutine_function(listener):

        async def listen_async(message: ReceivedMessage) -> None:
            await listener(*arguments(message))

        return listen_async

    def listen(message: ReceivedMessage) -> object:
        return listener(*arguments(message))

    return listen


def _wants_message(listener: Any) -> bool:
    if not callable(listener):
        raise bad("listener", "a function or a coroutine function", listener)
    try:
        signature = inspect.signature(listener)
    except ValueError:
        return False  # Some functions written in C have no signature.
    for arguments in (1, 2):
        try:
            signature.bind(*[object()] * arguments)
        except TypeError:
            continue
        return arguments == 2
    raise bad("listener", "a function of one value, or of one value and its message", listener)


def _class_of(kind: Any) -> type | None:
    """None where Python cannot tell whether a value is one of the type, as for `list[int]`."""
    is_class = isinstance(kind, type) and not isinstance(kind, GenericAlias)
    return kind if is_class and not is_typeddict(kind) else None


def is_same_type(found: str, expected: str) -> bool:
    """Parameters, such as a charset, and the case do not matter."""
    return _media_type(found) == _media_type(expected)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _article(kind: type) -> str:
    name = kind.__name__
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"
