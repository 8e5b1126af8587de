"""Retries and dead letters. Start a cluster first: `roquet up`."""

import asyncio
import sys
from datetime import timedelta

from rich.console import Console

from roquet import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPushConsumer,
    DeadLetter,
    Message,
    ReceivedMessage,
    RetryLater,
)

console = Console()


async def main(name_server: str) -> None:
    is_done = asyncio.Event()

    async def listen(message: ReceivedMessage) -> None:
        if message.body == b"rotten":
            raise DeadLetter("nobody can cook this")
        if not message.retry_count:
            # Any other exception does the same, after ten seconds, and is logged.
            raise RetryLater(timedelta(seconds=1))
        console.print(f"{message.body.decode()}: done at try {message.retry_count + 1}")
        is_done.set()

    consumer = AsyncPushConsumer(name_server, "cooks", listen)
    consumer.subscribe("meals")
    async with AsyncProducer(name_server, group="guests") as producer, consumer:
        for meal in (b"rotten", b"soup"):
            await producer.send(Message("meals", meal))
        async with asyncio.timeout(30):
            await is_done.wait()
    async with AsyncAdmin(name_server) as admin:
        for letter in await admin.dead_letters("cooks"):
            assert letter.dlq_reason is not None
            console.print(f"dead letter: {letter.body.decode()}, {letter.dlq_reason.reason}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
