"""Ordered messages. Start a cluster first: `roquet up`."""

import asyncio
import sys
from collections import defaultdict

from rich.console import Console

from roquet import AsyncProducer, AsyncPushConsumer, Message, ReceivedMessage

console = Console()
STEPS = (b"ordered", b"paid", b"served")


async def main(name_server: str) -> None:
    seen: defaultdict[str, list[bytes]] = defaultdict(list)
    is_done = asyncio.Event()

    async def listen(message: ReceivedMessage) -> None:
        """One message of a queue at a time; one that fails blocks those after it."""
        seen[message.keys[0]].append(message.body)
        if sum(map(len, seen.values())) == 3 * len(STEPS):
            is_done.set()

    async with AsyncProducer(name_server, group="bar") as producer:
        for step in STEPS:
            for order in ("order-1", "order-2", "order-3"):
                # The same key leads to the same queue.
                await producer.send(Message("steps", step, keys=(order,)), order_key=order)
    consumer = AsyncPushConsumer(name_server, "waiters", listen, orderly=True)
    consumer.subscribe("steps")
    async with consumer, asyncio.timeout(30):
        await is_done.wait()
    for order, steps in sorted(seen.items()):
        console.print(f"{order}: {b', '.join(steps).decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
