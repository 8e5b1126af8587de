"""Our clients under load: one mode, one process, one line of JSON at the end.

ours.py MODE NAME_SERVER TOPIC SECONDS
"""

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from roquet import AsyncProducer, Message, Producer
from roquet.net.loop import run, settle_garbage_collection

BODY = b"x" * 128
WARM_UP_COUNT = 2_000
GROUP = "bench"
# Enough callers to fill batches; each waits for its own message.
TOGETHER = 4_000
LINGER_MS = 1.0


class Meter:
    """Counts between `start` and the end of its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.count = 0
        self.latencies_s: list[float] = []

    def start(self) -> None:
        settle_garbage_collection()
        self._cpu_s = time.process_time()
        self._start_s = time.perf_counter()
        self.end_s = self._start_s + self._seconds

    def report(self) -> None:
        figures = {
            "messages": self.count,
            "seconds": time.perf_counter() - self._start_s,
            "cpu_s": time.process_time() - self._cpu_s,
        }
        if self.latencies_s:
            figures["p50_us"] = statistics.median(self.latencies_s) * 1e6
        print(json.dumps(figures))


async def send_one_by_one(name_server: str, topic: str, meter: Meter) -> None:
    async with AsyncProducer(name_server, GROUP) as producer:
        await warm_up(producer, topic)
        meter.start()
        before_s = time.perf_counter()
        while before_s < meter.end_s:
            await producer.send(Message(topic, BODY))
            after_s = time.perf_counter()
            meter.latencies_s.append(after_s - before_s)
            before_s = after_s
        meter.count = len(meter.latencies_s)
        meter.report()


async def send_64(name_server: str, topic: str, meter: Meter) -> None:
    async with AsyncProducer(name_server, GROUP) as producer:
        await warm_up(producer, topic)
        await send_side_by_side(producer, topic, meter, 64)


async def send_together(name_server: str, topic: str, meter: Meter) -> None:
    async with AsyncProducer(name_server, GROUP, linger_ms=LINGER_MS) as producer:
        await warm_up(producer, topic)
        await send_side_by_side(producer, topic, meter, TOGETHER)


async def send_side_by_side(
    producer: AsyncProducer, topic: str, meter: Meter, in_flight: int
) -> None:
    async def keep_sending() -> None:
        while time.perf_counter() < meter.end_s:
            await producer.send(Message(topic, BODY))
            meter.count += 1

    meter.start()
    await asyncio.gather(*(keep_sending() for _ in range(in_flight)))
    meter.report()


async def warm_up(producer: AsyncProducer, topic: str) -> None:
    await producer.send_many(Message(topic, BODY) for _ in range(WARM_UP_COUNT))


def send_in_threads(name_server: str, topic: str, meter: Meter, thread_count: int) -> None:
    counts = [0] * thread_count
    with Producer(name_server, GROUP) as producer:
        producer.send_many(Message(topic, BODY) for _ in range(WARM_UP_COUNT))

        def keep_sending(index: int) -> None:
            before_s = time.perf_counter()
            while before_s < meter.end_s:
                producer.send(Message(topic, BODY))
                counts[index] += 1
                after_s = time.perf_counter()
                if thread_count == 1:
                    meter.latencies_s.append(after_s - before_s)
                before_s = after_s

        meter.start()
        threads = [
            threading.Thread(target=keep_sending, args=(index,)) for index in range(thread_count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        meter.count = sum(counts)
        meter.report()


ASYNC_MODES: dict[str, Callable[[str, str, Meter], Coroutine[Any, Any, None]]] = {
    "send-1": send_one_by_one,
    "send-64": send_64,
    "send-together": send_together,
}
THREADS = {"blocking-1": 1, "blocking-64": 64}


def main() -> None:
    mode, name_server, topic, seconds = sys.argv[1:]
    meter = Meter(float(seconds))
    if mode in THREADS:
        send_in_threads(name_server, topic, meter, THREADS[mode])
    else:
        run(ASYNC_MODES[mode](name_server, topic, meter))


if __name__ == "__main__":
    main()
