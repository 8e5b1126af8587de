"""Three ways to receive messages. Start a cluster first: `roquet up`."""

import asyncio
import sys
import threading

from rich.console import Console

from roquet import (
    AsyncProducer,
    AsyncPushConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)

console = Console()
COUNT = 10


def by_function(name_server: str) -> None:
    """Without an event loop: the function runs in threads, several at the same time."""
    all_here = threading.Semaphore(0)

    def listen(message: ReceivedMessage) -> None:
        assert message.topic == "news"
        all_here.release()  # Returning acknowledges.

    consumer = PushConsumer(name_server, "readers-1", listen, concurrency=4)
    consumer.subscribe("news")
    with Producer(name_server, group="press") as producer, consumer:
        for number in range(COUNT):
            producer.send(Message("news", b"%d" % number))
        received_count = sum(all_here.acquire(timeout=30) for _ in range(COUNT))
    console.print(f"a function got {received_count}")


async def by_coroutine(name_server: str) -> None:
    """In the event loop, at most `concurrency` at the same time."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(message: ReceivedMessage) -> None:
        await queue.put(message.body)

    consumer = AsyncPushConsumer(name_server, "readers-2", listen)
    consumer.subscribe("news")
    async with consumer:
        received = [await queue.get() for _ in range(COUNT)]
    console.print(f"a coroutine got {len(received)}")


async def by_loop(name_server: str) -> None:
    """A message is acknowledged when the next one is requested."""
    consumer = AsyncPushConsumer(name_server, group="readers-3")
    consumer.subscribe("news")
    received: list[bytes] = []
    async with consumer:
        async for message in consumer:
            received.append(message.body)
            if len(received) == COUNT:
                break
    console.print(f"a loop got {len(received)}")


async def asynchronous(name_server: str) -> None:
    async with AsyncProducer(name_server, group="press") as producer:
        await producer.send(Message("news", b"extra"))
    await by_coroutine(name_server)
    await by_loop(name_server)


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
    by_function(address)
    asyncio.run(asynchronous(address))
