"""Values of a type, from a producer to a listener, and what is no such value."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from roquet import (
    Admin,
    AsyncProducer,
    AsyncPushConsumer,
    BadArgument,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    StartFrom,
    Topic,
    TransactionProducer,
    TransactionState,
    Undecodable,
)
from roquet.testing import BlockingCluster
from tests.support.delivered import delivered, delivery_of
from tests.support.eventually import eventually, wait_until
from tests.support.raising import raises


@dataclass
class Order:
    number: int
    what: str = "coffee"


ORDERS = Topic("orders", Order)


@pytest.fixture(scope="module")
def cluster() -> Any:
    with BlockingCluster() as cluster:
        yield cluster


def consumer(cluster: BlockingCluster, group: str, **options: Any) -> PushConsumer:
    return PushConsumer(cluster.name_server, group, start_from=StartFrom.FIRST, **options)


def test_a_value_becomes_a_message_that_says_what_it_is() -> None:
    message = ORDERS(
        Order(7), tags="new", keys=("order-7",), properties={"city": "Rome"}, message_id="7"
    )
    assert message == Message(
        "orders",
        b'{"number":7,"what":"coffee"}',
        tags="new",
        keys=("order-7",),
        properties={"contentType": "application/json", "city": "Rome"},
        message_id="7",
    )
    assert ORDERS.decode(delivery_of(message)) == Order(7)


def test_a_value_of_another_type_is_refused_where_it_is_sent() -> None:
    with raises(BadArgument, argument="value"):
        ORDERS(7)  # type: ignore[arg-type]


def test_a_value_that_cannot_be_encoded_is_refused_where_it_is_sent() -> None:
    with raises(BadArgument, argument="value"):
        ORDERS(Order(7, what=object()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"number":"seven"}', b'{"what":"tea"}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_value_says_so(body: bytes) -> None:
    with raises(Undecodable, topic="orders", content_type=None):
        ORDERS.decode(delivered(body))


def test_another_content_type_is_not_decoded() -> None:
    avro = delivered(b'{"number":7}', properties={"contentType": "avro/binary"})
    with raises(Undecodable, topic="orders", content_type="avro/binary"):
        ORDERS.decode(avro)


def test_parameters_of_a_content_type_do_not_matter() -> None:
    found = delivered(
        b'{"number":7}', properties={"contentType": "Application/JSON; charset=utf-8"}
    )
    assert ORDERS.decode(found) == Order(7)


def test_a_sender_without_content_type_is_understood() -> None:
    assert ORDERS.decode(delivered(b'{"number":7,"new":[1]}')) == Order(7)


@pytest.mark.slow
def test_every_way_to_send_takes_a_typed_message(cluster: BlockingCluster) -> None:
    topic = Topic(cluster.new_topic(), Order)
    with Producer(cluster.name_server, "shop") as producer:
        producer.send(topic(Order(1)))
        producer.submit(topic(Order(2))).result(30)
        producer.send_batch([topic(Order(3)), topic(Order(4))])
        producer.send_many(topic(Order(number)) for number in (5, 6))
    with (
        TransactionProducer(
            cluster.name_server, "till", check=lambda _: TransactionState.COMMIT
        ) as till,
        till.transaction(topic(Order(7))),
    ):
        pass
    reading = PullConsumer(cluster.name_server, "archive", start_from=StartFrom.FIRST)
    reading.subscribe(topic.name)
    found: list[int] = []

    def has_all() -> bool:
        found.extend(topic.decode(each).number for each in reading.poll(timeout_s=1))
        return len(found) >= 7

    with reading:
        wait_until(has_all)
    assert sorted(found) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.slow
async def test_coroutines_get_values_too(cluster: BlockingCluster) -> None:
    topic = Topic(cluster.new_topic(), Order)
    got: list[tuple[Order, str | None]] = []
    reading = AsyncPushConsumer(cluster.name_server, "async", start_from=StartFrom.FIRST)

    @reading.on(topic)
    async def bill(order: Order, message: ReceivedMessage) -> None:
        got.append((order, message.tags))

    async with AsyncProducer(cluster.name_server, "shop") as producer, reading:
        await producer.send(topic(Order(1), tags="new"))
        await eventually(lambda: got)
    assert got == [(Order(1), "new")]


@pytest.mark.slow
@pytest.mark.parametrize("orderly", [False, True])
def test_what_cannot_be_decoded_is_a_dead_letter_at_once_with_its_reason(
    cluster: BlockingCluster, orderly: bool
) -> None:
    topic = Topic(cluster.new_topic(queues=1), Order)
    group = f"dead-{orderly}"
    got: list[Order] = []
    reading = consumer(cluster, group, orderly=orderly)

    @reading.on(topic)
    def bill(order: Order) -> None:
        got.append(order)

    with Producer(cluster.name_server, "shop") as producer, reading:
        producer.send(Message(topic.name, b'{"number":"seven"}'))
        producer.send(topic(Order(8)))
        cluster.consumed(group, allow_dead_letters=True)
        wait_until(lambda: got)
    assert got == [Order(8)]
    with Admin(cluster.name_server) as admin:
        (letter,) = admin.dead_letters(group)
    assert letter.body == b'{"number":"seven"}'
    assert letter.topic == topic.name
    assert letter.dlq_reason is not None
    assert letter.dlq_reason.error_type == "Undecodable"
    assert "Expected `int`, got `str` - at `$.number`" in (letter.dlq_reason.reason or "")
    assert letter.dlq_reason.try_count == 1


def test_a_listener_of_three_things_is_refused() -> None:
    def bill(order: Order, message: ReceivedMessage, more: int) -> None: ...

    with raises(BadArgument, argument="listener"):
        PushConsumer("127.0.0.1:9876", "billing").on(ORDERS)(bill)  # type: ignore[arg-type]


def test_batches_of_a_typed_topic_are_refused_with_the_way_out() -> None:
    with pytest.raises(BadArgument, match=r"leave out `batch_size`.*Topic\.decode"):
        PushConsumer("127.0.0.1:9876", "billing", batch_size=10).on(ORDERS)


def test_functions_and_coroutines_are_not_mixed() -> None:
    reading = PushConsumer("127.0.0.1:9876", "billing")
    reading.on(ORDERS)(lambda _order: None)

    async def ship(order: Order) -> None: ...

    with pytest.raises(BadArgument):
        reading.on(Topic("parcels", Order))(ship)


def test_a_listener_stays_the_function_it_is() -> None:
    def bill(order: Order) -> str:
        return order.what

    typed: Callable[[Order], str] = PushConsumer("127.0.0.1:9876", "billing").on(ORDERS)(bill)
    assert typed is bill


def test_an_async_listener_stays_the_function_it_is() -> None:
    async def bill(order: Order) -> str:
        return order.what

    reading = AsyncPushConsumer("127.0.0.1:9876", "billing")
    typed: Callable[[Order], Awaitable[str]] = reading.on(ORDERS)(bill)
    assert typed is bill
