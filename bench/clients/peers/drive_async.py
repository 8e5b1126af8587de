"""A client for asyncio under load: one mode, one process, one line of JSON at the end.

    drive_async.py CLIENT MODE ADDRESS TOPIC AMOUNT GROUP

CLIENT is a module of this directory, whose class `Client` is an `AsyncClient`. Runs in an
environment with that client alone: it must not import anything of ours. All have the same loop.
"""

import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import uvloop

sys.path.insert(0, str(Path(__file__).parents[3]))

from bench.clients.peers.metering import (
    BULK_COUNT,
    CONSUME_S_MAX,
    DELAY_WARM_UP_S,
    FILL_S_MAX,
    IN_FLIGHT,
    WARM_UP_S,
    Meter,
    Order,
    body,
    delay_us,
    input_ended,
    order_of_command_line,
)


class AsyncClient(Protocol):
    def __init__(self, address: str, topic: str) -> None: ...

    async def open_sender(self) -> None: ...

    async def send(self, message: bytes) -> None:
        """Returns when the server has acknowledged it."""

    async def send_all(self, messages: Sequence[bytes]) -> None:
        """As the client sends many at its best; returns when all are acknowledged."""

    async def open_receiver(self, group: str) -> None:
        """A new group, which gets all messages of the topic."""

    async def receive(self) -> Sequence[bytes]:
        """What is there, or comes next; it is acknowledged, so that it is not received again."""

    async def close(self) -> None: ...


async def send_one_by_one(client: AsyncClient, order: Order) -> None:
    await client.open_sender()
    await keep_sending(client, Meter(WARM_UP_S))
    meter = Meter(order.amount)
    before_s = time.perf_counter()
    while before_s < meter.end_s:
        await client.send(body())
        after_s = time.perf_counter()
        meter.times_us.append((after_s - before_s) * 1e6)
        before_s = after_s
    meter.count = len(meter.times_us)
    meter.report()


async def send_side_by_side(client: AsyncClient, order: Order) -> None:
    await client.open_sender()
    for seconds in (WARM_UP_S, order.amount):
        meter = Meter(seconds)
        await asyncio.gather(*(keep_sending(client, meter) for _ in range(IN_FLIGHT)))
    meter.report()


async def keep_sending(client: AsyncClient, meter: Meter) -> None:
    while not meter.is_over:
        await client.send(body())
        meter.count += 1


async def send_in_bulk(client: AsyncClient, order: Order) -> None:
    await client.open_sender()
    await client.send_all([body() for _ in range(BULK_COUNT)])
    meter = Meter(order.amount)
    while not meter.is_over:
        await client.send_all([body() for _ in range(BULK_COUNT)])
        meter.count += BULK_COUNT
    meter.report()


async def fill(client: AsyncClient, order: Order) -> None:
    await client.open_sender()
    meter = Meter(FILL_S_MAX)
    while meter.count < order.amount and not meter.is_over:
        await client.send_all([body() for _ in range(BULK_COUNT)])
        meter.count += BULK_COUNT
    meter.report()


async def consume(client: AsyncClient, order: Order) -> None:
    """So many messages of a full topic; the time runs from the first that came."""
    await client.open_receiver(order.group)
    while not await client.receive():
        pass
    meter = Meter(CONSUME_S_MAX)
    while meter.count < order.amount and not meter.is_over:
        meter.count += len(await client.receive())
    meter.report()


async def send_at_a_pace(client: AsyncClient, order: Order) -> None:
    """So many a second, until the input ends."""
    await client.open_sender()
    is_over = input_ended()
    next_s = time.perf_counter()
    while not is_over.is_set():
        await client.send(body())
        next_s += 1 / order.amount
        await asyncio.sleep(max(0.0, next_s - time.perf_counter()))


async def measure_delays(client: AsyncClient, order: Order) -> None:
    """Between the calls of send and what receives, of two processes."""
    await client.open_receiver(order.group)
    while not await client.receive():
        pass
    for seconds in (DELAY_WARM_UP_S, order.amount):
        meter = Meter(seconds)
        while not meter.is_over:
            meter.times_us += map(delay_us, await client.receive())
    meter.count = len(meter.times_us)
    meter.report()


MODES: Final[dict[str, Callable[[AsyncClient, Order], Coroutine[Any, Any, None]]]] = {
    "send-1": send_one_by_one,
    "send-64": send_side_by_side,
    "bulk": send_in_bulk,
    "fill": fill,
    "consume": consume,
    "pace": send_at_a_pace,
    "delay": measure_delays,
}


async def run(order: Order) -> None:
    module = importlib.import_module(f"bench.clients.peers.{order.client}")
    client: AsyncClient = module.Client(order.address, order.topic)
    await MODES[order.mode](client, order)
    await client.close()


if __name__ == "__main__":
    uvloop.run(run(order_of_command_line()))
