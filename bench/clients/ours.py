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
from typing import Any, NamedTuple

from roquet import AsyncProducer, Message, Producer, PullConsumer
from roquet.client.pull.consumer import AsyncPullConsumer
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.received import ReceivedMessage
from roquet.net.loop import relax_garbage_collection, run

BODY = b"x" * 128
WARM_UP_COUNT = 2_000
# Enough callers to fill batches; each waits for its own message.
TOGETHER = 4_000
MANY = 20_000
LINGER_MS = 1.0
BATCH_SIZE = 32
FILL_SIZE = 1_000


class Order(NamedTuple):
    """What the command line asks for."""

    name_server: str
    topic: str
    amount: float
    group: str

    @property
    def message_count(self) -> int:
        return int(self.amount)


class Meter:
    """Counts from `start` on; senders send until `end_s`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self.count = 0
        self.latencies_s: list[float] = []

    def start(self) -> None:
        relax_garbage_collection()
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


async def send_one_by_one(order: Order) -> None:
    async with AsyncProducer(order.name_server, order.group) as producer:
        await warm_up(producer, order.topic)
        meter = Meter(order.amount)
        meter.start()
        before_s = time.perf_counter()
        while before_s < meter.end_s:
            await producer.send(Message(order.topic, BODY))
            after_s = time.perf_counter()
            meter.latencies_s.append(after_s - before_s)
            before_s = after_s
        meter.count = len(meter.latencies_s)
        meter.report()


async def send_64(order: Order) -> None:
    async with AsyncProducer(order.name_server, order.group) as producer:
        await send_side_by_side(producer, order, 64)


async def send_together(order: Order) -> None:
    async with AsyncProducer(order.name_server, order.group, linger_ms=LINGER_MS) as producer:
        await send_side_by_side(producer, order, TOGETHER)


async def send_many(order: Order) -> None:
    """One caller that has all its messages at hand."""
    meter = Meter(order.amount)
    async with AsyncProducer(order.name_server, order.group, linger_ms=LINGER_MS) as producer:
        await warm_up(producer, order.topic)
        meter.start()
        while time.perf_counter() < meter.end_s:
            messages = [Message(order.topic, BODY) for _ in range(MANY)]
            meter.count += len(await producer.send_many(messages, in_flight=4))
        meter.report()


async def send_side_by_side(producer: AsyncProducer, order: Order, in_flight: int) -> None:
    meter = Meter(order.amount)

    async def keep_sending() -> None:
        while time.perf_counter() < meter.end_s:
            await producer.send(Message(order.topic, BODY))
            meter.count += 1

    await warm_up(producer, order.topic)
    meter.start()
    await asyncio.gather(*(keep_sending() for _ in range(in_flight)))
    meter.report()


async def warm_up(producer: AsyncProducer, topic: str) -> None:
    await producer.send_many(Message(topic, BODY) for _ in range(WARM_UP_COUNT))


def send_in_threads(order: Order, thread_count: int) -> None:
    counts = [0] * thread_count
    meter = Meter(order.amount)
    with Producer(order.name_server, order.group) as producer:
        producer.send_many(Message(order.topic, BODY) for _ in range(WARM_UP_COUNT))

        def keep_sending(index: int) -> None:
            before_s = time.perf_counter()
            while before_s < meter.end_s:
                producer.send(Message(order.topic, BODY))
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


async def fill(order: Order) -> None:
    """Messages for those who read."""
    meter = Meter()
    meter.start()
    async with AsyncProducer(order.name_server, order.group) as producer:
        messages = [Message(order.topic, BODY)] * FILL_SIZE
        while meter.count < order.message_count:
            await producer.send_batch(messages)
            meter.count += FILL_SIZE
    meter.report()


async def push(order: Order) -> None:
    """To a listener that only looks at the body."""
    meter, all_seen = Meter(), asyncio.Event()

    async def listen(message: ReceivedMessage) -> None:
        count_one(meter, message, order.message_count, all_seen)

    async with consumer_of(order, listen):
        await all_seen.wait()
        meter.report()


async def push_to_function(order: Order) -> None:
    """To a plain function, which is called in a thread."""
    meter, all_seen = Meter(), asyncio.Event()
    loop = asyncio.get_running_loop()
    # Functions are called by several threads, and an event belongs to the loop.
    lock = threading.Lock()

    def listen(message: ReceivedMessage) -> None:
        assert message.body == BODY
        with lock:
            if not meter.count:
                meter.start()
            meter.count += 1
            if meter.count == order.message_count:
                loop.call_soon_threadsafe(all_seen.set)

    async with consumer_of(order, listen):
        await all_seen.wait()
        meter.report()


async def push_batches(order: Order) -> None:
    meter, all_seen = Meter(), asyncio.Event()

    async def listen(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            count_one(meter, message, order.message_count, all_seen)

    async with consumer_of(order, listen, batch_size=BATCH_SIZE):
        await all_seen.wait()
        meter.report()


async def poll(order: Order) -> None:
    """By a program that only counts: members that it does not use are not decoded."""
    await keep_polling(order, len)


async def poll_bodies(order: Order) -> None:
    await keep_polling(order, lambda messages: sum(message.body == BODY for message in messages))


async def keep_polling(order: Order, looked_at: Callable[[list[ReceivedMessage]], int]) -> None:
    meter = Meter()
    consumer = AsyncPullConsumer(order.name_server, order.group)
    consumer.subscribe(order.topic)
    async with consumer:
        while meter.count < order.message_count:
            messages = await consumer.poll()
            if not meter.count:
                meter.start()
            meter.count += looked_at(messages)
        meter.report()


def poll_blocking(order: Order) -> None:
    """By a thread of a program without an event loop."""
    meter = Meter()
    consumer = PullConsumer(order.name_server, order.group)
    consumer.subscribe(order.topic)
    with consumer:
        while meter.count < order.message_count:
            messages = consumer.poll()
            if not meter.count:
                meter.start()
            meter.count += sum(message.body == BODY for message in messages)
        meter.report()


def count_one(meter: Meter, message: ReceivedMessage, count: int, all_seen: asyncio.Event) -> None:
    if not meter.count:
        meter.start()  # What comes before is joining the group.
    assert message.body == BODY
    meter.count += 1
    if meter.count == count:
        all_seen.set()


def consumer_of(order: Order, listener: Any, batch_size: Any = None) -> AsyncPushConsumer:
    consumer = AsyncPushConsumer(order.name_server, order.group, listener, batch_size=batch_size)
    consumer.subscribe(order.topic)
    return consumer


MODES: dict[str, Callable[[Order], Coroutine[Any, Any, None]]] = {
    "send-1": send_one_by_one,
    "send-64": send_64,
    "send-together": send_together,
    "send-many": send_many,
    "fill": fill,
    "push": push,
    "push-function": push_to_function,
    "push-batch": push_batches,
    "poll": poll,
    "poll-bodies": poll_bodies,
}
THREADS = {"blocking-1": 1, "blocking-64": 64}


def main() -> None:
    mode, name_server, topic, amount, group = sys.argv[1:]
    order = Order(name_server, topic, float(amount), group)
    if mode in THREADS:
        send_in_threads(order, THREADS[mode])
    elif mode == "poll-blocking":
        poll_blocking(order)
    else:
        run(MODES[mode](order))


if __name__ == "__main__":
    main()
