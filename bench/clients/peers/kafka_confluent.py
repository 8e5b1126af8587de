"""Kafka by confluent-kafka, which wraps a library in C with a thread of its own.

It sends what it is given after `linger.ms`, so those sent one by one have it at zero.
"""

from collections.abc import Sequence

from bench.clients.peers.metering import Meter, body
from confluent_kafka import Consumer, Producer

POLL_S = 1.0
SHORT_POLL_S = 0.01
READ_COUNT = 10_000
QUEUED_MAX = 1_000_000


class Client:
    def __init__(self, address: str, topic: str) -> None:
        self._address, self._topic = address, topic
        self._consumer: Consumer | None = None
        self._unacknowledged = 0

    def open_sender(self) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "acks": "all",
            "queue.buffering.max.messages": QUEUED_MAX,
        }
        self._at_once = Producer({**settings, "linger.ms": 0})
        self._gathering = Producer(settings)

    def send(self, message: bytes) -> None:
        self._produce(self._at_once, message)
        while self._unacknowledged:
            self._at_once.poll(SHORT_POLL_S)

    def keep_sending(self, in_flight: int, meter: Meter) -> None:
        while not meter.is_over:
            while self._unacknowledged < in_flight:
                self._produce(self._at_once, body())
                meter.count += 1
            self._at_once.poll(SHORT_POLL_S)
        self._at_once.flush()

    def send_all(self, messages: Sequence[bytes]) -> None:
        for each in messages:
            self._produce(self._gathering, each)
        self._gathering.flush()

    def open_receiver(self, group: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self._consumer.subscribe([self._topic])

    def receive(self) -> Sequence[bytes]:
        """`consume` waits until it has as many as asked for; `poll` until it has one."""
        assert self._consumer is not None
        first = self._consumer.poll(POLL_S)
        if first is None or first.error():
            return []
        found = [first, *self._consumer.consume(READ_COUNT, 0)]
        return [message.value() for message in found if not message.error()]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _produce(self, producer: Producer, message: bytes) -> None:
        self._unacknowledged += 1
        producer.produce(self._topic, message, on_delivery=self._on_delivery)

    def _on_delivery(self, error: object, _message: object) -> None:
        assert error is None, error
        self._unacknowledged -= 1
