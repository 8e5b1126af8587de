"""How an option is declared, read from what Spark passes, refused and documented.

The options of a format are the fields of a frozen dataclass:

    name_server: str = option("nameServer", TEXT, "`host:port` of a name server; ...")

`roquet.settings.options` has what an option and its kind are; here are those that Spark needs
besides: names without regard to case, groups that formats share, a manual, and more kinds.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, field, fields
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

from roquet.pipeline.errors import BadOption, UnknownOption
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.subscription import parse_subscription
from roquet.settings.options import TEXT, ConfigError, Option, OptionKind

O = TypeVar("O")  # noqa: E741  A class of options.

_OPTION: Final = "option"
_GROUP: Final = "group"
# Options that Spark itself passes to every format.
_ENGINE_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
# Spark passes the options of CREATE TABLE with this prefix, and no others.
_TABLE_PREFIX: Final = "option."


def option(
    name: str, kind: OptionKind, meaning: str, default: Any = MISSING, shown: str = ""
) -> Any:
    """A field of a class of options. `shown` is the default as the manual prints it.

    Secrets are excluded from `repr`, which ends up in logs and errors.
    """
    printed = shown or (None if default in (MISSING, None) else kind.format(default))
    declared = Option(name, kind, meaning=meaning, default=printed)
    return field(default=default, metadata={_OPTION: declared}, repr=not kind.is_secret)


def group(kind: type[O]) -> O:
    """A field that holds options shared by several formats."""
    return cast("O", field(metadata={_GROUP: kind}))


def declared_options(kind: type[Any]) -> Iterator[Option]:
    """In the order of their declaration."""
    for each in fields(kind):
        if _GROUP in each.metadata:
            yield from declared_options(each.metadata[_GROUP])
        else:
            yield each.metadata[_OPTION]


def read_options(kind: type[O], given: Mapping[str, str]) -> O:
    """Raises BadOption, which names the option and its possible values."""
    names = {each.name.lower(): each.name for each in declared_options(kind)}
    for name in given:
        if name.lower().startswith(_TABLE_PREFIX):
            raise BadOption(
                name,
                "CREATE TABLE does not support this format: use CREATE TEMPORARY VIEW ... USING"
                " ... OPTIONS (...)",
            )
        if name.lower() not in names and name.lower() not in _ENGINE_OPTIONS:
            close = difflib.get_close_matches(name.lower(), names, n=1)
            raise UnknownOption(name, names[close[0]] if close else None)
    return _read(kind, {name.lower(): value for name, value in given.items()})


def _read(kind: type[O], given: Mapping[str, str]) -> O:
    values: dict[str, Any] = {}
    for each in fields(cast("Any", kind)):
        if _GROUP in each.metadata:
            values[each.name] = _read(each.metadata[_GROUP], given)
        else:
            _read_one(each, given, values)
    return kind(**values)


def _read_one(each: "Field[Any]", given: Mapping[str, str], values: dict[str, Any]) -> None:
    declared: Option = each.metadata[_OPTION]
    text = given.get(declared.name.lower())
    if text is None:
        if each.default is MISSING:
            raise BadOption(declared.name, f"required: {declared.meaning}")
        return
    try:
        values[each.name] = declared.parse(text)
    except ConfigError as error:
        raise BadOption(declared.name, f"{error.text!r}: {error.reason}") from None


def option_table(kind: type[Any]) -> str:
    """Markdown, one row per option, in the order of their declaration."""
    rows = ["| option | values | default | meaning |", "|---|---|---|---|"]
    for each in declared_options(kind):
        default = "" if each.default is None else _quoted(each.default)
        rows.append(
            f"| `{each.name}` | {_escaped(each.kind.expected)} | {default} | {each.meaning} |"
        )
    return "\n".join(rows) + "\n"


def _quoted(default: str) -> str:
    return default if "`" in default else f"`{default}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATIONS: Final = {
    "ms": timedelta(milliseconds=1),
    "": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    # As Spark has it.
    "second": timedelta(seconds=1),
    "seconds": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "minutes": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "hours": timedelta(hours=1),
    "day": timedelta(days=1),
    "days": timedelta(days=1),
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
