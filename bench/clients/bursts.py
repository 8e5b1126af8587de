"""What our clients ask of a program's event loop, memory and threads: one mode, one line of JSON.

bursts.py MODE NAME_SERVER TOPIC COUNT

`gather` starts all of its coroutines in one turn of the loop, whatever they do. The mode "floor"
has coroutines that do nothing but wait; "burst" has sends, which should not take much longer to
start, and must leave the loop free afterwards.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from roquet import AsyncProducer, Message, PushConsumer
from tests.support.loop_holds import LoopHolds

BODY: Final = b"x" * 128
FLOOR_S: Final = 1.0


async def measured(coroutines: Iterable[Coroutine[Any, Any, object]]) -> dict[str, float]:
    begin_s = time.thread_time()
    burst = asyncio.gather(*coroutines)
    # Comes back after the first step of each.
    await asyncio.sleep(0)
    start_s = time.thread_time() - begin_s
    holds = LoopHolds()
    holds.start()
    count = len(await burst)
    holds.stop()
    return {
        "start_ms": start_s * 1e3,
        "longest_ms": holds.longest_s * 1e3,
        "memory_mb": peak_memory_mb(),
        "count": count,
    }


async def burst(name_server: str, topic: str, count: int) -> None:
    async with AsyncProducer(name_server, "burst") as producer:
        await producer.send(Message(topic, BODY))
        figures = await measured(producer.send(Message(topic, BODY)) for _ in range(count))
    print(json.dumps(figures))


async def floor(_name_server: str, _topic: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    is_over = loop.create_future()
    loop.call_later(FLOOR_S, is_over.set_result, None)

    async def wait() -> None:
        await is_over

    figures = await measured(wait() for _ in range(count))
    del figures["longest_ms"]  # All of them are woken at once.
    print(json.dumps(figures))


def consumers(name_server: str, topic: str, count: int) -> None:
    opened = []
    for number in range(count):
        consumer = PushConsumer(name_server, f"group-{number}", lambda _message: None)
        consumer.subscribe(topic)
        consumer.open()
        opened.append(consumer)
    figures = {"threads": threading.active_count(), "memory_mb": peak_memory_mb()}
    for consumer in opened:
        consumer.close()
    print(json.dumps(figures | {"count": count}))


def peak_memory_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


MODES: Final = {"burst": burst, "floor": floor}


def main() -> None:
    mode, name_server, topic, count = sys.argv[1:]
    if mode == "consumers":
        consumers(name_server, topic, int(count))
    else:
        asyncio.run(MODES[mode](name_server, topic, int(count)))


if __name__ == "__main__":
    main()
