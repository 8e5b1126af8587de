"""Redis Streams by redis-py, with hiredis: a group, read and acknowledged by a thousand."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

PIPELINE_COUNT = 1_000
READ_COUNT = 1_000
WAIT_MS = 1_000
MEMBER = "bench"


class Client:
    def __init__(self, address: str, topic: str) -> None:
        host, _, port = address.rpartition(":")
        self._redis = Redis(host=host, port=int(port))
        self._topic = topic
        self._group = ""

    async def open_sender(self) -> None:
        await self._redis.ping()

    async def send(self, message: bytes) -> None:
        await self._redis.xadd(self._topic, {b"body": message})

    async def send_all(self, messages: Sequence[bytes]) -> None:
        for first in range(0, len(messages), PIPELINE_COUNT):
            async with self._redis.pipeline(transaction=False) as pipeline:
                for each in messages[first : first + PIPELINE_COUNT]:
                    pipeline.xadd(self._topic, {b"body": each})
                await pipeline.execute()

    async def open_receiver(self, group: str) -> None:
        self._group = group
        await self._redis.xgroup_create(self._topic, group, id="0", mkstream=True)

    async def receive(self) -> Sequence[bytes]:
        streams: Any = await self._redis.xreadgroup(
            self._group, MEMBER, {self._topic: ">"}, count=READ_COUNT, block=WAIT_MS
        )
        entries = [entry for _, found in streams for entry in found]
        if entries:
            await self._redis.xack(self._topic, self._group, *(number for number, _ in entries))
        return [fields[b"body"] for _, fields in entries]

    async def close(self) -> None:
        await self._redis.aclose()
