"""All ways to send messages. Start a cluster first: `roquet up`."""

import asyncio
import sys
from datetime import timedelta

from rich.console import Console

from roquet import AsyncProducer, Message, Producer, RoquetError

console = Console()


def blocking(name_server: str) -> None:
    with Producer(name_server, group="shop") as producer:
        receipt = producer.send(Message("orders", b"one coffee", tags="new", keys=("order-1",)))
        console.print(f"stored at offset {receipt.queue_offset} of {receipt.queue}")
        # Messages with one key stay in order.
        for step in (b"ordered", b"paid", b"served"):
            producer.send(Message("orders", step), order_key="order-2")
        # Delivered in a minute.
        producer.send(Message("orders", b"still here?"), delay=timedelta(minutes=1))
        producer.send_batch([Message("orders", b"coffee %d" % number) for number in range(100)])


async def asynchronous(name_server: str) -> None:
    # Messages wait up to 2 ms for others to share a request with.
    async with AsyncProducer(name_server, group="shop", linger_ms=2) as producer:
        messages = (Message("orders", b"tea %d" % number) for number in range(10_000))
        await producer.send_many(messages, in_flight=1000)
        console.print(producer.statistics())


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
    try:
        blocking(address)
        asyncio.run(asynchronous(address))
    except RoquetError as error:
        sys.exit(f"{type(error).__name__}: {error}")
