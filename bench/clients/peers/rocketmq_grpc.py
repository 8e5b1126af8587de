"""RocketMQ by `rocketmq-python-client`, the SDK of 5.x, by gRPC."""

import threading
from collections.abc import Sequence
from typing import Any

from bench.clients.peers.metering import Meter, body
from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

RECEIVED_MAX = 32
INVISIBLE_S = 60
AWAIT_S = 5


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._config = ClientConfiguration(address, Credentials())
        self._topic = topic
        self._opened: list[Any] = []

    def open_sender(self) -> None:
        self._producer = Producer(self._config, (self._topic,))
        self._producer.startup()
        self._opened.append(self._producer)

    def send(self, message: bytes) -> None:
        made = Message()
        made.topic, made.body = self._topic, message
        self._producer.send(made)

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
        self._consumer = SimpleConsumer(
            self._config, group, {self._topic: FilterExpression()}, AWAIT_S
        )
        self._consumer.startup()
        self._opened.append(self._consumer)

    def receive(self) -> Sequence[bytes]:
        found = self._consumer.receive(RECEIVED_MAX, INVISIBLE_S) or ()
        for message in found:
            self._consumer.ack(message)
        return [message.body for message in found]

    def close(self) -> None:
        for each in self._opened:
            each.shutdown()
