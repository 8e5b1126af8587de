"""Messages that wait for their time, put into a store without a broker, and who takes them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from roquet.broker.delays.due import SliceBudget
from roquet.broker.delays.timers import out_ms
from roquet.clock import Clock
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from roquet.store.appends import Appended
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft


def put_delayed(
    store: MessageStore, body: bytes = b"late", level: int = 1, **properties: str
) -> Appended:
    """By its level; it belongs to queue 0 of "TopicA"."""
    waiting = {"DELAY": str(level), "REAL_TOPIC": "TopicA", "REAL_QID": "0"} | properties
    return store.append(draft(body, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=waiting))


def put_timer(
    store: MessageStore, delivery_ms: int, body: bytes = b"timer", **properties: str
) -> Appended:
    """By its time; it belongs to queue 0 of "TopicA"."""
    waiting = {"REAL_TOPIC": "TopicA", "REAL_QID": "0", "TIMER_OUT_MS": str(out_ms(delivery_ms))}
    return store.append(draft(body, topic=TIMER_TOPIC, properties=waiting | properties))


class NotNow(Exception):
    """What a receiver raises that takes nothing."""


class Receiver:
    """Takes what is delivered, one batch after the other; or, while it is closed, nothing."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.is_closed = False

    def __call__(self, records: Sequence[bytes]) -> None:
        if self.is_closed:
            raise NotNow
        self.batches.append([read_record(record).body for record in records])

    @property
    def bodies(self) -> list[bytes]:
        return [body for batch in self.batches for body in batch]


class DueSource(Protocol):
    def due(self, budget: SliceBudget) -> Iterator[list[bytes]]: ...


def deliver_once(
    source: DueSource, receiver: Callable[[Sequence[bytes]], None], clock: Clock, **limits: Any
) -> None:
    """One slice."""
    for records in source.due(SliceBudget(clock, **limits)):
        receiver(records)
