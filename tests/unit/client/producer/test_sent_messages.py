"""Messages that wait at their broker, called back by their producer."""

from datetime import timedelta

import pytest

from roquet import AsyncProducer, Message
from roquet.client.errors import BadArgument, RequestRefused, Unreachable
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.recall_handle import RecallHandle
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises

TOPIC = "orders"


async def test_a_timed_message_is_recalled(cluster: LiveCluster, producer: AsyncProducer) -> None:
    receipt = await producer.send(Message(TOPIC, b"later"), delay=timedelta(minutes=1))
    assert receipt.recall_handle
    # Another producer has no route yet.
    async with AsyncProducer(cluster.name_server, "shop") as other:
        assert await other.recall(receipt.recall_handle) == receipt.message_id


async def test_what_is_no_handle_is_refused_before_it_is_sent(producer: AsyncProducer) -> None:
    for wrong in ("", "nonsense", None):
        with raises(BadArgument, argument="handle"):
            await producer.recall(wrong)  # type: ignore[arg-type]


async def test_a_recall_that_comes_too_late_is_refused(producer: AsyncProducer) -> None:
    handle = RecallHandle(TOPIC, "broker-a", 1, "id")
    await producer.send(Message(TOPIC, b"now"))
    with pytest.raises(RequestRefused) as caught:
        await producer.recall(handle.text)
    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION


async def test_a_handle_of_an_unknown_broker_is_an_error(producer: AsyncProducer) -> None:
    await producer.send(Message(TOPIC, b"now"))
    with raises(Unreachable, broker="nobody"):
        await producer.recall(RecallHandle(TOPIC, "nobody", 1, "id").text)
