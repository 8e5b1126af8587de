"""Rows of an outbox: a message as columns and back, and what a relay needs of a database.

A row is deleted when its message is stored. One that no broker will ever take, because it is too
large or its topic is missing, gets an `error` and stays until an operator decides.
"""

import json
import os
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from roquet.client.arguments import bad, check_text
from roquet.client.names import check_topic
from roquet.client.producer.outgoing import taken
from roquet.protocol.messages.message import Message

# Of topics, order keys, message ids and owners: databases want to know.
NAME_SIZE_MAX: Final = 255
ERROR_SIZE_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """`number` grows in the order in which rows were added. Rows with the same `order_key` are sent
    in that order, to one queue; others as they come."""

    number: int
    message: Message
    order_key: str | None


class OutboxTable(Protocol):
    """What a relay asks of a database. Each call is a transaction of its own."""

    def lease(self, owner: str, duration_s: float) -> bool:
        """Whether `owner` is the one relay that sends, for that long from now."""

    def release(self, owner: str) -> None:
        """Another relay may start at once."""

    def pending(self, count_max: int) -> Sequence[OutboxRow]:
        """The first rows that can be sent: not those with an error, nor rows after one of those
        with the same order key."""

    def delete(self, numbers: Collection[int]) -> None:
        """Their messages are stored."""

    def fail(self, number: int, error: str) -> None:
        """No broker will take it."""


def columns_of(message: Message, order_key: str | None) -> dict[str, object]:
    """The values of a new row. Raises BadArgument."""
    message = taken(message)
    if not isinstance(message, Message):
        raise bad("message", "a Message", message)
    check_topic(message.topic)
    if order_key is not None:
        check_text("order_key", order_key)
        if not 0 < len(order_key) <= NAME_SIZE_MAX:
            raise bad("order_key", f"a text of 1 to {NAME_SIZE_MAX} characters", order_key)
    return {
        # Made with the row, so that what is sent twice has one id.
        "message_id": message.message_id or uuid.uuid4().hex.upper(),
        "topic": message.topic,
        "body": bytes(message.body),
        "tags": message.tags,
        "message_keys": json.dumps(list(message.keys)),
        "properties": json.dumps(dict(message.properties)),
        "flag": message.flag,
        "order_key": order_key,
    }


def message_of(columns: "RowColumns") -> Message:
    """The message of a row."""
    return Message(
        columns.topic,
        bytes(columns.body),
        columns.tags,
        tuple(json.loads(columns.message_keys)),
        json.loads(columns.properties),
        columns.flag,
        columns.message_id,
    )


class RowColumns(Protocol):
    """A row as SQLAlchemy and Django give it."""

    topic: str
    body: bytes
    tags: str | None
    message_keys: str
    properties: str
    flag: int
    message_id: str


def new_owner() -> str:
    """Names a relay in the table: its host, its process, and one of several within it."""
    return f"{os.uname().nodename}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
