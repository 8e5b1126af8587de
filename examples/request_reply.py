"""Requests and replies by message. Start a cluster first: `roquet up`."""

import asyncio
import sys

from rich.console import Console

from roquet import AsyncProducer, AsyncPushConsumer, Message, ReceivedMessage, reply_to

console = Console()
PRICES = {b"coffee": b"2.40", b"tea": b"1.90"}


async def main(name_server: str) -> None:
    async with AsyncProducer(name_server, group="bar") as bar:

        async def answer(question: ReceivedMessage) -> None:
            await bar.send(reply_to(question, PRICES[question.body]))

        consumer = AsyncPushConsumer(name_server, "price-list", answer)
        consumer.subscribe("prices")
        async with consumer, AsyncProducer(name_server, group="guests") as guest:
            for drink in PRICES:
                reply = await guest.request(Message("prices", drink), timeout_s=10)
                console.print(f"{drink.decode()}: {reply.body.decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
