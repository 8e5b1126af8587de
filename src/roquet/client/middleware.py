"""Middleware: surrounds each send of a producer and each call of a listener.

    producer = Producer(..., middleware=[RateLimit(per_s=100)])
    consumer = PushConsumer(..., middleware=[Idempotent(store), RetryPolicy(...)])

The first one is the outermost. Each calls the next one, or does not, so it may change a message,
refuse it, skip it, or measure what the others take. What it raises is what the send or the listener
raises.

Hooks stay what they are. They see the requests, retries and brokers of a send, which no program
calls, they cost nothing in between, and an error of theirs changes nothing: right for traces
and metrics. Middleware sees what the program calls, once, and its errors count.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, final

from roquet.client.arguments import bad
from roquet.client.callbacks import is_coroutine_function
from roquet.client.errors import BadArgument
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message

R = TypeVar("R")

Consume = Callable[[ReceivedMessage], object]
ConsumeAsync = Callable[[ReceivedMessage], Awaitable[object]]


class Middleware:
    """Has the methods it needs; the others call the next one.

    `consume` surrounds a function, in its thread, `consume_async` a coroutine: one that is for both
    kinds of listeners has both.

    For example:

        class OnlyItaly(Middleware):
            async def send(self, message, call_next):
                if message.properties.get("country") != "IT":
                    raise SendForbidden(message.topic, "not for Italy")
                return await call_next(message)

        Producer("127.0.0.1:9876", "shop", middleware=[OnlyItaly()])
    """

    async def send(self, message: Message, call_next: Callable[[Message], Awaitable[R]]) -> R:
        """Around each message that a producer sends; returns what `call_next` does.

        It runs in the event loop of the producer. `timeout_s` of the send counts from where the
        innermost one has called the producer.
        """
        return await call_next(message)

    def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:  # noqa: ARG002
        """Around each call of a function. One that returns acknowledges the message."""
        call_next(message)

    async def consume_async(
        self,
        message: ReceivedMessage,
        group: str,  # noqa: ARG002
        call_next: ConsumeAsync,
    ) -> None:
        """Around each call of a coroutine. One that returns acknowledges the message."""
        await call_next(message)

    def check_listener(self, *, is_async: bool) -> None:
        """Raises BadArgument if it cannot surround a coroutine, or a function."""
        kind = type(self)
        has = {name: getattr(kind, name) is not getattr(Middleware, name) for name in _CONSUMES}
        needed = "consume_async" if is_async else "consume"
        if any(has.values()) and not has[needed]:
            listener = "a coroutine" if is_async else "a function"
            raise BadArgument(
                f"{kind.__name__} has no `{needed}`, and the listener is {listener}", "middleware"
            )


_CONSUMES = ("consume", "consume_async")


@final
class SendChain:
    """The middleware of one producer; false if none of it surrounds sends."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        self._sends: list[Any] = [
            each.send for each in middleware if type(each).send is not Middleware.send
        ]

    def __bool__(self) -> bool:
        return bool(self._sends)

    async def __call__(self, message: Message, send: Callable[[Message], Awaitable[R]]) -> R:
        """Raises what they raise, and BadArgument for a message that is none."""
        if not isinstance(message, Message):
            raise bad("message", "a Message", message)
        call = send
        for around in reversed(self._sends):
            call = _around_send(around, call)
        return await call(message)


def _around_send(around: Any, call_next: Callable[[Message], Awaitable[R]]) -> Any:
    return lambda message: around(message, call_next)


def surrounded(listener: Any, middleware: Sequence[Middleware], group: str) -> Any:
    """A listener of one message with its middleware. Raises BadArgument."""
    if not middleware:
        return listener
    if listener is None:
        raise BadArgument(
            "`middleware` surrounds a listener, and this consumer has none", "middleware"
        )
    is_async = is_coroutine_function(listener)
    for each in reversed(middleware):
        each.check_listener(is_async=is_async)
        listener = (_around_coroutine if is_async else _around_function)(each, group, listener)
    return listener


def _around_function(middleware: Middleware, group: str, call_next: Consume) -> Consume:
    def listen(message: ReceivedMessage) -> None:
        middleware.consume(message, group, call_next)

    return listen


def _around_coroutine(middleware: Middleware, group: str, call_next: ConsumeAsync) -> ConsumeAsync:
    async def listen(message: ReceivedMessage) -> None:
        await middleware.consume_async(message, group, call_next)

    return listen


def check_middleware(middleware: Any) -> None:
    """Raises BadArgument."""
    if not isinstance(middleware, Sequence) or not all(
        isinstance(each, Middleware) for each in middleware
    ):
        raise bad("middleware", "a list of Middleware", middleware)
