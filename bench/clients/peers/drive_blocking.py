"""A client that blocks, under load as `drive_async.py` has it.

    drive_blocking.py CLIENT MODE ADDRESS TOPIC AMOUNT GROUP

CLIENT is a module of this directory, whose class `Client` is a `BlockingClient`.
"""

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

sys.path.insert(0, str(Path(__file__).parents[3]))

from bench.clients.peers.metering import (
    BULK_COUNT,
    CONSUME_S_MAX,
    DELAY_WARM_UP_S,
    IN_FLIGHT,
    WARM_UP_S,
    Meter,
    Order,
    body,
    delay_us,
    input_ended,
    order_of_command_line,
)


class BlockingClient(Protocol):
    def __init__(self, address: str, topic: str) -> None: ...

    def open_sender(self) -> None: ...

    def send(self, message: bytes) -> None:
        """Returns when the server has acknowledged it."""

    def keep_sending(self, in_flight: int, meter: Meter) -> None:
        """Adds to the meter what is acknowledged until it is over."""

    def send_all(self, messages: Sequence[bytes]) -> None:
        """As the client sends many at its best; returns when all are acknowledged."""

    def open_receiver(self, group: str) -> None:
        """A new group, which gets all messages of the topic."""

    def receive(self) -> Sequence[bytes]:
        """What is there, or comes next; it is acknowledged, so that it is not received again."""

    def close(self) -> None: ...


def send_one_by_one(client: BlockingClient, order: Order) -> None:
    client.open_sender()
    client.keep_sending(1, Meter(WARM_UP_S))
    meter = Meter(order.amount)
    before_s = time.perf_counter()
    while before_s < meter.end_s:
        client.send(body())
        after_s = time.perf_counter()
        meter.times_us.append((after_s - before_s) * 1e6)
        before_s = after_s
    meter.count = len(meter.times_us)
    meter.report()


def send_side_by_side(client: BlockingClient, order: Order) -> None:
    client.open_sender()
    for seconds in (WARM_UP_S, order.amount):
        meter = Meter(seconds)
        client.keep_sending(IN_FLIGHT, meter)
    meter.report()


def send_in_bulk(client: BlockingClient, order: Order) -> None:
    client.open_sender()
    client.send_all([body() for _ in range(BULK_COUNT)])
    meter = Meter(order.amount)
    while not meter.is_over:
        client.send_all([body() for _ in range(BULK_COUNT)])
        meter.count += BULK_COUNT
    meter.report()


def consume(client: BlockingClient, order: Order) -> None:
    client.open_receiver(order.group)
    while not client.receive():
        pass
    meter = Meter(CONSUME_S_MAX)
    while meter.count < order.amount and not meter.is_over:
        meter.count += len(client.receive())
    meter.report()


def send_at_a_pace(client: BlockingClient, order: Order) -> None:
    client.open_sender()
    is_over = input_ended()
    next_s = time.perf_counter()
    while not is_over.is_set():
        client.send(body())
        next_s += 1 / order.amount
        time.sleep(max(0.0, next_s - time.perf_counter()))


def measure_delays(client: BlockingClient, order: Order) -> None:
    client.open_receiver(order.group)
    while not client.receive():
        pass
    for seconds in (DELAY_WARM_UP_S, order.amount):
        meter = Meter(seconds)
        while not meter.is_over:
            meter.times_us += map(delay_us, client.receive())
    meter.count = len(meter.times_us)
    meter.report()


MODES: Final[dict[str, Callable[[BlockingClient, Order], None]]] = {
    "send-1": send_one_by_one,
    "send-64": send_side_by_side,
    "bulk": send_in_bulk,
    "consume": consume,
    "pace": send_at_a_pace,
    "delay": measure_delays,
}


def main() -> None:
    order = order_of_command_line()
    client: BlockingClient = importlib.import_module(f"bench.clients.peers.{order.client}").Client(
        order.address, order.topic
    )
    MODES[order.mode](client, order)
    client.close()


if __name__ == "__main__":
    main()
