"""Our client, for asyncio."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from roquet import AsyncProducer, AsyncPullConsumer, Message, StartFrom

LINGER_MS = 1.0


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic
        self._opened = AsyncExitStack()

    async def open_sender(self) -> None:
        self._producer = await self._opened.enter_async_context(
            AsyncProducer(self._address, "bench")
        )
        # Only for those that are sent together: one alone would wait for others.
        self._gathering = await self._opened.enter_async_context(
            AsyncProducer(self._address, "bench-bulk", linger_ms=LINGER_MS)
        )

    async def send(self, message: bytes) -> None:
        await self._producer.send(Message(self._topic, message))

    async def send_all(self, messages: Sequence[bytes]) -> None:
        made = [Message(self._topic, each) for each in messages]
        await self._gathering.send_many(made, in_flight=4)

    async def open_receiver(self, group: str) -> None:
        self._consumer = AsyncPullConsumer(self._address, group, start_from=StartFrom.FIRST)
        self._consumer.subscribe(self._topic)
        await self._opened.enter_async_context(self._consumer)

    async def receive(self) -> Sequence[bytes]:
        return [message.body for message in await self._consumer.poll()]

    async def close(self) -> None:
        await self._opened.aclose()
