"""Every member receives every message. Start a cluster first: `roquet up`."""

import asyncio
import sys
from tempfile import TemporaryDirectory

from rich.console import Console

from roquet import AsyncProducer, AsyncPushConsumer, Message, StartFrom

console = Console()


async def first_of(consumer: AsyncPushConsumer) -> bytes:
    async for message in consumer:
        return message.body
    raise AssertionError("the consumer was closed")


async def main(name_server: str) -> None:
    with TemporaryDirectory() as directory:
        # Each member keeps its own offsets: under its name, in a directory that should persist.
        members = [
            AsyncPushConsumer(
                name_server,
                group="screens",
                broadcasting=True,
                # The topic is created by the first message, which must not be missed.
                start_from=StartFrom.FIRST,
                instance_name=name,
                offsets_directory=directory,
            )
            for name in ("hall", "kitchen")
        ]
        for member in members:
            member.subscribe("menu")
        hall, kitchen = members
        async with AsyncProducer(name_server, group="chef") as producer, hall, kitchen:
            await producer.send(Message("menu", b"soup"))
            async with asyncio.timeout(30):
                bodies = await asyncio.gather(*map(first_of, members))
    console.print(f"{len(bodies)} members got {bodies[0].decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
