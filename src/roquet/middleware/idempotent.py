"""Each message once: what was consumed before is acknowledged, and its listener is not called.

Brokers deliver at least once: a consumer that is killed before its offset is stored gets messages
again, and a producer whose answer is lost sends them again, with the same message id. A store
remembers what is done. How safe that is depends on the store:

    SqlStore     the mark and the listener's own changes are one transaction: exactly once
    RedisStore   shared by all members; a crash between the listener and the mark repeats it
    MemoryStore  of one process: repetitions within it, as after a rebalance
"""

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, Protocol, final, runtime_checkable

from roquet.client.arguments import bad, check_count
from roquet.client.errors import BadArgument
from roquet.client.middleware import Consume, ConsumeAsync, Middleware
from roquet.client.push.outcome import DeadLetter, RetryLater
from roquet.client.received import ReceivedMessage

# Longer names are hashed: databases limit the size of a key.
NAME_SIZE_MAX: Final = 255
# Another member has the message now; the broker asks again soon.
BUSY_DELAY: Final = timedelta(seconds=5)


@runtime_checkable
class IdempotencyStore(Protocol):
    """Remembers names. For listeners that are functions."""

    def once(self, name: str, /) -> AbstractContextManager[bool]:
        """Enters with whether the name is new. Leaving without an error remembers it, leaving with
        one forgets it. Raises RetryLater while another one has entered with this name."""


@runtime_checkable
class AsyncIdempotencyStore(Protocol):
    """The same for listeners that are coroutines."""

    def once_async(self, name: str, /) -> AbstractAsyncContextManager[bool]:
        """As `IdempotencyStore.once`."""


def by_message_id(message: ReceivedMessage) -> str:
    """The id that its producer gave it; retries of the producer, redeliveries, and the relay of an
    outbox keep it."""
    return message.message_id


def by_key(message: ReceivedMessage) -> str:
    """Its first key: for producers that may send the same thing in two messages.

    Raises DeadLetter for a message without a key.
    """
    if not message.keys:
        raise DeadLetter("it has no key, and this consumer recognises messages by their key")
    return message.keys[0]


@final
class Idempotent(Middleware):
    """Calls the listener once for each message of a group, whatever is delivered twice.

    `name_of` is what makes two deliveries the same: `by_message_id`, `by_key`, or a function of the
    program. Raises BadArgument.

    For example:

        def bill(message):
            print(message.body)

        once = Idempotent(MemoryStore())
        consumer = PushConsumer("127.0.0.1:9876", "billing", bill, middleware=[once])
    """

    def __init__(
        self,
        store: IdempotencyStore | AsyncIdempotencyStore,
        name_of: Callable[[ReceivedMessage], str] = by_message_id,
    ) -> None:
        if not isinstance(store, IdempotencyStore | AsyncIdempotencyStore):
            raise bad("store", "a MemoryStore, SqlStore or RedisStore", store)
        self._store: Any = store
        self._name_of = name_of

    def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:
        with self._store.once(self._name(message, group)) as is_new:
            if is_new:
                call_next(message)

    async def consume_async(
        self, message: ReceivedMessage, group: str, call_next: ConsumeAsync
    ) -> None:
        async with self._store.once_async(self._name(message, group)) as is_new:
            if is_new:
                await call_next(message)

    def check_listener(self, *, is_async: bool) -> None:
        """Raises BadArgument if the store is of the other kind."""
        check = getattr(self._store, "check_listener", None)
        if check is not None:
            check(is_async=is_async)
        needed = AsyncIdempotencyStore if is_async else IdempotencyStore
        if not isinstance(self._store, needed):
            kind = "once_async" if is_async else "once"
            raise BadArgument(f"{type(self._store).__name__} has no `{kind}` for this listener")

    def _name(self, message: ReceivedMessage, group: str) -> str:
        return name_in_group(group, message.topic, self._name_of(message))


def name_in_group(group: str, topic: str, name: str) -> str:
    """Every group consumes each message, so the group is part of the name."""
    whole = f"{group}/{topic}/{name}"
    return whole if len(whole) <= NAME_SIZE_MAX else sha256(whole.encode()).hexdigest()


@final
class MemoryStore:
    """Remembers the last `count_max` names of this process. Thread-safe."""

    def __init__(self, count_max: int = 100_000) -> None:
        check_count("count_max", count_max)
        self._count_max = count_max
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._done: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def once(self, name: str) -> Iterator[bool]:
        """Raises RetryLater while another listener has it."""
        if not self._start(name):
            yield False
            return
        try:
            yield True
        except BaseException:
            self._end(name, is_done=False)
            raise
        self._end(name, is_done=True)

    @asynccontextmanager
    async def once_async(self, name: str) -> AsyncIterator[bool]:
        """Raises RetryLater while another listener has it."""
        with self.once(name) as is_new:
            yield is_new

    def _start(self, name: str) -> bool:
        with self._lock:
            if name in self._done:
                return False
            if name in self._running:
                raise RetryLater(BUSY_DELAY)
            self._running.add(name)
            return True

    def _end(self, name: str, *, is_done: bool) -> None:
        with self._lock:
            self._running.discard(name)
            if is_done:
                self._done[name] = None
                if len(self._done) > self._count_max:
                    self._done.popitem(last=False)
