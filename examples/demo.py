"""A tour of a cluster: send, consume, retry, transactions, delays, administration, Spark.

Everything runs in this process on free ports of loopback, and is removed at the end. Each chapter
is a function in `CHAPTERS`, and continues with the `Stage` of those before it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
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
GROUP = "billing"
DASHBOARD_PORT = 8088
console = Console(highlight=False)


@dataclass
class Stage:
    cluster: Cluster
    # Messages that the listener of the group has processed.
    billed: asyncio.Queue[ReceivedMessage] = field(default_factory=asyncio.Queue)

    @property
    def name_server(self) -> str:
        return self.cluster.name_server


async def main() -> None:
    console.print("A name server, a broker and their clients, all in this process.")
    begin_s = time.perf_counter()
    async with Cluster() as cluster:
        took_ms = (time.perf_counter() - begin_s) * 1000
        console.print(f"name server at {cluster.name_server} and broker up in {took_ms:.0f} ms")
        stage = Stage(cluster)
        for number, (title, show) in enumerate(CHAPTERS, 1):
            console.print(f"\n[bold]{number}. {title}[/bold]")
            await show(stage)
    console.print(
        "\nTo see a cluster in a browser: pip install '.\\[dashboard]', then"
        f" [bold]roquet up --dashboard {DASHBOARD_PORT}[/bold] and http://127.0.0.1:{DASHBOARD_PORT}/"
    )


async def show_sending(stage: Stage) -> None:
    async with AsyncProducer(stage.name_server, "shop") as producer:
        for number in range(4):
            order = Message(TOPIC, b"order %d" % number, tags="new", keys=(f"order-{number}",))
            receipt = await producer.send(order)
            place = f"queue {receipt.queue.queue_id}, offset {receipt.queue_offset}"
            console.print(f"sent order {number}: {place}")
        reminder = Message(TOPIC, b"a reminder", tags="due")
        await producer.send(reminder, delay=timedelta(hours=1))
        console.print("sent a reminder that is due in an hour")


async def show_transaction(stage: Stage) -> None:
    async with (
        AsyncTransactionProducer(
            stage.name_server, "bank", check=lambda _message: TransactionState.ROLLBACK
        ) as bank,
        bank.transaction(Message(TOPIC, b"order 4, paid", tags="paid")),
    ):
        console.print("order 4 waits: no consumer sees it before the bank has decided")
    console.print("the bank has committed, so order 4 is delivered")


async def show_consuming(stage: Stage) -> None:
    async def bill(message: ReceivedMessage) -> None:
        if message.body == b"order 2" and message.retry_count == 0:
            console.print("order 2 fails, and is redelivered in a second")
            raise RetryLater(timedelta(seconds=1))
        await stage.billed.put(message)

    consumer = AsyncPushConsumer(stage.name_server, GROUP, bill, start_from=StartFrom.FIRST)
    consumer.subscribe(TOPIC)
    async with consumer:
        for _ in range(5):
            message = await stage.billed.get()
            tries = f" at try {message.retry_count + 1}" if message.retry_count else ""
            console.print(f"billed {message.body.decode()}{tries}")
        stage.cluster.clock.advance(timedelta(hours=1))
        reminder = await stage.billed.get()
        console.print(f"the clock of the cluster is moved by an hour: {reminder.body.decode()}")


async def show_admin(stage: Stage) -> None:
    async with AsyncAdmin(stage.name_server) as admin:
        (found,) = await admin.messages_by_key(TOPIC, "order-3")
        console.print(f"by key order-3: {found.body.decode()}, sent with tags {found.tags}")
        progress = await admin.progress(GROUP, topic=TOPIC)
        table = Table(
            *("queue", "messages", "consumed by billing", "lag"),
            title=f"progress of group {GROUP} in topic {TOPIC}",
        )
        for each in progress.queues:
            row = (each.queue.queue_id, each.broker_offset, each.consumer_offset or 0, each.lag)
            table.add_row(*map(str, row))
        console.print(table)
        console.print(
            "These are the 4 orders, the paid one and the reminder; "
            f"{progress.lag} of them are left. The retry of order 2 was in the retry topic."
        )


async def show_pipeline(stage: Stage) -> None:
    # In a thread: the servers continue in this one.
    await asyncio.to_thread(show_spark, console, stage.name_server, TOPIC)


CHAPTERS: tuple[tuple[str, Callable[[Stage], Awaitable[None]]], ...] = (
    ("Send, now and with a delay", show_sending),
    ("Send in a transaction", show_transaction),
    ("Consume and retry", show_consuming),
    ("Inspect, as operators do", show_admin),
    ("Ingest a topic into a lake with Spark, and sum it up", show_pipeline),
)

if __name__ == "__main__":
    asyncio.run(main())
