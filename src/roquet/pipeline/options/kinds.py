"""Kinds of options that formats have besides those of `roquet.settings.options`."""

import json
import re
from datetime import timedelta
from typing import Any, Final

from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.subscription import parse_subscription
from roquet.settings.options import TEXT, OptionKind

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


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise ValueError
    return names


def _numbers(value: str) -> tuple[int, ...]:
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= _COUNT_MAX for part in parts):
        raise ValueError
    return tuple(map(int, parts))


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from None
    return value


def _count(value: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= _COUNT_MAX):
        raise ValueError
    return int(value)


def _size(value: str) -> int:
    found = _NUMBER_AND_UNIT.fullmatch(value.lower().removesuffix("ib"))
    if found is None or found[2] not in _SIZES or int(found[1]) == 0:
        raise ValueError
    return int(found[1]) * _SIZES[found[2]]


def _duration(value: str) -> timedelta:
    found = _NUMBER_AND_UNIT.fullmatch(value.lower())
    if found is None or found[2] not in _DURATIONS:
        raise ValueError
    try:
        return int(found[1]) * _DURATIONS[found[2]]
    except OverflowError:
        raise ValueError from None


def _tags(value: str) -> str:
    try:
        parse_subscription("", value)
    except (BadExpression, TooLarge) as error:
        raise ValueError(f"tags such as 'new || paid': {error}") from None
    return TEXT.parse(value)  # type: ignore[no-any-return]


def _sql(value: str) -> str:
    # Most queries have none.
    from roquet.protocol.sql_filter import compile_filter  # noqa: PLC0415

    try:
        compile_filter(TEXT.parse(value))
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


SECRET: Final = OptionKind("a text", TEXT.parse, is_secret=True)
NAMES: Final = OptionKind("names, separated by commas", _names)
NUMBERS: Final = OptionKind("whole numbers, separated by commas", _numbers)
PATTERN: Final = OptionKind("a regular expression", _pattern)
COUNT: Final = OptionKind("a whole number above 0", _count)
SIZE: Final = OptionKind("a number of bytes, such as 67108864 or 64m", _size)
DURATION: Final = OptionKind("a time span, such as 500ms, 30s or 15m", _duration)
TAGS: Final = OptionKind("tags, such as 'new || paid'", _tags)
SQL: Final = OptionKind("an SQL92 expression, such as 'price > 3'", _sql)
