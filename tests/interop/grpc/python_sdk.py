"""A program with the official Python SDK of 5.x; run by `test_python_sdk`, it prints a JSON text.

python python_sdk.py ENDPOINT STORY
"""

import json
import sys
import threading
import time
from collections.abc import Callable
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

PATIENCE_S = 60.0
INVISIBLE_S = 10


class Seen(MessageListener):  # type: ignore[misc]
    """Notes what comes; `answer` decides what becomes of it."""

    def __init__(self, answer: Callable[[Any], Any] = lambda _: ConsumeResult.SUCCESS) -> None:
        self.messages: list[Any] = []
        self._answer = answer
        self._changed = threading.Condition()

    def consume(self, message: Any) -> Any:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        return self._answer(message)

    def wait(self, count: int, prefix: bytes = b"") -> list[Any]:
        """Those with such a body: a new group gets what others have sent, too."""

        def found() -> list[Any]:
            return [each for each in self.messages if each.body.startswith(prefix)]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count, PATIENCE_S)
            return found()


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


def received(consumer: Any, count: int) -> list[Any]:
    """Acknowledged, each."""
    found: list[Any] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline_s:
        for each in consumer.receive(32, INVISIBLE_S) or ():
            found.append(each)
            consumer.ack(each)
    return found


class Stories:
    def __init__(self, endpoint: str) -> None:
        self._config = ClientConfiguration(endpoint, Credentials())

    def producer(self, topic: str, checker: Any = None) -> Any:
        made = Producer(self._config, (topic,), checker)
        made.startup()
        return made

    def simple(self, group: str, topic: str, expression: str = "*") -> Any:
        made = SimpleConsumer(self._config, group, {topic: FilterExpression(expression)}, 5)
        made.startup()
        return made

    def push(self, group: str, topic: str, listener: Any) -> Any:
        made = PushConsumer(self._config, group, listener, {topic: FilterExpression()})
        made.startup()
        return made

    def simple_consumer(self) -> object:
        """Messages with all that they have, and only those of a tag."""
        producer = self.producer("normal")
        for index in range(10):
            tag = "even" if index % 2 == 0 else "odd"
            each = message("normal", f"body {index}", tag=tag, keys=f"key-{index}")
            each.add_property("city", "Rome")
            producer.send(each)
        consumer = self.simple("simple", "normal", "odd")
        found = received(consumer, 5)
        consumer.shutdown()
        producer.shutdown()
        return sorted(
            [each.body.decode(), each.tag, *each.keys, each.properties["city"]] for each in found
        )

    def push_consumer(self) -> object:
        """A listener that fails once gets the message again."""
        producer = self.producer("normal")
        failed = set()

        def answer(given: Any) -> Any:
            if given.body not in failed and given.body == b"push 3":
                failed.add(given.body)
                return ConsumeResult.FAILURE
            return ConsumeResult.SUCCESS

        listener = Seen(answer)
        consumer = self.push("push", "normal", listener)
        for index in range(5):
            producer.send(message("normal", f"push {index}"))
        found = listener.wait(6, b"push")
        consumer.shutdown()
        producer.shutdown()
        return sorted([each.body.decode(), each.delivery_attempt] for each in found)

    def fifo(self) -> object:
        """One message group comes in order."""
        producer = self.producer("fifo")
        for index in range(10):
            producer.send(message("fifo", f"{index}", message_group="orders-1"))
        listener = Seen()
        consumer = self.push("ordered", "fifo", listener)
        listener.wait(10)
        consumer.shutdown()
        producer.shutdown()
        return [each.body.decode() for each in listener.messages]

    def delay(self) -> object:
        """Not before its time."""
        producer = self.producer("delay")
        due_s = int(time.time()) + 3
        producer.send(message("delay", "later", delivery_timestamp=due_s))
        consumer = self.simple("delayed", "delay")
        found = received(consumer, 1)
        late_s = time.time() - due_s
        consumer.shutdown()
        producer.shutdown()
        return [[each.body.decode() for each in found], -0.1 <= late_s < 5]

    def transactions(self) -> object:
        """Committed, rolled back; and one that the broker has to ask about."""
        producer = self.producer("transaction", Commits())
        for end in ("commit", "rollback", None):
            transaction = producer.begin_transaction()
            producer.send(message("transaction", str(end)), transaction)
            if end is not None:
                getattr(transaction, end)()
        consumer = self.simple("transacted", "transaction")
        found: list[str] = []
        # A busy broker of Apache asks about one that has just ended, and delivers it twice.
        while len(set(found)) < 2:
            found += [each.body.decode() for each in received(consumer, 1)]
        consumer.shutdown()
        producer.shutdown()
        return sorted(found)

    def dead_letters(self) -> object:
        """As often as the group wants, and no more."""
        producer = self.producer("normal")
        listener = Seen(lambda _: ConsumeResult.FAILURE)
        consumer = self.push("failing", "normal", listener)
        producer.send(message("normal", "bad"))
        bad = listener.wait(2, b"bad")
        dead = self.simple("undertaker", "%DLQ%failing")
        letters: list[str] = []
        # Those of others fail, too.
        while "bad" not in letters:
            letters += [each.body.decode() for each in received(dead, 1)]
        for each in (consumer, dead, producer):
            each.shutdown()
        return [each.delivery_attempt for each in bad]

    def spread(self) -> object:
        """Over all brokers, and received from all of them, by both kinds of consumers."""
        producer = self.producer("normal")
        for index in range(16):
            producer.send(message("normal", f"spread {index:02}"))
        simple = self.simple("spread-simple", "normal")
        pulled = received(simple, 16)
        listener = Seen()
        push = self.push("spread-push", "normal", listener)
        pushed = listener.wait(16)
        for each in (simple, push, producer):
            each.shutdown()
        return [sorted(each.body.decode() for each in found) for found in (pulled, pushed)]

    def sent(self) -> object:
        """For a consumer of another protocol."""
        producer = self.producer("normal")
        producer.send(message("normal", "by gRPC", tag="new", keys="k1"))
        producer.shutdown()
        return []


if __name__ == "__main__":
    result = getattr(Stories(sys.argv[1]), sys.argv[2])()
    print(json.dumps(result), flush=True)  # noqa: T201
