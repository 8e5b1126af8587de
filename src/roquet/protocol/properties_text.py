r"""Settings as lines of text: Java's ".properties" format (25, 26, 318, 319, files).

    # a comment
    brokerName=broker-a
    path = /var/lib/\
           roquet               a backslash joins lines and drops the blanks that follow
    name:caf\u00e9              also with a colon or just a blank; bytes are ISO-8859-1
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from roquet.protocol.errors import BadBody

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n?|\n")
_ENTRY: Final = re.compile(
    r"((?:[^\\=: \t\f]|\\.)*+)"  # name
    r"[ \t\f]*+(?:[=:][ \t\f]*+)?+"
    r"(.*+)",  # value
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTERS_TO_ESCAPE: Final = {value: f"\\{name}" for name, value in _ESCAPED_LETTERS.items()}
# In a name all that could end it or make the line a comment; in a value what Java would
# drop or misread. More is not escaped, because mqadmin shows the lines as they are.
_SPECIAL_IN_NAME: Final = re.compile(r"[^!-~]|[\\=:#!]")
_SPECIAL_IN_VALUE: Final = re.compile(r"[^ -~]|\\|^ ")


def read_properties_text(data: bytes) -> dict[str, str]:
    """Names and values; of equal names the last one wins. Raises BadBody."""
    entries: dict[str, str] = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        match = _ENTRY.fullmatch(line)
        assert match is not None  # Only a backslash at the end would not match.
        entries[_unescaped(match[1])] = _unescaped(match[2])
    return entries


def write_properties_text(entries: Mapping[str, str]) -> bytes:
    lines = (
        f"{_SPECIAL_IN_NAME.sub(_escape, name)}={_SPECIAL_IN_VALUE.sub(_escape, value)}\n"
        for name, value in entries.items()
    )
    return "".join(lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with content, with those joined that a backslash continues."""
    parts: list[str] = []
    for natural_line in _LINE_END.split(text):
        line = natural_line.lstrip(_BLANKS)
        if not parts and line[:1] in ("", "#", "!"):
            continue
        backslash_count = len(line) - len(line.rstrip("\\"))
        if backslash_count % 2 == 1:
            parts.append(line[:-1])
            continue
        yield "".join((*parts, line))
        parts.clear()
    if parts:
        yield "".join(parts)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape, text)
    try:
        # Characters beyond 16 bits are written as two halves.
        return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise BadBody("properties", f"{text[:100]!r} has half a character") from None


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code == "u":
        raise BadBody("properties", f"bad escape in {match.string[:100]!r}")
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPED_LETTERS.get(code, code)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _LETTERS_TO_ESCAPE:
        return _LETTERS_TO_ESCAPE[character]
    if " " <= character <= "~":
        return f"\\{character}"
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
