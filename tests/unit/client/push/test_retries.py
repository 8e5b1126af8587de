"""What becomes of messages that fail."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roquet import AsyncProducer, Message
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.cluster.brokers import Brokers
from roquet.client.errors import Unreachable
from roquet.client.push import retries
from roquet.client.push.config import ENDLESS
from roquet.client.push.outcome import AT_ONCE_DEAD, Consequence, DeadLetter, RetryLater
from roquet.client.push.retries import SendBack, described, next_try, next_try_in_order
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage, received_messages
from roquet.protocol.codes import ResponseCode
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.inner_parts import instance_of
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import (
    GROUP,
    PATIENT_S,
    TOPIC,
    Inbox,
    committed,
    committed_soon,
    consumer,
    new_topic,
    numbers,
    send,
)
from tests.support.records import record_of, written_again
from tests.support.scripted_cluster import ScriptedBroker, answer_late, scripted_cluster


@pytest.mark.parametrize("is_coroutine", [True, False])
@pytest.mark.slow
async def test_what_fails_comes_again(
    cluster: LiveCluster, producer: AsyncProducer, is_coroutine: bool
) -> None:
    await send(producer, b"x", tags="red", keys=("k",))
    seen: list[ReceivedMessage] = []

    def listen(message: ReceivedMessage) -> None:
        seen.append(message)
        if len(seen) < 2:
            raise RetryLater(delay_level=1)

    async def listen_in_loop(message: ReceivedMessage) -> None:
        listen(message)

    async with consumer(cluster, listen_in_loop if is_coroutine else listen):
        await eventually(lambda: len(seen) == 2)
    first, second = seen
    assert (second.topic, second.body, second.tags, second.keys) == (TOPIC, b"x", "red", ("k",))
    assert (first.retry_count, second.retry_count) == (0, 1)
    assert second.message_id == first.message_id
    assert committed(cluster) == committed(cluster, f"%RETRY%{GROUP}") == 1


async def test_an_error_is_logged_and_counted(
    cluster: LiveCluster, producer: AsyncProducer, caplog: pytest.LogCaptureFixture
) -> None:
    await send(producer, b"x")
    inbox = Inbox(ZeroDivisionError("oh"))
    with caplog.at_level(logging.WARNING):
        async with consumer(cluster, inbox, retry_count_max=0) as reading:
            await inbox.has(1)
            await eventually(lambda: committed_soon(reading) == 1)
            statistics = reading.statistics()
    assert "ZeroDivisionError: oh" in caplog.text
    assert "ZeroDivisionError" in (statistics.last_error or "")
    counts = statistics.topics[TOPIC]
    assert (counts.done_count, counts.failed_count, counts.pulled_count) == (0, 1, 1)


async def test_the_same_error_has_one_traceback_and_then_lines(
    cluster: LiveCluster, producer: AsyncProducer, caplog: pytest.LogCaptureFixture
) -> None:
    await send(producer, *numbers(5))
    inbox = Inbox(*[ZeroDivisionError("oh") for _ in range(5)])
    with caplog.at_level(logging.WARNING):
        async with consumer(cluster, inbox, retry_count_max=0) as reading:
            await eventually(lambda: committed_soon(reading) == 5)
    failures = [each for each in caplog.records if "failed" in each.message]
    assert [each.exc_info is not None for each in failures] == [True, *[False] * 4]
    assert "failed as before (ZeroDivisionError('oh'))" in failures[1].message


@pytest.mark.slow
async def test_what_fails_too_often_is_a_dead_letter(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    inbox = Inbox(*[RetryLater(delay_level=1)] * 2)
    async with consumer(cluster, inbox, retry_count_max=1):
        await inbox.has(2)
        await eventually(lambda: cluster.all_stored(f"%DLQ%{GROUP}"))
    (dead,) = cluster.all_stored(f"%DLQ%{GROUP}")
    assert dead.body == b"x"


async def test_a_message_can_be_given_up_at_once(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    inbox = Inbox(DeadLetter("cannot be read"))
    async with consumer(cluster, inbox):
        await eventually(lambda: cluster.all_stored(f"%DLQ%{GROUP}"))
    assert inbox.bodies == [b"x"]


async def test_of_a_batch_only_the_rest_comes_again(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await producer.send_batch([Message(TOPIC, body) for body in numbers(4)])
    batches: list[list[bytes]] = []

    async def listen(messages: list[ReceivedMessage]) -> None:
        batches.append([message.body for message in messages])
        if len(batches) == 1:
            raise DeadLetter(done_count=3)

    async with consumer(cluster, listen, batch_size=4):
        await eventually(lambda: cluster.all_stored(f"%DLQ%{GROUP}"))
    assert [dead.body for dead in cluster.all_stored(f"%DLQ%{GROUP}")] == [b"3"]
    assert committed(cluster) == 4


async def test_what_no_broker_takes_back_comes_again_from_here(
    cluster: LiveCluster, producer: AsyncProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_LOCAL_PAUSE_S", 0.05)
    await send(producer, b"x")
    seen: list[int] = []

    async def listen(message: ReceivedMessage) -> None:
        seen.append(message.retry_count)
        if len(seen) == 1:
            await cluster.stop_broker("broker-a")
        if len(seen) <= 2:
            raise RetryLater

    async with consumer(cluster, listen):
        await eventually(lambda: len(seen) == 3)
        await cluster.start_broker("broker-a")
    assert seen == [0, 1, 2]


@asynccontextmanager
async def taking_back() -> AsyncIterator[tuple[ScriptedBroker, SendBack]]:
    """A broker whose replica confirms nothing: it stores a copy, and says that it is not safe."""
    async with (
        scripted_cluster("a") as scripted,
        AsyncProducer(scripted.name_server, "producers") as producer,
    ):
        instance = instance_of(producer)
        scripted.brokers[0].script = answer_late(ResponseCode.FLUSH_SLAVE_TIMEOUT)
        brokers = Brokers(instance.requests, instance.routes)
        yield scripted.brokers[0], SendBack(brokers, instance.routes, GROUP, None)


def received(message_id: str) -> ReceivedMessage:
    record = record_of(draft(properties={"UNIQ_KEY": message_id}))
    (message,) = received_messages(record, QueueRef(TOPIC, "a", 0))
    return message


async def test_a_copy_that_becomes_readable_is_safe() -> None:
    async with taking_back() as (broker, send_back):
        message = received("A1")
        broker.readable = written_again(message.record)
        await send_back.send_back(message, 1, 16)
    assert len(broker.sends) == 1


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_copy_that_may_be_lost_with_its_master_is_not_done(
    monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    monkeypatch.setattr(retries, "_LOOK_PAUSE_S", 0.01)
    async with taking_back() as (broker, send_back):
        if is_replaced:
            broker.readable = written_again(received("B2").record)
        with pytest.raises(Unreachable, match="not confirmed"):
            await send_back.send_back(received("A1"), 1, 16)


@pytest.mark.slow
async def test_a_copy_is_sent_where_the_message_itself_cannot_be_found(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await cluster.start_broker("broker-b")
    await new_topic(cluster, 1)
    receipt = await producer.send(Message(TOPIC, b"x", tags="red"), queue=None)
    home = receipt.queue.broker_name
    other = "broker-a" if home == "broker-b" else "broker-b"
    seen: list[ReceivedMessage] = []

    async def listen(message: ReceivedMessage) -> None:
        seen.append(message)
        if len(seen) == 1:
            await cluster.stop_broker(home)
            raise RetryLater(delay_level=1)

    async with consumer(cluster, listen):
        await eventually(lambda: len(seen) == 2)
        await cluster.start_broker(home)
    assert seen[1].queue.broker_name == other
    assert (seen[1].topic, seen[1].body, seen[1].tags) == (TOPIC, b"x", "red")
    assert (seen[1].retry_count, seen[1].message_id) == (1, receipt.message_id)


async def test_a_coroutine_that_takes_too_long_is_cancelled_and_its_message_comes_again(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    cancelled = asyncio.Event()

    async def listen(_message: ReceivedMessage) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with consumer(cluster, listen, consume_timeout_s=0.05, retry_count_max=0):
        await eventually(cancelled.is_set)
        await eventually(lambda: cluster.all_stored(f"%DLQ%{GROUP}"))


async def test_a_function_that_takes_too_long_is_given_up(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    may_end = threading.Event()

    def listen(_message: ReceivedMessage) -> None:
        may_end.wait(PATIENT_S)

    reading = consumer(cluster, listen, consume_timeout_s=0.05, retry_count_max=0)
    async with reading:
        await eventually(lambda: cluster.all_stored(f"%DLQ%{GROUP}"))
        may_end.set()
        await eventually(lambda: reading.statistics().running_count == 0)
    assert len(cluster.all_stored(f"%DLQ%{GROUP}")) == 1
    assert committed(cluster) == 1


async def test_a_dead_letter_says_where_it_was_sent_and_why_it_is_dead(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"rotten", b"broken", tags="red", keys=("k",))

    async def listen(message: ReceivedMessage) -> None:
        if message.body == b"rotten":
            raise DeadLetter("nobody can \x02 cook this")
        raise ZeroDivisionError("oh")

    async with consumer(cluster, listen, retry_count_max=0):
        await eventually(lambda: len(cluster.all_stored(f"%DLQ%{GROUP}")) == 2)
    async with AsyncAdmin(cluster.name_server) as admin:
        letters = {each.body: each for each in await admin.dead_letters(GROUP)}
        assert {each.topic for each in letters.values()} == {TOPIC}
        assert {each.queue.topic for each in letters.values()} == {f"%DLQ%{GROUP}"}
        assert {(each.tags, each.keys) for each in letters.values()} == {("red", ("k",))}
        assert letters[b"rotten"].death == ("nobody can   cook this", "DeadLetter", 1)
        assert letters[b"broken"].death == ("oh", "ZeroDivisionError", 1)
        (receipt, _) = await admin.resend([*letters.values()])
        again = await admin.message(TOPIC, receipt.message_id)
    assert (again.death, again.properties.keys() & {"DEAD_LETTER_REASON"}) == (None, set())


async def test_a_failure_says_which_try_comes_when(
    cluster: LiveCluster, producer: AsyncProducer, caplog: pytest.LogCaptureFixture
) -> None:
    await send(producer, b"x")
    inbox = Inbox(ZeroDivisionError("oh"))
    async with consumer(cluster, inbox):
        await eventually(
            lambda: "failed try 1 of 17, next one after its broker's delay level 3" in caplog.text
        )
    (stored,) = cluster.all_stored(TOPIC)
    assert f"message {stored.message_id} of {TOPIC} broker-a:" in caplog.text


def later(number: int, level: int, default: str) -> str:
    next_one = f"next one after its broker's delay level {level}, {default} by default"
    return f"failed try {number} of 17, {next_one}"


@pytest.mark.parametrize(
    ("retry_count", "consequence", "expected"),
    [
        (
            0,
            Consequence(0, 0),
            later(1, 3, "10 s"),
        ),
        (
            1,
            Consequence(0, 0),
            later(2, 4, "30 s"),
        ),
        (
            2,
            Consequence(0, 0),
            later(3, 5, "1 min"),
        ),
        (
            15,
            Consequence(0, 0),
            later(16, 18, "2 h"),
        ),
        (
            0,
            Consequence(0, 99),
            later(1, 99, "2 h"),
        ),
        (16, Consequence(0, 0), "failed try 17 of 17, it is a dead letter now"),
        (3, Consequence(0, AT_ONCE_DEAD), "failed try 4 of 17, it is a dead letter now"),
    ],
)
def test_what_follows_is_reported(
    retry_count: int, consequence: Consequence, expected: str
) -> None:
    (message,) = received_messages(record_of(draft()), QueueRef(TOPIC, "a", 0))
    message.local_retry_count = retry_count
    assert next_try(message, 16, consequence) == expected
    if not consequence.is_dead and retry_count < 16:
        in_order = next_try_in_order(message, ENDLESS, 1.0)
        assert in_order == f"failed try {retry_count + 1}, next one in 1 s"


def test_a_message_is_described_by_what_operators_search_for() -> None:
    marks = {"UNIQ_KEY": "7F00", "KEYS": "k1 k2"}
    (message,) = received_messages(record_of(draft(properties=marks)), QueueRef(TOPIC, "a", 2))
    assert described(message) == f"message 7F00 (key k1 k2) of {TOPIC} a:2:7"
