"""Runs stories with the official Python SDK of 5.x: "STORY TOPIC GROUP" per line on stdin, a JSON
text per line on stdout. Ends with stdin.

    python sdk.py ENDPOINTS
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

PATIENCE_S = 60.0
INVISIBLE_S = 10
POLL_S = 5


class Seen(MessageListener):  # type: ignore[misc]
    """Keeps what comes; `answer` decides what becomes of it."""

    def __init__(
        self,
        answer: Callable[[Any], Any] = lambda _: ConsumeResult.SUCCESS,
        changed: threading.Condition | None = None,
    ) -> None:
        self.messages: list[Any] = []
        self._answer = answer
        self._changed = changed or threading.Condition()

    def consume(self, message: Any) -> Any:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        return self._answer(message)

    def wait(self, count: int) -> list[Any]:
        with self._changed:
            self._changed.wait_for(lambda: len(self.messages) >= count, PATIENCE_S)
            return list(self.messages)


class Commits(TransactionChecker):  # type: ignore[misc]
    def check(self, message: Any) -> Any:  # noqa: ARG002
        return TransactionResolution.COMMIT


def message(topic: str, body: str, **members: Any) -> Any:
    made = Message()
    made.topic = topic
    made.body = body.encode()
    for name, value in members.items():
        setattr(made, name, value)
    return made


def body_of(each: Any) -> str:
    text: str = each.body.decode()
    return text


def row_of(each: Any) -> list[str]:
    return [body_of(each), each.tag, ",".join(each.keys), each.properties["city"]]


def following(consumer: Any) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        for each in consumer.receive(1, INVISIBLE_S) or ():
            return each
    raise TimeoutError("no message has come")


def received(consumer: Any, count: int) -> list[Any]:
    """Acknowledged, each."""
    found: list[Any] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline_s:
        for each in consumer.receive(16, INVISIBLE_S) or ():
            found.append(each)
            consumer.ack(each)
    return found


class Stories:
    def __init__(self, endpoints: str) -> None:
        self._config = ClientConfiguration(endpoints, Credentials())

    @contextmanager
    def producer(self, topic: str, checker: Any = None) -> Iterator[Any]:
        with running(Producer(self._config, (topic,), checker)) as producer:
            yield producer

    @contextmanager
    def simple_consumer(self, topic: str, group: str, *expression: Any) -> Iterator[Any]:
        subscriptions = {topic: FilterExpression(*expression)}
        with running(SimpleConsumer(self._config, group, subscriptions, POLL_S)) as consumer:
            yield consumer

    @contextmanager
    def push_consumer(self, topic: str, group: str, seen: Seen) -> Iterator[Any]:
        subscriptions = {topic: FilterExpression()}
        with running(PushConsumer(self._config, group, seen, subscriptions)) as consumer:
            yield consumer

    def simple(self, topic: str, group: str) -> object:
        """Messages with all that they have, and only those of a tag."""
        with self.producer(topic) as producer, self.simple_consumer(topic, group, "odd") as simple:
            for index in range(10):
                tag = "odd" if index % 2 else "even"
                each = message(topic, f"body {index}", tag=tag, keys=f"key-{index}")
                each.add_property("city", "Rome")
                producer.send(each)
            return sorted(map(row_of, received(simple, 5)))

    def sql(self, topic: str, group: str) -> object:
        expression = ("price < 3", FilterType.SQL)
        with (
            self.producer(topic) as producer,
            self.simple_consumer(topic, group, *expression) as simple,
        ):
            for index in range(10):
                each = message(topic, f"body {index}")
                each.add_property("price", str(index))
                producer.send(each)
            return sorted([body_of(each)] for each in received(simple, 3))

    def again(self, topic: str, group: str) -> object:
        """What is not acknowledged comes again, and sooner if the consumer wants that."""
        with self.producer(topic) as producer, self.simple_consumer(topic, group) as simple:
            producer.send(message(topic, "again"))
            first = following(simple)
            since_s = time.monotonic()
            simple.change_invisible_duration(first, 1)
            second = following(simple)
            is_in_time = time.monotonic() - since_s < 5
            simple.ack(second)
        return [first.delivery_attempt, second.delivery_attempt, is_in_time]

    def push(self, topic: str, group: str) -> object:
        """A listener that fails once gets the message again."""
        failed = set()

        def answer(given: Any) -> Any:
            if given.body == b"push 3" and given.body not in failed:
                failed.add(given.body)
                return ConsumeResult.FAILURE
            return ConsumeResult.SUCCESS

        seen = Seen(answer)
        with self.producer(topic) as producer, self.push_consumer(topic, group, seen):
            for index in range(5):
                producer.send(message(topic, f"push {index}"))
            return sorted([body_of(each), each.delivery_attempt] for each in seen.wait(6))

    def fifo(self, topic: str, group: str) -> object:
        """Each message group comes in order."""
        seen = Seen()
        with self.producer(topic) as producer:
            for index in range(20):
                name = f"orders-{index % 2}"
                producer.send(message(topic, str(index // 2), message_group=name))
            with self.push_consumer(topic, group, seen):
                seen.wait(20)
        found: dict[str, list[str]] = {}
        for each in seen.messages:
            found.setdefault(each.message_group, []).append(body_of(each))
        return found

    def delay(self, topic: str, group: str) -> object:
        """Not before its time."""
        with self.producer(topic) as producer, self.simple_consumer(topic, group) as simple:
            due_s = int(time.time()) + 2
            producer.send(message(topic, "later", delivery_timestamp=due_s))
            (found,) = received(simple, 1)
            late_s = time.time() - due_s
        return [body_of(found), -0.1 <= late_s < 5]

    def recall(self, topic: str, group: str) -> object:
        """One of two delayed messages is recalled."""
        with self.producer(topic) as producer, self.simple_consumer(topic, group) as simple:
            due_s = int(time.time()) + 2
            first = producer.send(message(topic, "first", delivery_timestamp=due_s))
            producer.send(message(topic, "second", delivery_timestamp=due_s + 1))
            message_id = producer.recall_message(topic, first.recall_handle)
            return [message_id == first.message_id, [*map(body_of, received(simple, 1))]]

    def transactions(self, topic: str, group: str) -> object:
        """Committed, rolled back; and one that the broker has to ask about."""
        with self.producer(topic, Commits()) as producer:
            for end in ("commit", "rollback", "none"):
                transaction = producer.begin_transaction()
                producer.send(message(topic, end), transaction)
                if end != "none":
                    getattr(transaction, end)()
            with self.simple_consumer(topic, group) as simple:
                found: set[str] = set()
                # A busy broker of Apache asks about one that has just ended, and delivers it twice.
                while len(found) < 2:
                    found.update(map(body_of, received(simple, 1)))
        return sorted(found)

    def dead(self, topic: str, group: str) -> object:
        """Fails as often as it may; the deliveries until the dead letter has come."""
        seen = Seen(lambda _: ConsumeResult.FAILURE)
        members = {"message_group": "orders"} if group.startswith("ordered") else {}
        bad = message(topic, "bad", tag="t", keys="k", **members)
        bad.add_property("city", "Rome")
        with self.producer(topic) as producer, self.push_consumer(topic, group, seen):
            producer.send(bad)
            with self.simple_consumer(f"%DLQ%{group}", f"of-{group}") as letters:
                rows = [row_of(each) for each in received(letters, 1)]
        attempts = [each.delivery_attempt for each in seen.messages]
        # The SDK retries ordered messages by itself, and does not count.
        return [[*range(1, len(attempts) + 1)] if members else attempts, rows]

    def share(self, topic: str, group: str) -> object:
        """Three consumers of one queue: each message comes to one of them, and none is idle."""
        changed = threading.Condition()
        consumers = [Seen(changed=changed) for _ in range(3)]
        with (
            self.producer(topic) as producer,
            self.push_consumer(topic, group, consumers[0]),
            self.push_consumer(topic, group, consumers[1]),
            self.push_consumer(topic, group, consumers[2]),
        ):
            bodies = [f"share {index:03}" for index in range(300)]
            for each in bodies:
                producer.send(message(topic, each))
            with changed:
                changed.wait_for(
                    lambda: sum(len(seen.messages) for seen in consumers) >= len(bodies), PATIENCE_S
                )
        found = sorted(body_of(each) for seen in consumers for each in seen.messages)
        return [found == bodies, all(seen.messages for seen in consumers)]

    def spread(self, topic: str, group: str) -> object:
        """Over all brokers, and received from all of them, by both kinds of consumers."""
        seen = Seen()
        with self.producer(topic) as producer:
            for index in range(16):
                producer.send(message(topic, f"spread {index:02}"))
            with self.simple_consumer(topic, f"{group}-simple") as simple:
                pulled = received(simple, 16)
            with self.push_consumer(topic, f"{group}-push", seen):
                pushed = seen.wait(16)
        return [sorted(map(body_of, found)) for found in (pulled, pushed)]

    def send(self, topic: str, _: str) -> object:
        """For a consumer of another protocol."""
        with self.producer(topic) as producer:
            return [producer.send(message(topic, "by gRPC", tag="new", keys="k1")).message_id]


@contextmanager
def running(client: Any) -> Iterator[Any]:
    client.startup()
    try:
        yield client
    finally:
        client.shutdown()


def main() -> None:
    stories = Stories(sys.argv[1])
    for line in sys.stdin:
        name, topic, group = line.split()
        print(json.dumps(getattr(stories, name)(topic, group)), flush=True)  # noqa: T201
    # Threads of the SDK would keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
