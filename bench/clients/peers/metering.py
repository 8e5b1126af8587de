"""What all clients of the comparison share: the message, what is counted, one line of JSON.

Runs in the environments of other clients: it must not import anything of ours.
"""

import gc
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

SIZE: Final = 128
# Enough for each call to be at its best, few enough to be acknowledged within moments.
BULK_COUNT: Final = 10_000
IN_FLIGHT: Final = 64
WARM_UP_S: Final = 1.0
# Some would take minutes.
CONSUME_S_MAX: Final = 5.0
FILL_S_MAX: Final = 60.0
# What comes first is joining a group, compiling and connecting.
DELAY_WARM_UP_S: Final = 2.0
_STAMP_SIZE: Final = 20
_REST: Final = b"x" * (SIZE - _STAMP_SIZE)  # A client in C takes a zero byte for the end.


class Order(NamedTuple):
    """What the command line asks for. `amount` is in seconds, messages, or messages a second."""

    client: str
    mode: str
    address: str
    topic: str
    amount: float
    group: str


def order_of_command_line() -> Order:
    client, mode, address, topic, amount, group = sys.argv[1:]
    return Order(client, mode, address, topic, float(amount), group)


def body() -> bytes:
    """With the time in it; processes of one machine have the same monotonic clock."""
    return b"%020d" % time.monotonic_ns() + _REST


def delay_us(received: bytes) -> float:
    return (time.monotonic_ns() - int(received[:_STAMP_SIZE])) / 1e3


def server_cpu_s() -> float:
    """Of all processes of the server; their ids come by the environment.

    A child that has ended, like those that save files for Redis, is in the times of its parent.
    """
    total = 0
    for process_id in os.environ["SERVER_PROCESSES"].split():
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2].split()
            # Its own times, and those of children it has waited for, each in user and kernel mode.
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def input_ended() -> threading.Event:
    """Set when the program that started this one has closed its input."""
    event = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        event.set()

    threading.Thread(target=wait, daemon=True).start()
    return event


def relax_garbage_collection() -> None:
    """The same for everyone: what exists now is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


class Meter:
    """Counts from its creation on, until `end_s` if it was given seconds."""

    def __init__(self, seconds: float = 0.0) -> None:
        relax_garbage_collection()
        self.count = 0
        self.times_us: list[float] = []
        self._cpu_s = time.process_time()
        self._server_cpu_s = server_cpu_s()
        self._start_s = time.perf_counter()
        self.end_s = self._start_s + seconds

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.end_s

    def report(self) -> None:
        figures = {
            "messages": self.count,
            "seconds": time.perf_counter() - self._start_s,
            "cpu_s": time.process_time() - self._cpu_s,
            "server_cpu_s": server_cpu_s() - self._server_cpu_s,
        }
        if self.times_us:
            times_us = sorted(self.times_us)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
                figures[name] = times_us[int(len(times_us) * share)]
        print(json.dumps(figures), flush=True)
