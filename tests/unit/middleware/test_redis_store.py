"""Consumed messages in a real Redis."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
import redis.asyncio

from roquet import BadArgument, ReceivedMessage, RetryLater
from roquet.client.middleware import surrounded
from roquet.middleware import Idempotent
from roquet.middleware.redis_store import RedisStore
from tests.support.databases import redis_server
from tests.support.delivered import delivered
from tests.support.eventually import wait_until
from tests.support.raising import raises

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("redis")]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as client:
        client.flushall()
        yield client


def once(store: RedisStore, listener: Any) -> Any:
    return surrounded(listener, [Idempotent(store)], "billing")


def test_a_message_is_consumed_once_by_all_members(client: redis.Redis, url: str) -> None:
    got: list[bytes] = []
    with redis.Redis.from_url(url, decode_responses=True) as other:
        for each in (client, other):
            once(RedisStore(each), lambda message: got.append(message.body))(delivered(b"1"))
    assert got == [b"1"]


async def test_coroutines_use_the_async_client(client: redis.Redis, url: str) -> None:
    got: list[bytes] = []

    async def bill(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with redis.asyncio.Redis.from_url(url) as async_client:
        listen = once(RedisStore(async_client), bill)
        await listen(delivered(b"1"))
        await listen(delivered(b"1"))
    assert got == [b"1"]


def test_a_listener_that_raised_is_called_again(client: redis.Redis) -> None:
    store = RedisStore(client)
    with pytest.raises(KeyError), store.once("name"):
        raise KeyError
    with store.once("name") as is_new:
        assert is_new


def test_a_message_that_another_member_has_comes_again_later(client: redis.Redis) -> None:
    store = RedisStore(client)
    with store.once("name"), pytest.raises(RetryLater), store.once("name"):
        pass


def test_what_a_dead_member_had_is_free_after_the_lease(client: redis.Redis) -> None:
    store = RedisStore(client, lease=timedelta(milliseconds=50))
    store.once("name").__enter__()  # And it is never left.

    def is_free() -> bool:
        try:
            with store.once("name") as is_new:
                return is_new
        except RetryLater:
            return False

    wait_until(is_free)


def test_names_are_forgotten_in_time(client: redis.Redis) -> None:
    with RedisStore(client, remembered=timedelta(hours=1)).once("name"):
        pass
    assert 0 < client.pttl("roquet:consumed:name") <= 3_600_000


def test_the_wrong_kind_of_client_is_refused_before_the_first_message(url: str) -> None:
    async def bill(message: ReceivedMessage) -> None: ...

    with raises(BadArgument, argument="client"):
        once(RedisStore(redis.Redis.from_url(url)), bill)
    with raises(BadArgument, argument="client"):
        once(RedisStore(redis.asyncio.Redis.from_url(url)), print)
    with raises(BadArgument, argument="lease"):
        RedisStore(redis.Redis.from_url(url), lease=timedelta(0))
    with raises(BadArgument, argument="client"):
        RedisStore(url)  # type: ignore[arg-type]
