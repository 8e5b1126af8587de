"""The published Python client `rocketmq` 0.4.4 under load, as `ours.py` is.

    rocketmq_0_4_4.py MODE NAME_SERVER TOPIC AMOUNT GROUP

Runs with that package alone on its path: it must not import anything of ours.
"""

import json
import statistics
import sys
import threading
import time

# Not installed where types are checked.
from rocketmq.client import (
    Message,
    Producer,
    PushConsumer,
)

BODY = b"x" * 128  # A zero byte would be its end.
WARM_UP_COUNT = 500
# The library starts to pull a while after it was started; and a count that stands still is the end.
PATIENCE_S = 60.0
QUIET_S = 2.0


def message(topic: str) -> Message:
    made = Message(topic)
    made.set_body(BODY)
    return made


def send(name_server: str, topic: str, seconds: float, group: str, thread_count: int) -> None:
    producer = Producer(group)
    producer.set_namesrv_addr(name_server)
    producer.start()
    for _ in range(WARM_UP_COUNT):
        producer.send_sync(message(topic))
    latencies_s: list[list[float]] = [[] for _ in range(thread_count)]
    cpu_s, start_s = time.process_time(), time.perf_counter()
    end_s = start_s + seconds

    def keep_sending(index: int) -> None:
        before_s = time.perf_counter()
        while before_s < end_s:
            producer.send_sync(message(topic))
            after_s = time.perf_counter()
            latencies_s[index].append(after_s - before_s)
            before_s = after_s

    threads = [threading.Thread(target=keep_sending, args=(i,)) for i in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = {
        "messages": sum(map(len, latencies_s)),
        "seconds": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - cpu_s,
    }
    if thread_count == 1:
        figures["p50_us"] = statistics.median(latencies_s[0]) * 1e6
    print(json.dumps(figures))
    producer.shutdown()


def push(name_server: str, topic: str, count: int, group: str) -> None:
    """All messages of a topic; the time runs from the first that came."""
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    lock = threading.Lock()
    seen = 0
    first = (0.0, 0.0)
    last = (0.0, 0.0)

    def on_message(_message: object) -> None:
        nonlocal seen, first, last
        with lock:
            if not seen:
                first = (time.perf_counter(), time.process_time())
            seen += 1
            last = (time.perf_counter(), time.process_time())

    consumer.subscribe(topic, on_message)
    consumer.start()
    begin_s = time.perf_counter()
    while seen < count and time.perf_counter() < max(begin_s + PATIENCE_S, last[0] + QUIET_S):
        time.sleep(0.05)
    figures = {"messages": seen, "seconds": last[0] - first[0], "cpu_s": last[1] - first[1]}
    print(json.dumps(figures))
    consumer.shutdown()


def main() -> None:
    mode, name_server, topic, amount, group = sys.argv[1:]
    if mode == "push":
        push(name_server, topic, int(float(amount)), group)
    else:
        send(name_server, topic, float(amount), group, {"send-1": 1, "send-64": 64}[mode])


if __name__ == "__main__":
    main()
