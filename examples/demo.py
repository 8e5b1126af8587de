"""A cluster in a blink: send, consume, fail and try again, decide later, delay, look behind, count.

Everything runs in this process on free ports of loopback, and is gone at the end.
"""

import asyncio
import time
from datetime import timedelta

from rich.console import Console
from rich.table import Table

from demo_spark import show_spark
from roquet import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncTransactionProducer,
    Message,
    ReceivedMessage,
    RetryLater,
    StartFrom,
    TransactionState,
)
from roquet.testing import Cluster

TOPIC = "orders"
console = Console()


async def main() -> None:
    begin_s = time.perf_counter()
    async with Cluster() as cluster:
        took_ms = (time.perf_counter() - begin_s) * 1000
        console.print(f"name server at {cluster.name_server} and broker up in {took_ms:.0f} ms")
        await show_consumer(cluster)
        await show_transaction(cluster.name_server)
        await show_admin(cluster.name_server)
        # In a thread: the servers go on in this one.
        await asyncio.to_thread(show_spark, console, cluster.name_server, TOPIC)


async def show_consumer(cluster: Cluster) -> None:
    billed: asyncio.Queue[ReceivedMessage] = asyncio.Queue()

    async def bill(message: ReceivedMessage) -> None:
        if message.body == b"order 2" and message.retry_count == 0:
            raise RetryLater(delay_level=1)
        await billed.put(message)

    consumer = AsyncPushConsumer(cluster.name_server, "billing", bill, start_from=StartFrom.FIRST)
    consumer.subscribe(TOPIC, tags="new || due")
    async with AsyncProducer(cluster.name_server, "shop") as producer, consumer:
        for number in range(4):
            order = Message(TOPIC, b"order %d" % number, tags="new", keys=(f"order-{number}",))
            receipt = await producer.send(order)
            place = f"queue {receipt.queue.queue_id}, offset {receipt.queue_offset}"
            console.print(f"sent order {number}: {place}")
        reminder = Message(TOPIC, b"a reminder", tags="due")
        await producer.send(reminder, delay=timedelta(hours=1))
        for _ in range(4):
            message = await billed.get()
            tries = f" at try {message.retry_count + 1}" if message.retry_count else ""
            console.print(f"billed {message.body.decode()}{tries}")
        cluster.clock.advance(timedelta(hours=1))
        console.print(f"an hour later: {(await billed.get()).body.decode()}")


async def show_transaction(name_server: str) -> None:
    async with (
        AsyncTransactionProducer(
            name_server, "bank", check=lambda _message: TransactionState.ROLLBACK
        ) as bank,
        bank.transaction(Message(TOPIC, b"order 4, paid", tags="paid")),
    ):
        pass  # What belongs to it is written to a database here.
    console.print("a transaction was committed")


async def show_admin(name_server: str) -> None:
    async with AsyncAdmin(name_server) as admin:
        (found,) = await admin.messages_by_key(TOPIC, "order-3")
        console.print(f"by key order-3: {found.body.decode()}, sent with tags {found.tags}")
        progress = await admin.progress("billing", topic=TOPIC)
        table = Table("queue", "messages", "billed", title=f"billing of {TOPIC}")
        for queue in progress.queues:
            table.add_row(
                str(queue.queue.queue_id), str(queue.broker_offset), str(queue.consumer_offset)
            )
        console.print(table)


if __name__ == "__main__":
    asyncio.run(main())
