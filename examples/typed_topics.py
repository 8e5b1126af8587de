"""Values instead of bytes: a topic with a type. Start a cluster first: `roquet up`."""

import asyncio
import sys
from dataclasses import dataclass

from rich.console import Console

from roquet import AsyncProducer, AsyncPushConsumer, ReceivedMessage, Topic

console = Console()


@dataclass
class Parcel:
    number: int
    city: str


# Producers and consumers import it from the same place.
parcels = Topic("parcels", Parcel)


async def main(name_server: str) -> None:
    is_done = asyncio.Event()
    consumer = AsyncPushConsumer(name_server, "carriers")

    # Type checkers refuse a listener of anything but parcels.
    @consumer.on(parcels)
    async def deliver(parcel: Parcel, message: ReceivedMessage) -> None:
        console.print(f"parcel {parcel.number} to {parcel.city}, {message.tags}")
        is_done.set()

    async with AsyncProducer(name_server, group="shop") as producer, consumer:
        await producer.send(parcels(Parcel(7, "Rome"), tags="express"))
        async with asyncio.timeout(30):
            await is_done.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
