"""Kinds of values of options. Each parses a text, or raises ValueError with what it expects."""

import json
import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from roquet.pipeline.options.declaring import Kind
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.subscription import parse_subscription

E = TypeVar("E", bound=StrEnum)

_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATIONS: Final = {
    "ms": timedelta(milliseconds=1),
    "": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    # As Spark has it.
    "second": timedelta(seconds=1),
    "seconds": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "minutes": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "hours": timedelta(hours=1),
}
_NUMBER_AND_UNIT: Final = re.compile(r"(\d{1,18})\s*([a-z]*)")
_COUNT_MAX: Final = 2**63 - 1


def _text(value: str) -> str:
    if not value:
        raise ValueError("a text: it is empty")
    return value


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise ValueError("a list of names, separated by commas")
    return names


def _numbers(value: str) -> tuple[int, ...]:
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= _COUNT_MAX for part in parts):
        raise ValueError("a list of whole numbers, separated by commas")
    return tuple(map(int, parts))


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from None
    return value


def _count(value: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= _COUNT_MAX):
        raise ValueError("a whole number above 0")
    return int(value)


def _flag(value: str) -> bool:
    match value.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("true or false")


def _size(value: str) -> int:
    found = _NUMBER_AND_UNIT.fullmatch(value.lower().removesuffix("ib"))
    if found is None or found[2] not in _SIZES or int(found[1]) == 0:
        raise ValueError("a number of bytes, such as 67108864 or 64m")
    return int(found[1]) * _SIZES[found[2]]


def _duration(value: str) -> timedelta:
    found = _NUMBER_AND_UNIT.fullmatch(value.lower())
    if found is None or found[2] not in _DURATIONS:
        raise ValueError("a time span, such as 500ms, 30s or 15m")
    try:
        return int(found[1]) * _DURATIONS[found[2]]
    except OverflowError:
        raise ValueError("a time span, such as 500ms, 30s or 15m") from None


def _moment_ms(value: str) -> int:
    """Milliseconds since 1970, as in Spark's Kafka source; or a date and time of ISO 8601.

    Without a zone it is local time of this process, as in all commands of `roquet`.
    """
    if value.isascii() and value.isdigit() and int(value) <= _COUNT_MAX:
        return int(value)
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError("a time: milliseconds since 1970, or 2026-01-31T12:00:00Z") from None


def _tags(value: str) -> str:
    try:
        parse_subscription("", value)
    except (BadExpression, TooLarge) as error:
        raise ValueError(f"tags such as 'new || paid': {error}") from None
    return _text(value)


def _sql(value: str) -> str:
    # Most queries have none.
    from roquet.protocol.sql_filter import compile_filter  # noqa: PLC0415

    try:
        compile_filter(_text(value))
    except (BadExpression, TooLarge) as error:
        raise ValueError(f"an SQL92 expression such as 'price > 3': {error}") from None
    return value


def json_object(value: str) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        found = json.loads(value)
    except ValueError as error:
        raise ValueError(f"JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("a JSON object")  # noqa: TRY004  Every kind raises ValueError.
    return found


def choice(kind: type[E]) -> Kind:
    names = [each.value for each in kind]

    def read(value: str) -> E:
        try:
            return kind(value.lower())
        except ValueError:
            raise ValueError(f"one of {', '.join(names)}") from None

    return Kind(" \\| ".join(f"`{name}`" for name in names), read)


text: Final = Kind("text", _text)
names: Final = Kind("names, comma-separated", _names)
numbers: Final = Kind("numbers, comma-separated", _numbers)
pattern: Final = Kind("regular expression", _pattern)
count: Final = Kind("number", _count)
flag: Final = Kind("`true` \\| `false`", _flag)
size: Final = Kind("bytes, or `64m`", _size)
duration: Final = Kind("time span, `30s`", _duration)
moment_ms: Final = Kind("ms since 1970, or ISO 8601 (local time without a zone)", _moment_ms)
tags: Final = Kind("text", _tags)
sql: Final = Kind("text", _sql)
