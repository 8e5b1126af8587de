"""Middleware around sends and listeners: the order of several, and what they may do."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from roquet import (
    AsyncProducer,
    AsyncPushConsumer,
    BadArgument,
    Message,
    Middleware,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendForbidden,
    SomeFailed,
    StartFrom,
    TransactionProducer,
    TransactionState,
    reply_to,
)
from roquet.client.middleware import Consume, ConsumeAsync, surrounded
from roquet.testing import BlockingCluster
from tests.support.delivered import delivered
from tests.support.eventually import eventually, wait_until
from tests.support.raising import raises

R = TypeVar("R")
GROUP = "billing"


@pytest.fixture(scope="module")
def cluster() -> Any:
    with BlockingCluster() as cluster:
        yield cluster


class Marking(Middleware):
    """Adds to the tags of what is sent, and notes what happens around it."""

    def __init__(self, mark: str, notes: list[str]) -> None:
        self._mark = mark
        self._notes = notes

    async def send(self, message: Message, call_next: Callable[[Message], Awaitable[R]]) -> R:
        self._notes.append(f"{self._mark} before")
        result = await call_next(replace(message, tags=(message.tags or "") + self._mark))
        self._notes.append(f"{self._mark} after")
        return result

    def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:
        self._notes.append(f"{self._mark} of {group}")
        call_next(message)

    async def consume_async(
        self, message: ReceivedMessage, group: str, call_next: ConsumeAsync
    ) -> None:
        self._notes.append(f"{self._mark} of {group}")
        await call_next(message)


class NoTea(Middleware):
    async def send(self, message: Message, call_next: Callable[[Message], Awaitable[R]]) -> R:
        if message.body == b"tea":
            raise SendForbidden(message.topic, "no tea here")
        return await call_next(message)


@pytest.mark.slow
def test_the_first_one_is_the_outermost(cluster: BlockingCluster) -> None:
    notes: list[str] = []
    topic = cluster.new_topic()
    both = [Marking("a", notes), Marking("b", notes)]
    with Producer(cluster.name_server, "shop", middleware=both) as producer:
        producer.send(Message(topic, b"coffee"))
    assert notes == ["a before", "b before", "b after", "a after"]
    assert [message.tags for message in cluster.received(topic)] == ["ab"]


@pytest.mark.slow
@pytest.mark.parametrize("linger_ms", [None, 5])
def test_every_way_to_send_one_message_goes_through(
    cluster: BlockingCluster, linger_ms: float | None
) -> None:
    topic = cluster.new_topic()
    queue_marked = [Marking("x", [])]
    with Producer(
        cluster.name_server, "shop", middleware=queue_marked, linger_ms=linger_ms
    ) as producer:
        producer.send(Message(topic, b"1"))
        producer.send(Message(topic, b"2"), order_key="k")
        producer.submit(Message(topic, b"3")).result(30)
        producer.send_many([Message(topic, b"4"), Message(topic, b"5")])
        producer.send_oneway(Message(topic, b"6"))
        wait_until(lambda: len(cluster.received(topic)) == 6)
    assert {message.tags for message in cluster.received(topic)} == {"x"}


@pytest.mark.slow
async def test_requests_go_through(cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    name_server = cluster.name_server
    answering = AsyncPushConsumer(name_server, "desk", start_from=StartFrom.FIRST)
    async with (
        AsyncProducer(name_server, "desk") as desk,
        AsyncProducer(name_server, "shop", middleware=[Marking("x", [])]) as producer,
    ):

        @answering.on(topic)
        async def answer(message: ReceivedMessage) -> None:
            await desk.send(reply_to(message, (message.tags or "").encode()))

        async with answering:
            reply = await producer.request(Message(topic, b"?"), timeout_s=30)
    assert reply.body == b"x"


@pytest.mark.slow
def test_transactions_go_through(cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    with TransactionProducer(
        cluster.name_server,
        "till",
        check=lambda _: TransactionState.COMMIT,
        middleware=[Marking("x", [])],
    ) as producer:
        with producer.transaction(Message(topic, b"paid")):
            pass
        wait_until(lambda: cluster.received(topic))
    assert [message.tags for message in cluster.received(topic)] == ["x"]


@pytest.mark.slow
def test_a_refused_message_is_not_sent_and_others_are(cluster: BlockingCluster) -> None:
    topic = cluster.new_topic()
    with Producer(cluster.name_server, "shop", middleware=[NoTea()]) as producer:
        with raises(SendForbidden, topic=topic, reason="no tea here"):
            producer.send(Message(topic, b"tea"))
        with pytest.raises(SomeFailed) as failed:
            producer.send_many([Message(topic, b"coffee"), Message(topic, b"tea")])
    assert [type(each).__name__ for each in failed.value.outcomes] == [
        "SendReceipt",
        "SendForbidden",
    ]
    assert [message.body for message in cluster.received(topic)] == [b"coffee"]


@pytest.mark.slow
def test_a_message_is_seen_as_it_is_sent(cluster: BlockingCluster) -> None:
    seen: list[Message] = []

    class Seeing(Middleware):
        async def send(self, message: Message, call_next: Callable[[Message], Awaitable[R]]) -> R:
            seen.append(message)
            return await call_next(message)

    with Producer(cluster.name_server, "shop", middleware=[Seeing()]) as producer:
        producer.send(Message(cluster.new_topic(), memoryview(b"tea"), keys=7))
    assert [(message.body, message.keys) for message in seen] == [(b"tea", ("7",))]


@pytest.mark.slow
def test_what_would_go_past_it_is_refused(cluster: BlockingCluster) -> None:
    with Producer(cluster.name_server, "shop", middleware=[NoTea()]) as producer:
        with pytest.raises(BadArgument, match=r"`send_batch`.*`send_many`"):
            producer.send_batch([Message("orders", b"tea")])
        with pytest.raises(BadArgument, match="`send_encoded`"):
            producer.send_encoded("orders", b"tea", 1)


@pytest.mark.slow
@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_a_listener_is_surrounded(cluster: BlockingCluster, is_coroutine: bool) -> None:
    topic = cluster.new_topic()
    notes: list[str] = []

    def listen(message: ReceivedMessage) -> None:
        notes.append(message.body.decode())

    async def listen_async(message: ReceivedMessage) -> None:
        listen(message)

    reading = AsyncPushConsumer(
        cluster.name_server,
        f"{GROUP}-{is_coroutine}",
        listen_async if is_coroutine else listen,
        start_from=StartFrom.FIRST,
        middleware=[Marking("a", notes), Marking("b", notes)],
    )
    reading.subscribe(topic)
    async with AsyncProducer(cluster.name_server, "shop") as producer, reading:
        await producer.send(Message(topic, b"coffee"))
        await eventually(lambda: len(notes) == 3)
    assert notes == [f"a of {GROUP}-{is_coroutine}", f"b of {GROUP}-{is_coroutine}", "coffee"]


def test_what_it_raises_is_what_the_listener_raises() -> None:
    class Strict(Middleware):
        def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:
            if not message.tags:
                raise KeyError(group)
            call_next(message)

    listen = surrounded(print, [Strict()], GROUP)
    with pytest.raises(KeyError, match=GROUP):
        listen(delivered())


def test_one_that_only_sends_leaves_listeners_alone() -> None:
    got: list[ReceivedMessage] = []
    message = delivered()
    surrounded(got.append, [NoTea()], GROUP)(message)
    assert got == [message]


def test_one_for_functions_is_refused_for_a_coroutine() -> None:
    class ForFunctions(Middleware):
        def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:
            if group:
                call_next(message)

    async def listen(message: ReceivedMessage) -> None: ...

    with raises(BadArgument, argument="middleware"):
        surrounded(listen, [ForFunctions()], GROUP)


def test_it_needs_a_listener() -> None:
    with raises(BadArgument, argument="middleware"):
        surrounded(None, [NoTea()], GROUP)


@pytest.mark.parametrize("middleware", [NoTea(), [print], None])
def test_what_is_no_middleware_is_refused(middleware: Any) -> None:
    with raises(BadArgument, argument="middleware"):
        Producer("127.0.0.1:9876", "shop", middleware=middleware)
    with raises(BadArgument, argument="middleware"):
        PushConsumer("127.0.0.1:9876", GROUP, middleware=middleware)


def test_batches_are_refused() -> None:
    with raises(BadArgument, argument="batch_size"):
        PushConsumer("127.0.0.1:9876", GROUP, batch_size=2, middleware=[NoTea()])
