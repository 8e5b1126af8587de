"""Names of consumed messages in Redis; extra `redis`.

    SET name "running" NX PX lease     entered; no other process does before the lease is over
    SET name "done" PX remembered      the listener has returned
    DEL name                           it has raised

A killed process leaves "running" there; its messages are redelivered when the lease is over.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Final, final

try:
    import redis
    import redis.asyncio
except ImportError as error:  # pragma: no cover
    raise ImportError("RedisStore needs redis: pip install 'roquet[redis]'") from error

from roquet.client.arguments import bad
from roquet.client.errors import BadArgument
from roquet.client.push.outcome import RetryLater
from roquet.middleware.idempotent import BUSY_DELAY

PREFIX: Final = "roquet:consumed:"
_RUNNING: Final = b"running"
_DONE: Final = b"done"
_MILLISECOND: Final = timedelta(milliseconds=1)


@final
class RedisStore:
    """With `redis.Redis` for functions, with `redis.asyncio.Redis` for coroutines.

    A name is forgotten `remembered` after its listener has returned. `lease` has to be longer than
    a listener takes: the consumer's `consume_timeout_s` is 15 minutes. Raises BadArgument.
    """

    def __init__(
        self,
        client: "redis.Redis | redis.asyncio.Redis",
        *,
        remembered: timedelta = timedelta(days=3),
        lease: timedelta = timedelta(minutes=15),
        prefix: str = PREFIX,
    ) -> None:
        if not isinstance(client, redis.Redis | redis.asyncio.Redis):
            raise bad("client", "a redis.Redis or a redis.asyncio.Redis", client)
        self._client: Any = client
        self._is_async = isinstance(client, redis.asyncio.Redis)
        self._remembered_ms = _checked_ms("remembered", remembered)
        self._lease_ms = _checked_ms("lease", lease)
        self._prefix = prefix

    @contextmanager
    def once(self, name: str) -> Iterator[bool]:
        key = self._prefix + name
        if not self._client.set(key, _RUNNING, nx=True, px=self._lease_ms):
            _raise_if_running(self._client.get(key))
            yield False
            return
        try:
            yield True
        except BaseException:
            self._client.delete(key)
            raise
        self._client.set(key, _DONE, px=self._remembered_ms)

    @asynccontextmanager
    async def once_async(self, name: str) -> AsyncIterator[bool]:
        key = self._prefix + name
        if not await self._client.set(key, _RUNNING, nx=True, px=self._lease_ms):
            _raise_if_running(await self._client.get(key))
            yield False
            return
        try:
            yield True
        except BaseException:
            await self._client.delete(key)
            raise
        await self._client.set(key, _DONE, px=self._remembered_ms)

    def check_listener(self, *, is_async: bool) -> None:
        """Raises BadArgument."""
        if is_async and not self._is_async:
            raise BadArgument("a coroutine needs a RedisStore with a redis.asyncio.Redis", "client")
        if self._is_async and not is_async:
            raise BadArgument("a function needs a RedisStore with a redis.Redis", "client")


def _raise_if_running(state: bytes | str | None) -> None:
    """A name that is gone has just been given up: it is tried again, too."""
    if state not in (_DONE, _DONE.decode()):
        raise RetryLater(BUSY_DELAY)


def _checked_ms(name: str, value: Any) -> int:
    if not isinstance(value, timedelta) or value < _MILLISECOND:
        raise bad(name, "a timedelta of a millisecond or more", value)
    return value // _MILLISECOND
