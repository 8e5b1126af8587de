"""RocketMQ by `rocketmq` 0.4.4, which wraps a library in C++; it sends one message at a time."""

import threading
import time
from collections import deque
from collections.abc import Sequence

from bench.clients.peers.metering import Meter, body
from rocketmq.client import Message, Producer, PushConsumer

WAIT_S = 0.0002
RECEIVE_S_MAX = 1.0


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic
        self._came: deque[bytes] = deque()

    def open_sender(self) -> None:
        self._producer = Producer("bench")
        self._producer.set_namesrv_addr(self._address)
        self._producer.start()

    def send(self, message: bytes) -> None:
        made = Message(self._topic)
        made.set_body(message)
        self._producer.send_sync(made)

    def keep_sending(self, in_flight: int, meter: Meter) -> None:
        counts = [0] * in_flight

        def keep_on(index: int) -> None:
            while not meter.is_over:
                self.send(body())
                counts[index] += 1

        threads = [threading.Thread(target=keep_on, args=(index,)) for index in range(in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        meter.count = sum(counts)

    def send_all(self, messages: Sequence[bytes]) -> None:  # noqa: ARG002
        raise SystemExit("it has no acknowledged sends of many")

    def open_receiver(self, group: str) -> None:
        consumer = PushConsumer(group)
        consumer.set_namesrv_addr(self._address)
        consumer.subscribe(self._topic, lambda message: self._came.append(message.body))
        consumer.start()
        self._consumer = consumer

    def receive(self) -> Sequence[bytes]:
        end_s = time.perf_counter() + RECEIVE_S_MAX
        while not self._came and time.perf_counter() < end_s:
            time.sleep(WAIT_S)
        return [self._came.popleft() for _ in range(len(self._came))]

    def close(self) -> None:
        """Its own end may wait for ever; nothing is lost with it."""
