"""Which function gets the messages of which topic.

One for all of them, given when a consumer is made, or one for each topic, given to `on`.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, final

from roquet.client.arguments import check_listener
from roquet.client.errors import BadArgument
from roquet.client.received import ReceivedMessage
from roquet.client.user_code import is_coroutine_function

# A function runs in a thread, a coroutine in the event loop. What it returns is of no interest.
OneListener = Callable[[ReceivedMessage], object]
BatchListener = Callable[[list[ReceivedMessage]], object]
Listener = OneListener | BatchListener


@final
class Listeners:
    """`listener` is for all topics. Raises BadArgument for what cannot be called."""

    def __init__(self, listener: Listener | None, *, is_batch: bool) -> None:
        if listener is not None:
            check_listener("listener", listener)
        self._listener = listener
        self._is_batch = is_batch
        self._by_topic: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return self._listener is not None or bool(self._by_topic)

    def add(self, topic: str, listener: Any) -> None:
        """Raises BadArgument."""
        check_listener("listener", listener)
        if self._listener is not None:
            raise BadArgument("this consumer has a listener for all topics; give it none, or no on")
        kinds = {is_coroutine_function(each) for each in (listener, *self._by_topic.values())}
        if len(kinds) > 1:
            raise BadArgument("the listeners of a consumer are all functions or all coroutines")
        self._by_topic[topic] = listener

    def one(self) -> Any:
        """A single listener for everything that comes; None if there is none."""
        if len(self._by_topic) <= 1:
            return next(iter(self._by_topic.values()), self._listener)
        if is_coroutine_function(next(iter(self._by_topic.values()))):
            return self._call_coroutine
        return self._call_function

    def _call_function(self, messages: Any) -> None:
        for listener, part in self._parts(messages):
            listener(part)

    async def _call_coroutine(self, messages: Any) -> None:
        for listener, part in self._parts(messages):
            await listener(part)

    def _parts(self, messages: Any) -> Iterator[tuple[Any, Any]]:
        """Each with its messages: in a queue of retries there are those of all topics."""
        if not self._is_batch:
            yield self._by_topic[messages.topic], messages
            return
        for topic, part in groupby(messages, lambda message: message.topic):
            yield self._by_topic[topic], list(part)
