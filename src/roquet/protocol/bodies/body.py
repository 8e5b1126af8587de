"""How a JSON body is declared, read and written, and the values that many bodies share.

    class ConsumeOffsets(Body, kw_only=True):
        broker_offset: Int64 = always(0)  # written even when it holds its default
        pull_offset: Int64 = 0            # left out then: 4.9 does not know it
        remark: str | None = None         # left out then, as Java does with nulls

Wire names are the attribute names in camel case, unless a `name` is given. Members are
declared in the alphabetical order of their wire names, because that is the order in
which Java writes them. Defaults are Java's, so an absent member means the same on both
sides. Java's sets travel as arrays and are lists here.

Tables keyed by queue are the one thing in bodies that JSON cannot hold:

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:17, ...}}

Java writes the key as a bare object, and old Java clients read no other form. When a body is
read, `lenient_json` has turned the key into a text that holds the object.
"""

import copy
from collections import UserDict
from collections.abc import Hashable
from functools import cache, partial
from typing import Any, Final, TypeVar, cast, get_args

import msgspec

from roquet.protocol.errors import BadBody
from roquet.protocol.fields import Int32, Int64
from roquet.protocol.lenient_json import JSON_ERRORS, has_reference, strict_json

T = TypeVar("T")


class Body(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of every JSON body and of the objects inside it.

    Each class adds `kw_only=True`, which is not inherited: no order of members is worth learning.
    """


def always(default: T, name: str | None = None) -> T:
    """The default of a member that is written even when it holds it.

    msgspec leaves out members that hold their default, but not one that a function made.
    """
    return msgspec.field(default_factory=partial(copy.deepcopy, default), name=name)


def read_body(body_type: type[T], data: bytes) -> T:
    """Read JSON as any peer or state file has it: strict, or in Java's dialect.

    Raises BadBody for everything that is not a `body_type`.
    """
    decode = _decoder(cast("Hashable", body_type)).decode
    try:
        if not has_reference(data):
            return cast("T", decode(data))
    except JSON_ERRORS:
        pass  # Rare, so it may be slow: what Java reads and msgspec does not, or a real mistake.
    try:
        return cast("T", decode(strict_json(data)))
    except JSON_ERRORS as error:
        raise BadBody(_name(body_type), str(error)) from None
    except BadBody as error:
        raise BadBody(_name(body_type), error.reason) from None


def write_body(body: object) -> bytes:
    """JSON as every Java peer reads it; strict but for tables keyed by queue."""
    return _encode(body)


class DataVersion(Body, kw_only=True):
    """Two versions are the same when all members are equal; there is no order among them."""

    counter: Int64 = always(0)
    state_version: Int64 = 0  # epoch of the master that made the change, in 5.x
    timestamp: Int64 = always(0)


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


_encode: Final = msgspec.json.Encoder(enc_hook=queue_table_text).encode


@cache
def _decoder(body_type: Hashable) -> msgspec.json.Decoder[Any]:
    # Not strict: C++ clients write numbers as texts.
    return msgspec.json.Decoder(cast("Any", body_type), strict=False, dec_hook=read_queue_table)


def _name(body_type: Any) -> str:
    return getattr(body_type, "__name__", str(body_type))
