"""Everything a program can get wrong is reported at the call, by name, with what is expected."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from roquet import (
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    DeadLetter,
    Message,
    QueueRef,
)
from roquet.client.arguments import timestamp_ms, utc
from roquet.client.errors import BadArgument
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster

QUEUE = QueueRef("t", "a", 0)
NOWHERE = "127.0.0.1:1"


@pytest.fixture
async def producer(scripted: ScriptedCluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(scripted.name_server, "shop") as producer:
        yield producer


def message(**members: Any) -> Any:
    """One that a type checker would not let through."""
    return Message(**({"topic": "t", "body": b"x"} | members))


MESSAGES = [
    (message(keys=7.5), "keys"),
    (message(keys=(7.5,)), "keys"),
    (message(keys=("",)), "keys"),
    (message(keys=("a b",)), "keys"),
    (message(tags="a || b"), "tags"),
    (message(tags=" sp "), "tags"),
    (message(tags=("a",)), "tags"),
    (message(properties={"city": "\ud800"}), "properties"),
    (message(properties={"n": 7}), "properties"),
    (message(properties={7: "n"}), "properties"),
    (message(properties=["n"]), "properties"),
    (message(message_id=""), "message_id"),
    (message(message_id="a b"), "message_id"),
    (message(body="hello"), "body"),
    (message(body={"a": 1}), "body"),
    (message(body=None), "body"),
    (message(body=b""), "body"),
    (message(topic=None), "topic"),
    (message(topic=""), "topic"),
    (message(topic="no spaces"), "topic"),
    (message(flag="x"), "flag"),
]


@pytest.mark.parametrize(("wrong", "argument"), MESSAGES, ids=str)
async def test_a_message_is_looked_at_before_it_is_sent(
    producer: AsyncProducer, scripted: ScriptedCluster, wrong: Any, argument: str
) -> None:
    with raises(BadArgument, argument=argument):
        await producer.send(wrong)
    with raises(BadArgument, argument=argument):
        await producer.send_batch([wrong])
    with raises(BadArgument, argument=argument):
        await producer.send_oneway(wrong)
    assert not any(broker.sends for broker in scripted.brokers)


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda p: p.send(b"hello"), "message"),
    (lambda p: p.send_batch([b"hello"]), "messages"),
    (lambda p: p.send(message(), delay=1.5), "delay"),
    (lambda p: p.send(message(), timeout_s=None), "timeout_s"),
    (lambda p: p.send(message(), timeout_s=0), "timeout_s"),
    (lambda p: p.send(message(), queue=0), "queue"),
    (lambda p: p.send(message(), order_key=1.5), "order_key"),
    (lambda p: p.send_batch(message()), "messages"),
    (lambda p: p.send_many(message()), "messages"),
    (lambda p: p.send_many([], in_flight=0), "in_flight"),
    (lambda p: p.request(message(), timeout_s="3"), "timeout_s"),
]


@pytest.mark.parametrize(
    ("call", "argument"), CALLS, ids=lambda each: each if type(each) is str else ""
)
async def test_an_error_names_the_argument(
    producer: AsyncProducer, call: Callable[[Any], Any], argument: str
) -> None:
    with raises(BadArgument, argument=argument):
        await call(producer)


@pytest.mark.parametrize(
    ("wrong", "printed"),
    [
        (message(keys=(7.5,)), "`each of keys` has to be a text that is not empty, not 7.5"),
        (message(body="hello"), "`body` has to be bytes, not the text 'hello': use .encode()"),
    ],
)
async def test_a_text_shows_what_it_has_to_be_and_what_it_is(
    producer: AsyncProducer, wrong: Any, printed: str
) -> None:
    with pytest.raises(BadArgument, match=re.escape(printed)):
        await producer.send(wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"retry_count": "2"},
        {"linger_ms": 0},
        {"in_flight_max": 0.5},
        {"compression": "zlib"},
        {"hooks": print},
        {"group": None},
        {"group": ""},
        {"name_server": ["a:1"]},
    ],
    ids=str,
)
def test_a_producer_is_set_up_with_what_it_understands(options: dict[str, Any]) -> None:
    (argument,) = options
    with raises(BadArgument, argument=argument):
        AsyncProducer(**({"name_server": NOWHERE, "group": "g"} | options))


@pytest.mark.parametrize(
    "options",
    [
        {"listener": "print"},
        {"start_from": "first"},
        {"start_from": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"batch_size": "3"},
        {"concurrency": 0},
        {"hooks": [1]},
    ],
    ids=str,
)
def test_a_consumer_is_set_up_with_what_it_understands(options: dict[str, Any]) -> None:
    (argument,) = options
    with raises(BadArgument, argument=argument):
        AsyncPushConsumer(NOWHERE, "g", **options)


@pytest.mark.parametrize(
    ("wanted", "argument"),
    [
        ({"topic": "t", "tags": ["a", 7]}, "tags"),
        ({"topic": "t", "sql": 3}, "sql"),
        ({"topic": ["t"]}, "topic"),
        ({"topic": "t", "tags": "a", "sql": "b"}, "sql"),
    ],
    ids=str,
)
def test_a_subscription_is_a_topic_and_a_text(wanted: dict[str, Any], argument: str) -> None:
    for consumer in (AsyncPushConsumer(NOWHERE, "g"), AsyncPullConsumer(NOWHERE, "g")):
        with raises(BadArgument, argument=argument):
            consumer.subscribe(**wanted)


def test_one_queue_is_not_taken_for_many() -> None:
    consumer: Any = AsyncPullConsumer(NOWHERE, "g")
    with raises(BadArgument, argument="queues"):
        consumer.assign(QUEUE)
    with raises(BadArgument, argument="queues"):
        consumer.assign([0])
    with raises(BadArgument, argument="offsets"):
        asyncio.run(consumer.commit(7))


def test_a_reason_is_a_text() -> None:
    wrong: Any = ValueError("x")
    with raises(BadArgument, argument="reason"):
        DeadLetter(wrong)


@given(st.integers(0, 2**42), st.integers(0, 999))
def test_a_moment_is_in_the_millisecond_that_has_begun(milliseconds: int, micros: int) -> None:
    assert timestamp_ms(utc(milliseconds) + timedelta(microseconds=micros)) == milliseconds
