"""Handlers of FastStream: in its test broker, and against a cluster inside the test."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Annotated, Any

import pytest
from faststream import Context
from faststream.exceptions import (
    AckMessage,
    FeatureNotSupportedException,
    IncorrectState,
    NackMessage,
    RejectMessage,
    SetupError,
    SubscriberNotFound,
)
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi import AsyncAPI
from pydantic import BaseModel

from roquet import Message, StartFrom
from roquet.client.producer.outgoing import RESERVED_NAMES
from roquet.faststream import (
    RocketBroker,
    RocketMessage,
    RocketResponse,
    RocketRouter,
    TestRocketBroker,
)
from roquet.faststream.messages import Delivered, parse_message
from roquet.testing import Cluster, received


class Order(BaseModel):
    number: int


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as cluster:
        await cluster.new_topic("orders")
        await cluster.new_topic("bills")
        yield cluster


async def consumed(cluster: Cluster, broker: RocketBroker, topic: str = "orders") -> None:
    """Publishes one order, and waits until the group `billing` is done with it."""
    async with broker:
        await broker.start()
        await broker.publish(Order(number=1), topic, keys=("1",), headers={"city": "Rome"})
        await cluster.consumed("billing", skip_delays=True, allow_dead_letters=True)


# Without servers.


async def test_the_test_broker_calls_handlers_and_publishers() -> None:
    broker = RocketBroker()
    billed = []

    @broker.subscriber("orders", group="billing")
    @broker.publisher("bills")
    async def bill(order: Order) -> Order:
        return Order(number=order.number + 1)

    @broker.subscriber("bills", group="archive")
    async def archive(order: Order, message: Annotated[RocketMessage, Context()]) -> None:
        billed.append((order, message.raw_message.topic, message.headers["contentType"]))

    async with TestRocketBroker(broker) as test_broker:
        await test_broker.publish(Order(number=1), "orders")
    assert billed == [(Order(number=2), "bills", "application/json")]


async def test_the_test_broker_answers_requests() -> None:
    broker = RocketBroker()

    @broker.subscriber("prices", group="pricing")
    async def price(name: str) -> int:
        return len(name)

    async with TestRocketBroker(broker):
        reply = await broker.request("coffee", "prices")
        assert await reply.decode() == 6
        with pytest.raises(SubscriberNotFound):
            await broker.request("coffee", "nowhere")


async def test_the_error_of_a_handler_reaches_the_test() -> None:
    broker = RocketBroker()

    @broker.subscriber("orders", group="billing")
    async def bill(order: Order) -> None:
        raise ValueError(order.number)

    async with TestRocketBroker(broker):
        with pytest.raises(ValueError, match="7"):
            await broker.publish(Order(number=7), "orders")


async def test_a_group_is_of_one_subscriber() -> None:
    broker = RocketBroker("127.0.0.1:9876")
    broker.subscriber("orders", group="billing")
    second = broker.subscriber("bills", group="billing")
    assert second.topic == "bills"
    with pytest.raises(SetupError, match="2 subscribers have the group 'billing'"):
        await broker.start()


async def test_to_acknowledge_first_is_refused() -> None:
    broker = RocketBroker()
    with pytest.raises(SetupError, match="use ACK, NACK_ON_ERROR, REJECT_ON_ERROR or MANUAL"):
        broker.subscriber("orders", group="billing", ack_policy=AckPolicy.ACK_FIRST)


async def test_a_broker_that_is_not_connected_says_so() -> None:
    with pytest.raises(IncorrectState, match=r"await broker.connect\(\)"):
        await RocketBroker("127.0.0.1:9876").publish("tea", "orders")


async def test_what_rocketmq_has_no_word_for_is_refused() -> None:
    broker = RocketBroker()
    subscriber = broker.subscriber("orders", group="billing")
    publisher = broker.publisher("bills")
    for attempt in (subscriber.get_one, publisher.request):
        with pytest.raises(FeatureNotSupportedException):
            await attempt()
    with pytest.raises(FeatureNotSupportedException):
        aiter(subscriber)
    with pytest.raises(FeatureNotSupportedException):
        await broker.publish_batch("tea", queue="orders")


async def test_headers_are_the_properties_of_programs() -> None:
    message = received(Message("orders", b"tea", tags="new", properties={"city": "Rome"}))
    parsed = await parse_message(Delivered(message))
    assert parsed.headers["city"] == "Rome"
    assert RESERVED_NAMES.isdisjoint(parsed.headers)
    assert parsed.message_id == message.message_id


def test_the_document_has_channels_of_topics() -> None:
    router = RocketRouter(prefix="shop-")

    @router.subscriber("orders", group="billing", description="bills orders")
    @router.publisher("bills")
    async def bill(order: Order) -> Order:
        return order

    broker = RocketBroker("127.0.0.1:9876", routers=[router])
    document = AsyncAPI(broker).to_specification().to_jsonable()
    addresses = {each["address"] for each in document["channels"].values()}
    assert addresses == {"shop-orders", "shop-bills"}
    assert document["servers"]["development"]["protocol"] == "rocketmq"


# With servers.


async def test_a_message_goes_from_publisher_to_handler(cluster: Cluster) -> None:
    broker = RocketBroker(cluster.name_server)
    found: asyncio.Queue[Any] = asyncio.Queue()

    @broker.subscriber("orders", group="billing", tags="new", start_from=StartFrom.FIRST)
    @broker.publisher("bills", headers={"by": "billing"})
    async def bill(order: Order, message: Annotated[RocketMessage, Context()]) -> RocketResponse:
        await found.put((order, message.headers["city"], message.raw_message.keys))
        return RocketResponse(order, tags="bill", keys=("1",))

    async with broker:
        await broker.start()
        await broker.publish(Order(number=1), "orders", headers={"city": "Rome"})
        await broker.publish(
            Order(number=2), "orders", tags="new", keys=("2",), headers={"city": "Oslo"}
        )
        assert await found.get() == (Order(number=2), "Oslo", ("2",))
        [bill_message] = await cluster.wait_received("bills", 1)
        assert await broker.ping(3)
    assert bill_message.tags == "bill"
    assert bill_message.properties["by"] == "billing"
    assert bill_message.body == b'{"number":2}'


@pytest.mark.parametrize(
    ("policy", "error", "tries", "is_dead"),
    [
        (AckPolicy.NACK_ON_ERROR, ValueError("no"), 3, True),
        (AckPolicy.REJECT_ON_ERROR, ValueError("no"), 1, True),
        (AckPolicy.ACK, ValueError("no"), 1, False),
        (AckPolicy.NACK_ON_ERROR, AckMessage(), 1, False),
        (AckPolicy.NACK_ON_ERROR, NackMessage(delay=timedelta(minutes=1)), 3, True),
        (AckPolicy.NACK_ON_ERROR, RejectMessage(reason="never"), 1, True),
        (AckPolicy.MANUAL, None, 3, True),
    ],
    ids=["nack", "reject", "ack", "AckMessage", "NackMessage", "RejectMessage", "manual"],
)
async def test_how_a_handler_ends_decides_what_becomes_of_its_message(
    cluster: Cluster, policy: AckPolicy, error: Exception | None, tries: int, *, is_dead: bool
) -> None:
    broker = RocketBroker(cluster.name_server)
    called = []

    @broker.subscriber(
        "orders",
        group="billing",
        ack_policy=policy,
        start_from=StartFrom.FIRST,
        retry_count_max=2,
    )
    async def bill(order: Order) -> None:
        called.append(order)
        if error is not None:
            raise error

    await consumed(cluster, broker)
    assert len(called) == tries
    assert len(cluster.received("%DLQ%billing")) == is_dead


async def test_the_reason_of_a_dead_letter_is_what_the_handler_raised(cluster: Cluster) -> None:
    broker = RocketBroker(cluster.name_server)

    @broker.subscriber("orders", group="billing", start_from=StartFrom.FIRST, retry_count_max=0)
    async def bill(order: Order) -> None:
        raise ValueError(f"no bill for {order.number}")

    await consumed(cluster, broker)
    [dead] = cluster.received("%DLQ%billing")
    assert dead.dlq_reason == ("no bill for 1", "ValueError", 1)
