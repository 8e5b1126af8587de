"""Message properties: a map as a text.

    name 0x01 value 0x02 name 0x01 value [0x02]

4.9 writes no separator at the end, 5.x does; both are read. A property with an
empty name or an empty value does not exist. Of equal names the last one counts.

A broker touches one or two properties of a message and never builds the map, so
there are functions for one property in a text, and in UTF-8 bytes. Their names
must be honest: not empty and without separators.
"""

from collections.abc import Mapping
from typing import AnyStr, Final

from roquet.protocol.errors import BadMessage

PROPERTIES_SIZE_MAX: Final = 32767

_EQUALS: Final = "\x01"
_SEPARATOR: Final = "\x02"


def parse_properties(text: str) -> dict[str, str]:
    """Never fails: what is no property is passed over, as in Java."""
    properties: dict[str, str] = {}
    for segment in text.split(_SEPARATOR):
        name, _, value = segment.partition(_EQUALS)
        if name and value:
            properties[name] = value
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """Raises BadMessage for a property that would not be read back as it is."""
    text = _SEPARATOR.join([f"{name}{_EQUALS}{value}" for name, value in properties.items()])
    if _is_surely_readable(properties, text):
        return text
    for name, value in properties.items():
        if not is_property(name, value):
            raise BadMessage(
                f"property {name!r} cannot be {value!r}: name and value have to be there, without"
                r" the characters \x01 (of a name) and \x02 (of both), which stand between them"
            )
    return text


def _is_surely_readable(properties: Mapping[str, str], text: str) -> bool:
    """Whether nothing is wrong with any of them: a look at all together, which nearly all pass."""
    return (
        _EQUALS not in "".join(properties)
        and "" not in properties
        and text.count(_SEPARATOR) == len(properties) - 1
        and "\x01\x02" not in text
        and text[-1:] != _EQUALS
    )


def is_property(name: str, value: str) -> bool:
    """Whether the text form can hold this property."""
    return bool(
        name
        and value
        and _EQUALS not in name
        and _SEPARATOR not in name
        and _SEPARATOR not in value
    )


def property_of(text: str, name: str) -> str | None:
    """The value that `parse_properties` would find."""
    return _last_value(f"\x02{text}\x02", f"\x02{name}\x01", _SEPARATOR)


def property_of_bytes(data: bytes, name: bytes) -> bytes | None:
    return _last_value(b"\x02%b\x02" % data, b"\x02%b\x01" % name, b"\x02")


def without_property(text: str, name: str) -> str:
    """The text without any property of this name."""
    mark = name + _EQUALS
    return _without(text, mark, _SEPARATOR) if mark in text else text


def without_property_bytes(data: bytes, name: bytes) -> bytes:
    mark = name + b"\x01"
    # Not `in`, which with bytes first tries its left side as a number and takes twice as long.
    return data if data.find(mark) < 0 else _without(data, mark, b"\x02")


def with_property(text: str, name: str, value: str) -> str:
    """The text with one more property, which then counts before earlier ones of its name."""
    if text and text[-1] != _SEPARATOR:
        return f"{text}\x02{name}\x01{value}"
    return f"{text}{name}\x01{value}"


def _last_value(text: AnyStr, mark: AnyStr, separator: AnyStr) -> AnyStr | None:
    """The last non-empty value after `mark`; `text` starts and ends with a separator."""
    found = text.rfind(mark)
    while found >= 0:
        start = found + len(mark)
        end = text.index(separator, start)
        if end > start:
            return text[start:end]
        found = text.rfind(mark, 0, found)
    return None


def _without(text: AnyStr, mark: AnyStr, separator: AnyStr) -> AnyStr:
    start = text.rfind(separator + mark)
    if start >= 0 and text.find(mark) == start + 1:
        # There is one, as of checksums, and it is not the first property: the rest is not touched.
        end = text.find(separator, start + 1)
        return text[:start] if end < 0 else text[:start] + text[end:]
    return separator.join(
        [segment for segment in text.split(separator) if not segment.startswith(mark)]
    )
