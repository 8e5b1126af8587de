"""Sends a stream of messages: many in flight, receipts in the order of the messages.

The next message is taken from the stream when there is room for it, also while the caller waits
for a receipt, and receipts are handed out as they come, also while the stream has nothing. Neither
waits for the other, so the stream may be a socket that is silent for an hour.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable
from typing import Any

from roquet.client.producer.receipt import SendReceipt
from roquet.protocol.messages.message import Message

Stream = AsyncIterable[Message] | Iterable[Message]


async def stream_receipts(
    messages: Stream,
    send: Callable[[Message], Coroutine[Any, Any, SendReceipt]],
    in_flight: int,
) -> AsyncGenerator[SendReceipt, None]:
    """Raises what `send` does for the first message that fails, and what the stream raises, after
    the receipts of those before it. What is in flight then is cancelled."""
    room = asyncio.Semaphore(in_flight)
    # None is the end.
    sends: asyncio.Queue[asyncio.Task[SendReceipt] | None] = asyncio.Queue()
    unfinished: set[asyncio.Task[Any]] = set()

    async def feed() -> None:
        try:
            await room.acquire()
            async for message in _each(messages):
                task = asyncio.create_task(send(message))
                unfinished.add(task)
                sends.put_nowait(task)
                await room.acquire()
        finally:
            sends.put_nowait(None)

    feeder = asyncio.create_task(feed())
    unfinished.add(feeder)
    try:
        while (task := await sends.get()) is not None:
            receipt = await task
            unfinished.discard(task)
            yield receipt
            room.release()
        await feeder
    finally:
        for each in unfinished:
            each.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


async def _each(messages: Stream) -> AsyncGenerator[Message, None]:
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
        return
    for message in messages:
        yield message
