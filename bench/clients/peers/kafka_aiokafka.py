"""Kafka by aiokafka, with larger batches than its default, which is for slow links."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

BATCH_SIZE_MAX = 1 << 18
POLL_MS = 1_000


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic
        self._opened = AsyncExitStack()

    async def open_sender(self) -> None:
        self._producer = await self._opened.enter_async_context(
            AIOKafkaProducer(
                bootstrap_servers=self._address, acks="all", max_batch_size=BATCH_SIZE_MAX
            )
        )

    async def send(self, message: bytes) -> None:
        await self._producer.send_and_wait(self._topic, message)

    async def send_all(self, messages: Sequence[bytes]) -> None:
        await asyncio.gather(*[await self._producer.send(self._topic, each) for each in messages])

    async def open_receiver(self, group: str) -> None:
        self._consumer = await self._opened.enter_async_context(
            AIOKafkaConsumer(
                self._topic,
                bootstrap_servers=self._address,
                group_id=group,
                auto_offset_reset="earliest",
                metadata_max_age_ms=POLL_MS,  # The topic may be made later.
            )
        )

    async def receive(self) -> Sequence[bytes]:
        batches = await self._consumer.getmany(timeout_ms=POLL_MS)
        return [message.value for batch in batches.values() for message in batch]

    async def close(self) -> None:
        await self._opened.aclose()
