"""Sending and consuming in batches. Start a cluster first: `roquet up`."""

import asyncio
import sys

from rich.console import Console

from roquet import AsyncProducer, AsyncPushConsumer, Message, ReceivedMessage, RetryLater

console = Console()
COUNT = 1000


async def main(name_server: str) -> None:
    done: set[bytes] = set()
    is_done = asyncio.Event()
    sizes: list[int] = []

    async def listen(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        for index, message in enumerate(messages):
            if message.body == b"tea 500" and not message.retry_count:
                # Those before it are acknowledged; it and the rest are redelivered in a second.
                raise RetryLater(done_count=index, delay_level=1)
            done.add(message.body)
        if len(done) == COUNT:
            is_done.set()

    consumer = AsyncPushConsumer(name_server, "kitchen", listen, batch_size=32)
    consumer.subscribe("teas")
    async with AsyncProducer(name_server, group="tables", linger_ms=1) as producer, consumer:
        # One request, in one queue, if it fits; otherwise several.
        await producer.send_batch([Message("teas", b"tea %d" % each) for each in range(500)])
        # Separately: they wait a millisecond for others to share a request with.
        rest = (Message("teas", b"tea %d" % each) for each in range(500, COUNT))
        await producer.send_many(rest, in_flight=500)
        async with asyncio.timeout(30):
            await is_done.wait()
    console.print(f"{len(done)} messages in {len(sizes)} batches of up to {max(sizes)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
