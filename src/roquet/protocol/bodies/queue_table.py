"""Tables keyed by queue, the one thing in bodies that JSON cannot hold.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:17, ...}}

Java writes the key as a bare object, and old Java clients read no other form. On the
way in `lenient_json` has turned the key into a text that holds the object.
"""

from collections import UserDict
from typing import Any, Final, TypeVar, get_args

import msgspec

from roquet.protocol.fields import Int32

V = TypeVar("V")


class MessageQueue(msgspec.Struct, rename="camel", kw_only=True, frozen=True, gc=False):
    """One queue of a topic on one broker."""

    broker_name: str
    queue_id: Int32
    topic: str

    def __lt__(self, other: "MessageQueue") -> bool:
        """Java's order; all members of a group must agree on it to share out their queues."""
        return (self.topic, self.broker_name, self.queue_id) < (
            other.topic,
            other.broker_name,
            other.queue_id,
        )


class QueueTable(UserDict[MessageQueue, V]):
    """A dict keyed by queue. A class of its own, so that msgspec asks us how to read and write it.

    `QueueTable[V]` is the type of a member, `QueueTable({queue: value})` its value.
    """


def read_queue_table(table_type: Any, table: Any) -> "QueueTable[Any]":
    """msgspec calls this for every member it does not know: there are only these tables."""
    if not isinstance(table, dict):
        raise TypeError("Expected `object`")
    (value_type,) = get_args(table_type)
    return QueueTable(
        {
            _read_queue(key): msgspec.convert(value, value_type, strict=False)
            for key, value in table.items()
        }
    )


def queue_table_text(table: object) -> msgspec.Raw:
    """msgspec calls this for every value it cannot write: there are only these tables."""
    if not isinstance(table, QueueTable):
        raise TypeError(f"{type(table).__name__} has no place in a body")
    encode = msgspec.json.encode
    entries = [b"%b:%b" % (encode(queue), encode(value)) for queue, value in table.items()]
    return msgspec.Raw(b"{%b}" % b",".join(entries))


_read_queue: Final = msgspec.json.Decoder(MessageQueue, strict=False).decode
