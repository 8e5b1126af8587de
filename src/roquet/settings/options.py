"""One way to declare options: of brokers, name servers, TLS, and of Spark's formats.

    PORT = number(0, 65_535)
    OPTIONS = by_name(
        Option("listenPort", PORT, "port"),
        Option("logLevel", one_of(LogLevel), "log_level", is_changeable=True),
    )
    config = Config(**parse_options(OPTIONS, texts))     # raises ConfigError
    texts = format_options(OPTIONS, config)

An `Option` has a name, a kind, and the attribute of the value object that holds it, which also has
its default. `meaning` and `default` are for manuals, and for formats that build their value objects
from declarations. An `OptionKind` parses a text without blanks around it, raises ValueError, and
describes in `expected` what is allowed; `Option.parse` turns that into a ConfigError, which names
the option, the text and what is allowed. A ValueError with a message replaces `expected`. Kinds
that only one package needs are declared there.

Options that Apache has and this server does not support are refused, never skipped: an operator who
sets `authenticationEnabled=true` relies on it, and would overlook a warning among others.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar, final

import msgspec

from roquet.errors import RoquetError

E = TypeVar("E", bound=Enum)

NOT_SHOWN: Final = "(not shown)"
_SHOWN_SIZE_MAX: Final = 150
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_CLEAR_BOOLEANS: Final = ("true", "false")
_MILLISECONDS_DIGITS: Final = range(12, 15)


class ConfigError(RoquetError):
    """An option has a value that it cannot have."""

    def __init__(self, key: str, text: str, reason: str) -> None:
        super().__init__(f"{key}={text[:_SHOWN_SIZE_MAX]!r}: {reason}")
        self.key = key
        self.text = text
        self.reason = reason


@final
class OptionKind(msgspec.Struct, frozen=True):
    """`parse` gets a text without blanks around it and raises ValueError; `format` reverses it."""

    expected: str
    parse: Callable[[str], Any]
    format: Callable[[Any], str] = str
    is_secret: bool = False


@final
class Option(msgspec.Struct, frozen=True):
    name: str
    kind: OptionKind
    attribute: str = ""
    is_changeable: bool = False  # while the server runs
    meaning: str = ""
    default: Any = None

    def parse(self, text: str) -> Any:
        """Raises ConfigError."""
        try:
            return self.kind.parse(text.strip())
        except ValueError as error:
            if self.kind.is_secret:
                raise ConfigError(self.name, NOT_SHOWN, f"expected {self.kind.expected}") from None
            expected = str(error) or self.kind.expected
            raise ConfigError(self.name, text, f"expected {expected}") from None


Options = Mapping[str, Option]


def by_name(*options: Option) -> dict[str, Option]:
    named = {option.name: option for option in options}
    assert len(named) == len(options), "an option is declared twice"
    return named


def parse_options(options: Options, texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of the given options by attribute. Raises ConfigError."""
    return {
        option.attribute: option.parse(texts[name])
        for name, option in options.items()
        if name in texts
    }


def format_options(options: Options, config: object) -> dict[str, str]:
    """Every option that has a value, as text."""
    values = {name: getattr(config, option.attribute) for name, option in options.items()}
    return {
        name: options[name].kind.format(value)
        for name, value in values.items()
        if value is not None
    }


# Booleans. Java's `Boolean.parseBoolean` reads everything but "true" as false.


def parse_boolean(text: str) -> bool:
    """As Java's `Boolean.parseBoolean`: "true" in any case is true, everything else is false."""
    return text.strip().lower() == "true"


def format_boolean(value: bool) -> str:
    return "true" if value else "false"


def is_clear_boolean(text: str) -> bool:
    """Whether the text is "true" or "false": "yes" and "1" are read as false, hardly on purpose."""
    return text.strip().lower() in _CLEAR_BOOLEANS


def unclear_booleans(options: Options, texts: Mapping[str, str]) -> list[str]:
    """Options that are read as false, as in Java, although their text is not "false"."""
    return [
        name
        for name, text in texts.items()
        if name in options and options[name].kind is BOOLEAN and not is_clear_boolean(text)
    ]


def _parse_strict_boolean(text: str) -> bool:
    if not is_clear_boolean(text):
        raise ValueError
    return parse_boolean(text)


def _parse_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def parse_number(text: str) -> int:
    """Raises ValueError. Not all that Python accepts: "1_000" is not a number elsewhere."""
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return int(text)


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970, from that number or from ISO 8601; without a zone, local time.

    Digits alone are always milliseconds: 0, or 12 to 14 of them. Fewer are a date without its
    hyphens, seconds, or a duration without its unit; none of them may pass for January 1970.
    Raises ValueError.
    """
    if text.isascii() and text.isdigit():
        if text != "0" and len(text) not in _MILLISECONDS_DIGITS:
            raise ValueError
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError from None


def number(low: int, high: int = 2**31 - 1) -> OptionKind:
    def parse(text: str) -> int:
        value = parse_number(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return OptionKind(f"a number from {low} to {high}", parse)


def number_within(low: int, high: int) -> OptionKind:
    """Takes the nearest bound for a number beyond it."""
    return OptionKind("a number", lambda text: max(low, min(parse_number(text), high)))


def one_of(choices: type[E], *, ignore_case: bool = False) -> OptionKind:
    values = {choice.value: choice for choice in choices}

    def parse(text: str) -> E:
        choice = values.get(text.lower() if ignore_case else text)
        if choice is None:
            raise ValueError
        return choice

    return OptionKind(" or ".join(values), parse, lambda choice: str(choice.value))


def split_list(text: str, separator: str = ";") -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(separator))))


TEXT: Final = OptionKind("a text", _parse_text)
BOOLEAN: Final = OptionKind("true or false", parse_boolean, format_boolean)
# For security: where Java reads everything else as false, a typing error could disable it.
STRICT_BOOLEAN: Final = OptionKind("true or false", _parse_strict_boolean, format_boolean)
NAMES: Final = OptionKind("names, separated by semicolons", split_list, ";".join)
TIME_MS: Final = OptionKind(
    "a time: 2026-11-15T20:16:48 (local time unless it has a zone)"
    " or milliseconds such as 1794773808000",
    parse_time_ms,
)
FILE: Final = OptionKind("a file", lambda text: Path(_parse_text(text)))
COUNT: Final = number(1)
PERCENT: Final = number(1, 100)
INTERVAL_MS: Final = number(1)


# Options of Apache that are not supported.


class Unsupported(msgspec.Struct, frozen=True):
    """`is_requested` gets a text without blanks around it; `remedy` is what to do instead."""

    is_requested: Callable[[str], bool]
    feature: str
    remedy: str


class UnsupportedOption(RoquetError):
    def __init__(self, key: str, text: str, unsupported: Unsupported) -> None:
        super().__init__(
            f"{key}={text[:_SHOWN_SIZE_MAX]} is not supported ({unsupported.feature}):"
            f" {unsupported.remedy}"
        )
        self.key = key
        self.text = text
        self.unsupported = unsupported


def refuse_unsupported(unsupported: Mapping[str, Unsupported], texts: Mapping[str, str]) -> None:
    """Raises UnsupportedOption for the first option that requests an unsupported feature.

    TLS options that are obeyed are not among `texts` any more.
    """
    for key, text in texts.items():
        refused = unsupported.get(key) or (_TLS if is_tls_like(key) else None)
        if refused is not None and refused.is_requested(text.strip()):
            raise UnsupportedOption(key, text, refused)


def is_tls_like(key: str) -> bool:
    """A misspelled TLS option would leave connections unencrypted."""
    return key.lower().startswith("tls")


def is_false(text: str) -> bool:
    return not parse_boolean(text)


def is_more_than_one(text: str) -> bool:
    """Also for a text that is not a number."""
    return text not in ("", "0", "1")


def is_given(text: str) -> bool:
    return bool(text)


def is_other_than(*harmless: str) -> Callable[[str], bool]:
    return lambda text: text.lower() not in harmless


_TLS: Final = Unsupported(
    is_other_than("", "false", "disabled"),
    "encrypted connections",
    "the TLS options are tls.server.mode, tls.enable and others, see docs/security.md",
)
