"""Streams of messages: receipts in order, a bounded number in flight, and how they end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest

from roquet import AsyncProducer, BadArgument, Message, NotOpen, Producer
from roquet.testing import BlockingCluster
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises

TOPIC = "orders"
COUNT = 500


def numbered(count: int) -> Iterator[Message]:
    for number in range(count):
        yield Message(TOPIC, b"%d" % number, message_id=f"id-{number}")


async def numbered_later(count: int) -> AsyncIterator[Message]:
    for message in numbered(count):
        await asyncio.sleep(0)
        yield message


async def test_receipts_come_in_the_order_of_the_messages(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    expected = [f"id-{number}" for number in range(COUNT)]
    for messages in (numbered(COUNT), numbered_later(COUNT)):
        stream = producer.send_stream(messages, in_flight=10)
        assert [receipt.message_id async for receipt in stream] == expected
    assert len(cluster.all_stored(TOPIC)) == 2 * COUNT


async def test_a_receipt_does_not_wait_for_the_next_message(producer: AsyncProducer) -> None:
    may_go_on = asyncio.Event()

    async def silent() -> AsyncIterator[Message]:
        yield Message(TOPIC, b"first")
        await may_go_on.wait()
        yield Message(TOPIC, b"last")

    async with aclosing(producer.send_stream(silent())) as stream:
        await anext(stream)
        may_go_on.set()
        assert len([receipt async for receipt in stream]) == 1


async def test_a_slow_caller_has_a_bounded_number_in_flight(producer: AsyncProducer) -> None:
    taken = 0

    def counted() -> Iterator[Message]:
        nonlocal taken
        for message in numbered(COUNT):
            taken += 1
            yield message

    async with aclosing(producer.send_stream(counted(), in_flight=10)) as stream:
        await anext(stream)
        await eventually(lambda: producer.statistics().stored_count == 10)
        assert taken == 10
        await anext(stream)
        await eventually(lambda: producer.statistics().stored_count == 11)
        assert taken == 11


async def test_the_first_failure_ends_a_stream_after_the_receipts_before_it(
    producer: AsyncProducer,
) -> None:
    messages = [Message(TOPIC, b"good"), Message(TOPIC, b""), Message(TOPIC, b"after")]
    stream = producer.send_stream(messages)
    await anext(stream)
    with raises(BadArgument, argument="body"):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_stream_that_raises_does_so_after_its_receipts(producer: AsyncProducer) -> None:
    def broken() -> Iterator[Message]:
        yield Message(TOPIC, b"good")
        raise ConnectionResetError("the source is gone")

    stream = producer.send_stream(broken())
    await anext(stream)
    with pytest.raises(ConnectionResetError, match="the source is gone"):
        await anext(stream)


async def test_a_caller_that_stops_leaves_nothing_running(producer: AsyncProducer) -> None:
    def running() -> list[str]:
        names = [repr(task.get_coro()) for task in asyncio.all_tasks()]
        return [name for name in names if "stream_receipts" in name or "Producer.send" in name]

    async with aclosing(producer.send_stream(numbered_later(COUNT), in_flight=10)) as stream:
        await anext(stream)
        assert running()
    assert running() == []


async def test_what_is_no_stream_is_refused_at_the_call(cluster: LiveCluster) -> None:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        with raises(BadArgument, argument="messages"):
            producer.send_stream(Message(TOPIC, b"x"))  # type: ignore[arg-type]
        with raises(BadArgument, argument="in_flight"):
            producer.send_stream([], in_flight=0)
    with pytest.raises(NotOpen):
        producer.send_stream([])


def test_programs_without_a_loop_stream_as_well(roquet_cluster: BlockingCluster) -> None:
    with Producer(roquet_cluster.name_server, "shop") as producer:
        receipts = producer.send_stream(numbered(COUNT), in_flight=10)
        assert [receipt.message_id for receipt in receipts] == [f"id-{n}" for n in range(COUNT)]
        with raises(BadArgument, argument="messages"):
            producer.send_stream("orders")  # type: ignore[arg-type]
        failing = producer.send_stream([Message(TOPIC, b"good"), Message(TOPIC, b"")])
        next(failing)
        with raises(BadArgument, argument="body"):
            next(failing)
