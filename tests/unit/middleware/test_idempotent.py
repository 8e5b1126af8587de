"""Each message once, by what a store remembers."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from roquet import (
    BadArgument,
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    StartFrom,
)
from roquet.client.middleware import surrounded
from roquet.middleware import Idempotent, MemoryStore, by_key
from roquet.middleware.idempotent import name_in_group
from roquet.testing import BlockingCluster
from tests.support.delivered import delivered
from tests.support.raising import raises

Listen = Callable[[ReceivedMessage], None]


def once(listener: Any, idempotent: Idempotent, group: str = "billing") -> Any:
    return surrounded(listener, [idempotent], group)


def test_a_second_delivery_is_acknowledged_without_a_call() -> None:
    got: list[bytes] = []
    listen = once(lambda message: got.append(message.body), Idempotent(MemoryStore()))
    listen(delivered(b"1"))
    listen(delivered(b"1", retry_count=1))
    listen(delivered(b"2", message_id="id-2"))
    assert got == [b"1", b"2"]


async def test_coroutines_are_called_once() -> None:
    got: list[bytes] = []

    async def bill(message: ReceivedMessage) -> None:
        got.append(message.body)

    listen = once(bill, Idempotent(MemoryStore()))
    await listen(delivered(b"1"))
    await listen(delivered(b"1"))
    assert got == [b"1"]


def test_a_listener_that_raised_is_called_again() -> None:
    outcomes = [KeyError("no"), None]

    def bill(message: ReceivedMessage) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    listen = once(bill, Idempotent(MemoryStore()))
    with pytest.raises(KeyError):
        listen(delivered())
    listen(delivered())
    assert not outcomes


def test_groups_do_not_take_messages_from_each_other() -> None:
    got: list[str] = []
    idempotent = Idempotent(MemoryStore())
    once(lambda _: got.append("billing"), idempotent, "billing")(delivered())
    once(lambda _: got.append("shipping"), idempotent, "shipping")(delivered())
    assert got == ["billing", "shipping"]


def test_two_messages_with_one_key_are_one() -> None:
    got: list[bytes] = []
    listen = once(lambda message: got.append(message.body), Idempotent(MemoryStore(), by_key))
    listen(delivered(b"1", message_id="id-1", properties={"KEYS": "order-7"}))
    listen(delivered(b"1", message_id="id-2", properties={"KEYS": "order-7"}))
    assert got == [b"1"]


def test_a_message_without_a_key_is_not_lost_but_a_dead_letter() -> None:
    with pytest.raises(DeadLetter, match="has no key"):
        once(print, Idempotent(MemoryStore(), by_key))(delivered())


def test_a_message_that_another_listener_has_now_comes_again_later() -> None:
    store = MemoryStore()
    with store.once("name"), pytest.raises(RetryLater), store.once("name"):
        pass
    with store.once("name") as is_new:
        assert not is_new


def test_a_store_in_memory_is_bounded() -> None:
    store = MemoryStore(count_max=2)
    for name in ("a", "b", "c"):
        with store.once(name) as is_new:
            assert is_new
    seen = []
    for name in ("c", "b", "a"):
        with store.once(name) as is_new:
            seen.append(is_new)
    assert seen == [False, False, True]


def test_threads_agree_on_which_is_the_first() -> None:
    store = MemoryStore()
    firsts: list[bool] = []

    def take() -> None:
        for number in range(200):
            try:
                with store.once(str(number)) as is_new:
                    firsts.append(is_new)
            except RetryLater:
                firsts.append(False)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(firsts) == 200


def test_a_long_name_fits_into_a_column() -> None:
    assert len(name_in_group("g", "t", "k" * 1000)) == 64
    assert name_in_group("g", "t", "k" * 1000) != name_in_group("g", "t", "k" * 1001)


def test_what_is_no_store_is_refused() -> None:
    with raises(BadArgument, argument="store"):
        Idempotent({})  # type: ignore[arg-type]


def test_a_store_for_functions_is_refused_for_a_coroutine() -> None:
    class Plain:
        def once(self, name: str) -> Any:
            raise NotImplementedError

    async def bill(message: ReceivedMessage) -> None: ...

    with pytest.raises(BadArgument, match="`once_async`"):
        once(bill, Idempotent(Plain()))


@pytest.mark.slow
def test_what_is_sent_twice_is_consumed_once() -> None:
    got: list[bytes] = []
    with BlockingCluster() as cluster:
        reading = PushConsumer(
            cluster.name_server,
            "billing",
            lambda message: got.append(message.body),
            start_from=StartFrom.FIRST,
            middleware=[Idempotent(MemoryStore(), by_key)],
            concurrency=1,
        )
        reading.subscribe("orders")
        with Producer(cluster.name_server, "shop") as producer:
            for body in (b"1", b"2", b"1"):
                producer.send(Message("orders", body, keys=(body.decode(),)))
        with reading:
            cluster.consumed("billing")
    assert sorted(got) == [b"1", b"2"]
