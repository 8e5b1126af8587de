"""RabbitMQ by aio-pika: a durable queue, persistent messages, publisher confirms."""

import asyncio
from collections.abc import Sequence

import aio_pika

PREFETCH_COUNT = 1_000


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic
        self._came: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()

    async def open_sender(self) -> None:
        self._connection = await aio_pika.connect(f"amqp://guest:guest@{self._address}/")
        self._channel = await self._connection.channel(publisher_confirms=True)
        self._queue = await self._channel.declare_queue(self._topic, durable=True)

    async def send(self, message: bytes) -> None:
        await self._channel.default_exchange.publish(
            aio_pika.Message(message, delivery_mode=aio_pika.DeliveryMode.PERSISTENT),
            routing_key=self._topic,
        )

    async def send_all(self, messages: Sequence[bytes]) -> None:
        await asyncio.gather(*map(self.send, messages))

    async def open_receiver(self, group: str) -> None:  # noqa: ARG002 - a queue is its group
        await self.open_sender()
        await self._channel.set_qos(prefetch_count=PREFETCH_COUNT)
        await self._queue.consume(self._came.put)

    async def receive(self) -> Sequence[bytes]:
        found = [await self._came.get()]
        while not self._came.empty():
            found.append(self._came.get_nowait())
        await found[-1].ack(multiple=True)
        return [message.body for message in found]

    async def close(self) -> None:
        await self._connection.close()
