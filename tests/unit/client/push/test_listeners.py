"""Which function gets the messages of which topic."""

from typing import Any

import pytest

from roquet import (
    AsyncProducer,
    AsyncPushConsumer,
    Message,
    PushConsumer,
    RetryLater,
    StartFrom,
)
from roquet.client.errors import BadArgument
from roquet.client.received import ReceivedMessage
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import GROUP, PATIENT_S
from tests.support.raising import raises


def new(cluster: LiveCluster, **options: Any) -> AsyncPushConsumer:
    return AsyncPushConsumer(
        cluster.name_server, GROUP, start_from=StartFrom.FIRST, error_pause_s=0.05, **options
    )


@pytest.mark.slow
async def test_each_topic_has_its_listener(cluster: LiveCluster, producer: AsyncProducer) -> None:
    reading = new(cluster)
    got: list[tuple[str, bytes]] = []

    @reading.on("orders", tags="new || paid")
    async def bill(message: ReceivedMessage) -> None:
        if not message.retry_count:
            raise RetryLater(delay_level=1)
        got.append(("bill", message.body))

    @reading.on("parcels")
    async def ship(message: ReceivedMessage) -> None:
        got.append(("ship", message.body))

    for topic, body, tags in (
        ("orders", b"1", "new"),
        ("orders", b"2", "old"),
        ("parcels", b"3", ""),
    ):
        await producer.send(Message(topic, body, tags or None), timeout_s=PATIENT_S)
    async with reading:
        await eventually(lambda: len(got) == 2)
    # Also when it comes again, by the topic of all retries.
    assert sorted(got) == [("bill", b"1"), ("ship", b"3")]
    assert callable(bill)
    assert callable(ship)


@pytest.mark.parametrize("is_coroutine", [True, False])
@pytest.mark.slow
async def test_batches_are_of_one_topic(
    cluster: LiveCluster, producer: AsyncProducer, is_coroutine: bool
) -> None:
    reading = new(cluster, batch_size=10)
    got: list[set[str]] = []
    failed: set[str] = set()

    def take(messages: list[ReceivedMessage]) -> None:
        topics = {message.topic for message in messages}
        got.append(topics)
        if not topics <= failed:
            failed.update(topics)
            raise RetryLater(delay_level=1)

    async def take_in_loop(messages: list[ReceivedMessage]) -> None:
        take(messages)

    for topic in ("orders", "parcels"):
        reading.on(topic)(take_in_loop if is_coroutine else take)
        await producer.send(Message(topic, b"x"), timeout_s=PATIENT_S)
    async with reading:
        await eventually(lambda: len(got) == 4)
    assert all(len(topics) == 1 for topics in got)


def test_what_does_not_fit_together_is_refused() -> None:
    def function(message: ReceivedMessage) -> None: ...

    async def coroutine(message: ReceivedMessage) -> None: ...

    reading = AsyncPushConsumer("127.0.0.1:1", GROUP)
    reading.on("a")(function)
    with pytest.raises(BadArgument, match="all functions or all coroutines"):
        reading.on("b")(coroutine)
    with raises(BadArgument, argument="listener"):
        reading.on("b")("print")  # type: ignore[type-var]
    with pytest.raises(BadArgument, match="has a listener for all topics"):
        AsyncPushConsumer("127.0.0.1:1", GROUP, function).on("a")(function)


@pytest.mark.parametrize("listener", [lambda: None, lambda _message, _queue: None])
def test_a_listener_that_cannot_be_called_with_a_message_is_refused(listener: Any) -> None:
    with raises(BadArgument, argument="listener"):
        PushConsumer("127.0.0.1:1", GROUP, listener)
    with raises(BadArgument, argument="listener"):
        AsyncPushConsumer("127.0.0.1:1", GROUP).on("a")(listener)


@pytest.mark.parametrize("listener", [print, [].append, lambda *_messages: None, dict])
def test_a_listener_may_take_more_or_not_say_what(listener: Any) -> None:
    assert PushConsumer("127.0.0.1:1", GROUP, listener).last_error is None


async def test_listeners_are_known_before_the_consumer_opens(cluster: LiveCluster) -> None:
    async with new(cluster) as reading:
        with pytest.raises(BadArgument, match="open already"):
            reading.on("a")
