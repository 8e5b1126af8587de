"""A message delivered only if a local transaction commits. Start a cluster first: `roquet up`."""

import asyncio
import sys
from contextlib import suppress

from rich.console import Console

from roquet import (
    AsyncPushConsumer,
    AsyncTransactionProducer,
    Message,
    ReceivedMessage,
    TransactionState,
)

console = Console()
# A program keeps this in its database, in the transaction that books the payment.
booked: set[str] = set()


class CardDeclined(Exception):
    pass


def was_booked(message: ReceivedMessage) -> TransactionState:
    """Called by the broker when the outcome is unknown, such as after a crash."""
    return TransactionState.COMMIT if message.message_id in booked else TransactionState.ROLLBACK


async def main(name_server: str) -> None:
    paid = asyncio.Queue[ReceivedMessage]()
    consumer = AsyncPushConsumer(name_server, "shipping", paid.put)
    consumer.subscribe("paid")
    async with AsyncTransactionProducer(name_server, "payments", check=was_booked) as producer:
        async with producer.transaction(Message("paid", b"order 1")) as transaction:
            booked.add(transaction.id)
        with suppress(CardDeclined):
            async with producer.transaction(Message("paid", b"order 2")):
                raise CardDeclined
        async with producer.transaction(Message("paid", b"order 3")) as transaction:
            booked.add(transaction.id)
        async with consumer:
            shipped = [(await paid.get()).body for _ in range(2)]
    console.print(f"shipped: {b', '.join(sorted(shipped)).decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
