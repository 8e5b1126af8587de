"""How an option is declared, read from what Spark passes, refused and documented.

The options of a format are the fields of a frozen dataclass:

    name_server: str = option("nameServer", TEXT, "`host:port` of a name server; ...")

`roquet.settings.options` has what an option and its kind are; here are those that Spark needs
besides: names without regard to case, groups that formats share, and a manual.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Final, TypeVar, cast

from roquet.pipeline.errors import BadOption, UnknownOption
from roquet.settings.options import ConfigError, Option, OptionKind

O = TypeVar("O")  # noqa: E741  A class of options.

_OPTION: Final = "option"
_GROUP: Final = "group"
# Options that Spark itself passes to every format.
_ENGINE_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})


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
