"""Whether a broker has a message: asked by its id, as soon as it is acknowledged."""

import pytest

from roquet import AsyncProducer, Message
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.live_cluster import LiveCluster
from tests.support.scripted_cluster import ScriptedCluster, refuse

TOPIC = "orders"
QUEUE = QueueRef(TOPIC, "broker-a", 0)


async def test_a_message_is_found_as_soon_as_it_is_acknowledged(producer: AsyncProducer) -> None:
    for number in range(20):
        receipt = await producer.send(Message(TOPIC, b"%d" % number), queue=QUEUE)
        assert await producer.is_stored(QUEUE, receipt.message_id)


async def test_every_message_of_a_batch_is_found_from_any_queue(producer: AsyncProducer) -> None:
    body = encode_batch([(0, b"a", b"UNIQ_KEY\x01id-%d" % number) for number in range(3)])
    await producer.send_encoded(TOPIC, body, 3, queue=QUEUE)
    other_queue = QUEUE._replace(queue_id=3)
    found = [await producer.is_stored(other_queue, f"id-{number}") for number in range(4)]
    assert found == [True, True, True, False]


async def test_a_key_is_no_id(producer: AsyncProducer) -> None:
    await producer.send(Message(TOPIC, b"a", keys=("id-1",)), queue=QUEUE)
    assert not await producer.is_stored(QUEUE, "id-1")


async def test_a_namespace_has_messages_of_its_own(cluster: LiveCluster) -> None:
    async with AsyncProducer(cluster.name_server, "shop", namespace="ns") as producer:
        receipt = await producer.send(Message(TOPIC, b"a"))
        assert await producer.is_stored(receipt.queue, receipt.message_id)
        async with AsyncProducer(cluster.name_server, "shop") as stranger:
            await stranger.send(Message(TOPIC, b"a"), queue=QUEUE)
            assert not await stranger.is_stored(QUEUE, receipt.message_id)


async def test_a_broker_that_cannot_say_is_an_error(scripted: ScriptedCluster) -> None:
    scripted.brokers[0].script = refuse(ResponseCode.SYSTEM_BUSY)
    async with AsyncProducer(scripted.name_server, "shop") as producer:
        with pytest.raises(Unreachable):
            await producer.is_stored(QueueRef(TOPIC, "nobody", 0), "id")
        with pytest.raises((RequestRefused, Unreachable)):
            await producer.is_stored(QueueRef(TOPIC, "a", 0), "id")
