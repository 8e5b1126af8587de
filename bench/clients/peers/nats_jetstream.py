"""NATS JetStream by nats-py: a stream on disk, pushed to its consumer."""

import asyncio
from collections.abc import Sequence

import nats
from nats.errors import TimeoutError as NothingCame
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

UNACKNOWLEDGED_MAX = 20_000
WAIT_S = 1.0


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic

    async def open_sender(self) -> None:
        self._connection = await nats.connect(f"nats://{self._address}")
        self._stream = self._connection.jetstream(publish_async_max_pending=UNACKNOWLEDGED_MAX)
        await self._stream.add_stream(
            name=self._topic, subjects=[self._topic], storage=StorageType.FILE
        )

    async def send(self, message: bytes) -> None:
        await self._stream.publish(self._topic, message)

    async def send_all(self, messages: Sequence[bytes]) -> None:
        await asyncio.gather(
            *[await self._stream.publish_async(self._topic, each) for each in messages]
        )

    async def open_receiver(self, group: str) -> None:
        await self.open_sender()
        self._subscription = await self._stream.subscribe(
            self._topic,
            durable=group,
            manual_ack=True,
            config=ConsumerConfig(
                ack_policy=AckPolicy.ALL,
                deliver_policy=DeliverPolicy.ALL,
                max_ack_pending=UNACKNOWLEDGED_MAX,
            ),
        )

    async def receive(self) -> Sequence[bytes]:
        try:
            found = [await self._subscription.next_msg(WAIT_S)]
        except NothingCame:
            return []
        pending = range(self._subscription.pending_msgs)
        found += [await self._subscription.next_msg(WAIT_S) for _ in pending]
        await found[-1].ack()
        return [message.data for message in found]

    async def close(self) -> None:
        await self._connection.close()
