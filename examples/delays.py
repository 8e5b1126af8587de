"""Delayed messages. Start a cluster first: `roquet up`."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from rich.console import Console

from roquet import AsyncProducer, AsyncPushConsumer, Message, ReceivedMessage

console = Console()


async def main(name_server: str) -> None:
    missing = {"by level", "by time", "by moment"}
    all_here = asyncio.Event()

    async def remind(message: ReceivedMessage) -> None:
        late = message.stored - message.born
        console.print(f"{message.body.decode()}: after {late.total_seconds():g} s")
        missing.discard(message.body.decode())
        if not missing:
            all_here.set()

    consumer = AsyncPushConsumer(name_server, "reminded", remind)
    consumer.subscribe("reminders")
    async with AsyncProducer(name_server, group="reminding") as producer:
        # A level works with every broker: 1 is a second, 18 is two hours.
        await producer.send(Message("reminders", b"by level"), delay_level=1)
        # An interval and a time of delivery need a broker with timers.
        await producer.send(Message("reminders", b"by time"), delay=timedelta(seconds=1))
        moment = datetime.now(UTC) + timedelta(seconds=1)
        await producer.send(Message("reminders", b"by moment"), delay=moment)
        async with consumer:
            await all_here.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
