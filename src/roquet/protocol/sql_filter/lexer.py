"""An expression cut into tokens, one at a time.

Cutting is lazy because the parser stops at the end of a complete expression:
what comes after the next token is never looked at, nor is it by Apache's parser.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from roquet.protocol.errors import BadExpression

KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"})


class BadSql(BadExpression):
    """An SQL92 expression that does not compile, and the character where that shows."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at character {position}: {reason}")
        self.position = position
        self.reason = reason


class TokenKind(Enum):
    NAME = "name"
    FLOAT = "float"
    INTEGER = "integer"
    TEXT = "text"
    SYMBOL = "symbol"
    KEYWORD = "keyword"
    END = "end"


class Token(NamedTuple):
    kind: TokenKind
    text: str  # of a keyword: in capitals; of a text: without its quotes
    position: int


# A line comment needs its line end: without one, "--" is two signs.
_skip = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*(?s:.*?)\*/)*").match

# No integer but 0 begins with a zero, so 007 is three tokens; 0L is 0 and the name L.
_cut = re.compile(
    r"""
      (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<integer>0|[1-9][0-9]*[lL]?)
    | (?P<text>'[^']*(?:''[^']*)*')
    | (?P<symbol><>|<=|>=|[=<>(),+-])
    """,
    re.VERBOSE,
).match


def tokens_of(expression: str) -> Iterator[Token]:
    """Ends with a token END. Raises BadSql at what is no token, once it is reached."""
    position = _skipped(expression, 0)
    while position < len(expression):
        match = _cut(expression, position)
        if match is None:
            raise BadSql(position, f"{expression[position]!r} begins nothing known")
        yield _token(TokenKind(match.lastgroup), match[0], position)
        position = _skipped(expression, match.end())
    yield Token(TokenKind.END, "the end", position)


def _skipped(expression: str, position: int) -> int:
    match = _skip(expression, position)
    assert match is not None  # the pattern also matches nothing at all
    return match.end()


def _token(kind: TokenKind, text: str, position: int) -> Token:
    if kind is TokenKind.NAME and text.upper() in KEYWORDS:
        return Token(TokenKind.KEYWORD, text.upper(), position)
    if kind is TokenKind.TEXT:
        return Token(kind, text[1:-1].replace("''", "'"), position)
    return Token(kind, text, position)
