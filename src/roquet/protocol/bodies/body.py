"""How a JSON body is declared, read and written.

    class ConsumeOffsets(Body, kw_only=True):
        broker_offset: Int64 = always(0)  # written even when it holds its default
        pull_offset: Int64 = 0            # left out then: 4.9 does not know it
        remark: str | None = None         # left out then, as Java does with nulls

Wire names are the attribute names in camel case, unless a `name` is given. Members are
declared in the alphabetical order of their wire names, because that is the order in
which Java writes them. Defaults are Java's, so an absent member means the same on both
sides. Java's sets travel as arrays and are lists here.
"""

import copy
from collections.abc import Hashable
from functools import cache, partial
from typing import Any, Final, TypeVar, cast

import msgspec

from roquet.protocol.bodies.queue_table import queue_table_text, read_queue_table
from roquet.protocol.errors import BadBody
from roquet.protocol.lenient_json import JSON_ERRORS, has_reference, strict_json

T = TypeVar("T")


class Body(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of every JSON body and of the objects inside it.

    Each class adds `kw_only=True`, which is not inherited: no order of members is worth learning.
    """


def always(default: T, name: str | None = None) -> T:
    """The default of a member that is written even when it holds it.

    msgspec leaves out members that hold their default, but cannot tell when a function made it.
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


_encode: Final = msgspec.json.Encoder(enc_hook=queue_table_text).encode


@cache
def _decoder(body_type: Hashable) -> msgspec.json.Decoder[Any]:
    # Not strict: C++ clients write numbers as texts.
    return msgspec.json.Decoder(cast("Any", body_type), strict=False, dec_hook=read_queue_table)


def _name(body_type: Any) -> str:
    return getattr(body_type, "__name__", str(body_type))
