"""Everything a program can get wrong is reported at the call, by name, with what is expected."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
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
from tests.support.scripted_cluster import ScriptedCluster

QUEUE = QueueRef("t", "a", 0)
NOWHERE = "127.0.0.1:1"


@contextmanager
def says(text: str) -> Iterator[None]:
    with pytest.raises(BadArgument, match=re.escape(text)):
        yield


@pytest.fixture
async def producer(scripted: ScriptedCluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(scripted.name_server, "shop") as producer:
        yield producer


def message(**members: Any) -> Any:
    """One that a type checker would not let through."""
    return Message(**({"topic": "t", "body": b"x"} | members))


MESSAGES = [
    (message(keys=7.5), "`keys` has to be a tuple of texts, not 7.5"),
    (message(keys=(7.5,)), "`each of keys` has to be a text that is not empty, not 7.5"),
    (message(tags="a || b"), "a message has one tag, not 'a || b': only subscriptions join"),
    (message(tags=" sp "), "`tags` ' sp ' starts or ends with a blank"),
    (message(properties={"city": "\ud800"}), "half a character, cannot be sent"),
    (message(message_id=""), "`message_id` has to be a text that is not empty"),
    (message(message_id="a b"), "`message_id` has to be a text without blanks"),
    (message(keys=("",)), "`each of keys` has to be a text that is not empty, not ''"),
    (message(keys=("a b",)), "must not have spaces"),
    (message(body="hello"), "`body` has to be bytes, not the text 'hello': use .encode()"),
    (message(body={"a": 1}), "`body` has to be bytes, not {'a': 1}"),
    (message(body=None), "`body` has to be bytes, not None"),
    (message(body=b""), "empty body"),
    (message(properties={"n": 7}), "property 'n' has to be a text, not 7: use str()"),
    (message(properties={7: "n"}), "`each name of properties` has to be a text, not 7"),
    (message(properties=["n"]), "`properties` has to be a dict of texts, not ['n']"),
    (message(tags=("a",)), "`tags` has to be a text, not ('a',)"),
    (message(topic=None), "`topic` has to be a text, not None"),
    (message(topic=""), "`topic` is empty"),
    (message(topic="no spaces"), "topic 'no spaces' may have letters"),
    (message(flag="x"), "`flag` has to be a number, not 'x'"),
    (b"hello", "has to be a Message, not b'hello'"),
]


@pytest.mark.parametrize(("wrong", "printed"), MESSAGES, ids=str)
async def test_a_message_is_looked_at_before_it_is_sent(
    producer: AsyncProducer, scripted: ScriptedCluster, wrong: Any, printed: str
) -> None:
    with says(printed):
        await producer.send(wrong)
    with says(printed):
        await producer.send_batch([wrong])
    with says(printed):
        await producer.send_oneway(wrong)
    assert not any(broker.sends for broker in scripted.brokers)


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda p: p.send(message(), delay=1.5), "`delay` has to be a timedelta or a datetime"),
    (lambda p: p.send(message(), timeout_s=None), "`timeout_s` has to be a number of seconds"),
    (lambda p: p.send(message(), timeout_s=0), "`timeout_s` has to be a number of seconds, more"),
    (lambda p: p.send(message(), queue=0), "`queue` has to be a QueueRef, not 0"),
    (
        lambda p: p.send(message(), order_key=1.5),
        "`order_key` has to be a text, a whole number or a UUID",
    ),
    (lambda p: p.send_batch(message()), "`messages` has to be a list of Messages"),
    (lambda p: p.send_many(message()), "`messages` has to be a list of Messages"),
    (lambda p: p.send_many([], in_flight=0), "`in_flight` has to be a whole number, 1 or more"),
    (lambda p: p.request(message(), timeout_s="3"), "`timeout_s` has to be a number of seconds"),
]


@pytest.mark.parametrize(
    ("call", "printed"), CALLS, ids=lambda each: each if type(each) is str else ""
)
async def test_an_error_names_what_an_argument_has_to_be(
    producer: AsyncProducer, call: Callable[[Any], Any], printed: str
) -> None:
    with says(printed):
        await call(producer)


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({"retry_count": "2"}, "`retry_count` has to be a whole number, 0 or more, not '2'"),
        ({"linger_ms": 0}, "`linger_ms` has to be a number of milliseconds, more than 0"),
        ({"in_flight_max": 0.5}, "`in_flight_max` has to be a whole number"),
        ({"compression": "zlib"}, "`compression` has to be a Compression, not 'zlib'"),
        ({"hooks": print}, "`hooks` has to be a list of SendHooks"),
        ({"group": None}, "`group` has to be a text, not None"),
        ({"group": ""}, "`group` is empty"),
        ({"name_server": ["a:1"]}, "`name_server` has to be a text, not ['a:1']"),
    ],
    ids=str,
)
def test_a_producer_is_set_up_with_what_it_understands(
    options: dict[str, Any], printed: str
) -> None:
    with says(printed):
        AsyncProducer(**({"name_server": NOWHERE, "group": "g"} | options))


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({"listener": "print"}, "`listener` has to be a function or a coroutine function"),
        ({"start_from": "first"}, "`start_from` has to be a StartFrom or a datetime, not 'first'"),
        ({"start_from": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"batch_size": "3"}, "`batch_size` has to be a number, not '3'"),
        ({"concurrency": 0}, "`concurrency` has to be from 1 to 1000, not 0"),
        ({"hooks": [1]}, "`hooks` has to be a list of ConsumeHooks"),
    ],
    ids=str,
)
def test_a_consumer_is_set_up_with_what_it_understands(
    options: dict[str, Any], printed: str
) -> None:
    with says(printed):
        AsyncPushConsumer(NOWHERE, "g", **options)


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ({"topic": "t", "tags": ["a", 7]}, '`tags` has to be a text such as "a || b", not'),
        ({"topic": "t", "sql": 3}, "`sql` has to be a text such as"),
        ({"topic": ["t"]}, "`topic` has to be a text, not ['t']"),
        ({"topic": "t", "tags": "a", "sql": "b"}, "give `tags` or `sql`, not both"),
    ],
    ids=str,
)
def test_a_subscription_is_a_topic_and_a_text(wanted: dict[str, Any], printed: str) -> None:
    for consumer in (AsyncPushConsumer(NOWHERE, "g"), AsyncPullConsumer(NOWHERE, "g")):
        with says(printed):
            consumer.subscribe(**wanted)


def test_one_queue_is_not_taken_for_many() -> None:
    consumer: Any = AsyncPullConsumer(NOWHERE, "g")
    with says("`queues` has to be a list of QueueRefs, not QueueRef(topic='t'"):
        consumer.assign(QUEUE)
    with says("`each of queues` has to be a QueueRef, not 0"):
        consumer.assign([0])
    with says("`offsets` has to be a dict of QueueRefs and offsets, not 7"):
        asyncio.run(consumer.commit(7))


def test_a_reason_is_a_text() -> None:
    wrong: Any = ValueError("x")
    with says("`reason` has to be a text, not ValueError('x')"):
        DeadLetter(wrong)


@given(st.integers(0, 2**42), st.integers(0, 999))
def test_a_moment_is_in_the_millisecond_that_has_begun(milliseconds: int, micros: int) -> None:
    assert timestamp_ms(utc(milliseconds) + timedelta(microseconds=micros)) == milliseconds
