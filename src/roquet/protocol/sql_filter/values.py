"""Values of a filter, and how Java makes two of them comparable.

Properties are texts. Against a literal the text is read as the literal's type;
a text that cannot be read as that fails the whole expression, not one comparison.
"""

import re
from collections.abc import Callable
from enum import Enum
from math import copysign, inf, isnan
from typing import Any, Final, NamedTuple

from roquet.protocol.errors import ProtocolError


class Unconvertible(ProtocolError):
    """Two values cannot be compared; `SqlFilter.matches` turns this into "no match"."""


class ValueKind(Enum):
    """What a part of an expression yields, unless it yields null. It is known before evaluation."""

    NULL = "null"
    BOOLEAN = "boolean"
    TEXT = "text"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"


NUMBERS: Final = frozenset({ValueKind.INT, ValueKind.LONG, ValueKind.DOUBLE})

Conversion = Callable[[Any], Any]


class Meeting(NamedTuple):
    """What to do to a left and a right value before they are compared."""

    convert_left: Conversion
    convert_right: Conversion


def meeting_of(left: ValueKind, right: ValueKind) -> Meeting:
    """How values of two kinds are compared for equality, and constants for order."""
    if left is ValueKind.BOOLEAN and right is ValueKind.TEXT:
        # Java stumbles over its own cast here, in this order of operands only.
        return Meeting(_as_is, _refuse)
    kinds = {left, right}
    if ValueKind.TEXT in kinds:
        return _meet_as(right if left is ValueKind.TEXT else left, left, right)
    if kinds <= NUMBERS:
        return _meet_as(
            ValueKind.DOUBLE if ValueKind.DOUBLE in kinds else ValueKind.LONG, left, right
        )
    return _ALIKE if left is right else _UNLIKE


def ordering_of(left: ValueKind, right: ValueKind) -> Meeting:
    """Like `meeting_of`, for < and its like: two texts are compared as numbers."""
    if left is right is ValueKind.TEXT:
        return _meet_as(ValueKind.DOUBLE, left, right)
    return meeting_of(left, right)


def _meet_as(common: ValueKind, left: ValueKind, right: ValueKind) -> Meeting:
    return Meeting(
        _CONVERSIONS.get((left, common), _as_is), _CONVERSIONS.get((right, common), _as_is)
    )


def int32_of(text: str) -> int:
    return _integer_of(text, 2**31)


def int64_of(text: str) -> int:
    return _integer_of(text, 2**63)


# Unlike Python, Java takes no blanks and no underscores; like Python, digits of any script.
# The length keeps clear of the one at which Python itself refuses to convert.
_is_integer = re.compile(r"[+-]?\d{1,4000}").fullmatch


def _integer_of(text: str, bound: int) -> int:
    # Few properties have a sign, so few need the pattern.
    if (len(text) < 20 and text.isdecimal()) or _is_integer(text):
        value = int(text)
        if -bound <= value < bound:
            return value
    raise Unconvertible(f"{text[:40]!r} is not an integer below {bound}")


# Group 1 is what Python reads too. Every repetition ends at a character that it cannot
# contain, so a hostile text costs linear time.
_decimal = re.compile(
    r"([+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?"
).fullmatch
_hexadecimal = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
).fullmatch
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))

DoubleOrder = tuple[float, float]


def double_of(text: str) -> DoubleOrder:
    # Again, a simple number needs no pattern.
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return order_of(float(text))
    text = text.strip(_JAVA_BLANKS)
    if match := _decimal(text):
        return order_of(float(match[1]))
    if match := _hexadecimal(text):
        return order_of(_hexadecimal_of(match[1]))
    raise Unconvertible(f"{text[:40]!r} is not a number")


def _hexadecimal_of(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -inf if text[0] == "-" else inf


def order_of(value: float) -> DoubleOrder:
    """Compares as Java compares doubles: -0.0 is below 0.0, NaN above all and equal to itself."""
    if isnan(value):
        return inf, 2.0
    return value, copysign(1.0, value)


def _order_of_integer(value: int) -> DoubleOrder:
    return order_of(float(value))


def _truth_of(text: str) -> bool:
    return text.lower() == "true"


def _as_is(value: object) -> object:
    return value


def _refuse(text: str) -> object:
    raise Unconvertible(f"a boolean is compared with {text[:40]!r}")


_ALIKE: Final = Meeting(_as_is, _as_is)
# Two results that are never equal, whatever the values were.
_UNLIKE: Final = Meeting(lambda _: 0, lambda _: 1)
_CONVERSIONS: Final[dict[tuple[ValueKind, ValueKind], Conversion]] = {
    (ValueKind.TEXT, ValueKind.BOOLEAN): _truth_of,
    (ValueKind.TEXT, ValueKind.INT): int32_of,
    (ValueKind.TEXT, ValueKind.LONG): int64_of,
    (ValueKind.TEXT, ValueKind.DOUBLE): double_of,
    (ValueKind.INT, ValueKind.DOUBLE): _order_of_integer,
    (ValueKind.LONG, ValueKind.DOUBLE): _order_of_integer,
    (ValueKind.DOUBLE, ValueKind.DOUBLE): order_of,
}
