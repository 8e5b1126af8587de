"""Text to tokens to a tree, by recursive descent.

    or          and (OR and)*
    and         equality (AND equality)*
    equality    comparison (= comparison | <> comparison | IS [NOT] NULL)*
    comparison  unary (< <= > >= unary
                      | [NOT] BETWEEN unary AND unary
                      | [NOT] IN (text, ...)
                      | [NOT] CONTAINS | STARTSWITH | ENDSWITH text)*
    unary       + unary | - unary | NOT unary | primary
    primary     literal | property | ( or )

Tokens are cut one at a time, because the parser stops at the end of a complete expression: what
follows the next token is ignored, as Apache does. So `a LIKE 'x'` is the bare property `a`.
"""

import re
from collections.abc import Iterator
from enum import Enum
from math import isinf
from typing import Final, NamedTuple, final

from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.sql_filter.tree import (
    And,
    Condition,
    Equal,
    In,
    IsNull,
    Literal,
    Negated,
    Node,
    Not,
    Or,
    Order,
    PropertyRef,
    Relation,
    Search,
    TextSearch,
    Truth,
    is_condition,
)
from roquet.protocol.sql_filter.values import ValueKind, meeting_of

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

# No integer but 0 starts with a zero, so 007 is three tokens; 0L is 0 and the name L.
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
            raise BadSql(position, f"{expression[position]!r} starts no known token")
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


NESTING_MAX: Final = 64

_ORDERS: Final = {order.value: order for order in Order}
_SEARCHES: Final = {search.value: search for search in Search}
_WORD_LITERALS: Final = {
    "NULL": Literal(None, ValueKind.NULL),
    "TRUE": Literal(True, ValueKind.BOOLEAN),
    "FALSE": Literal(False, ValueKind.BOOLEAN),
}


def parse(expression: str) -> Node:
    """The tree of a condition. Raises BadSql or TooLarge."""
    parser = _Parser(expression)
    return _as_condition(parser.parse_or(), 0)


@final
class _Parser:
    def __init__(self, expression: str) -> None:
        self._tokens = tokens_of(expression)
        self._token = next(self._tokens)
        self._nesting = 0

    def parse_or(self) -> Node:
        position = self._token.position
        terms = [self._parse_and()]
        while self._accepts("OR"):
            terms.append(self._parse_and())
        if len(terms) == 1:
            return terms[0]
        return Or(tuple(_as_condition(term, position) for term in terms))

    def _parse_and(self) -> Node:
        position = self._token.position
        terms = [self._parse_equality()]
        while self._accepts("AND"):
            terms.append(self._parse_equality())
        if len(terms) == 1:
            return terms[0]
        return And(tuple(_as_condition(term, position) for term in terms))

    def _parse_equality(self) -> Node:
        left = self._parse_comparison()
        while True:
            position = self._token.position
            if self._accepts("="):
                left = _equal(left, self._parse_comparison(), position)
            elif self._accepts("<>"):
                left = Not(_equal(left, self._parse_comparison(), position))
            elif self._accepts("IS"):
                is_negated = self._accepts("NOT")
                self._expect("NULL")
                left = Not(IsNull(left)) if is_negated else IsNull(left)
            else:
                return left

    def _parse_comparison(self) -> Node:
        left = self._parse_unary()
        while True:
            token = self._token
            if self._accepts(*_ORDERS):
                left = _relation(_ORDERS[token.text], left, self._parse_unary(), token.position)
            elif self._is_at("NOT", "BETWEEN", "IN") or self._search() is not None:
                left = self._parse_predicate(left)
            else:
                return left

    def _parse_predicate(self, left: Node) -> Node:
        """What may follow an operand, with or without a NOT in between."""
        is_negated = self._accepts("NOT")
        position = self._token.position
        search = self._search()
        if search is not None:
            self._advance()
            # Neither form is ever null, so NOT is a part of it and no operator around it.
            return TextSearch(search, left, self._expect_text(), is_wanted=not is_negated)
        if self._accepts("BETWEEN"):
            low = self._parse_unary()
            self._expect("AND")
            high = self._parse_unary()
            if is_negated:
                return _not_between(left, low, high, position)
            return _between(left, low, high, position)
        self._expect("IN")
        inside = _in(left, self._parse_choices(), position)
        return Not(inside) if is_negated else inside

    def _parse_choices(self) -> frozenset[str]:
        self._expect("(")
        choices = {self._expect_text()}
        while self._accepts(","):
            choices.add(self._expect_text())
        self._expect(")")
        return frozenset(choices)

    def _parse_unary(self) -> Node:
        # Every way to nest comes through here, so this one counter guards the stack.
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise TooLarge("nesting of a filter expression", self._nesting, NESTING_MAX)
        position = self._token.position
        if self._accepts("+"):
            node = self._parse_unary()
        elif self._accepts("-"):
            node = _negated(self._parse_unary())
        elif self._accepts("NOT"):
            node = Not(_as_condition(self._parse_unary(), position))
        else:
            node = self._parse_primary()
        self._nesting -= 1
        return node

    def _parse_primary(self) -> Node:
        token = self._token
        if self._accepts("("):
            node = self.parse_or()
            self._expect(")")
            return node
        node = _leaf(token)
        self._advance()
        return node

    def _search(self) -> Search | None:
        # These keywords are new in 5.x. Reserving them would break 4.9 filters on properties
        # of that name, so they mean an operator only after an operand.
        if self._token.kind is TokenKind.NAME:
            return _SEARCHES.get(self._token.text.upper())
        return None

    def _is_at(self, *words: str) -> bool:
        token = self._token
        return token.text in words and token.kind in (TokenKind.SYMBOL, TokenKind.KEYWORD)

    def _accepts(self, *words: str) -> bool:
        if self._is_at(*words):
            self._advance()
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accepts(word):
            raise _unexpected(self._token, word)

    def _expect_text(self) -> str:
        token = self._token
        if token.kind is not TokenKind.TEXT:
            raise _unexpected(token, "a quoted text")
        self._advance()
        return token.text

    def _advance(self) -> None:
        self._token = next(self._tokens)


def _leaf(token: Token) -> Node:
    match token.kind:
        case TokenKind.NAME:
            return PropertyRef(token.text)
        case TokenKind.TEXT:
            return Literal(token.text, ValueKind.TEXT)
        case TokenKind.INTEGER:
            return _integer(token)
        case TokenKind.FLOAT:
            return _float(token)
        case TokenKind.KEYWORD if token.text in _WORD_LITERALS:
            return _WORD_LITERALS[token.text]
    raise _unexpected(token, "a value")


def _integer(token: Token) -> Literal:
    digits = token.text.rstrip("lL")
    # Counted before they are converted; 64 bits never need more.
    if len(digits) > 19 or int(digits) >= 2**63:
        raise BadSql(token.position, "the integer does not fit 64 bits")
    value = int(digits)
    # The suffix decides nothing: only the size makes a long.
    return Literal(value, ValueKind.INT if value < 2**31 else ValueKind.LONG)


def _float(token: Token) -> Literal:
    value = float(token.text)
    # Apache takes the smallest positive double for the smallest one, and so refuses 0.0.
    if value == 0 or isinf(value):
        raise BadSql(token.position, "the number is zero or out of range, use an integer")
    return Literal(value, ValueKind.DOUBLE)


def _negated(operand: Node) -> Node:
    if isinstance(operand, Literal) and operand.is_number:
        assert isinstance(operand.value, int | float)
        return Literal(-operand.value, operand.kind, is_signed=True)
    return Negated(operand)


def _as_condition(node: Node, position: int) -> Node:
    if isinstance(node, PropertyRef):
        return Truth(node.name)
    if not is_condition(node):
        raise BadSql(position, "a condition is expected, not a value")
    return node


def _equal(left: Node, right: Node, position: int) -> Equal:
    kinds = [constant.kind for constant in _constants(left, right)]
    if ValueKind.NULL in kinds:
        raise BadSql(position, "NULL cannot be compared, use IS NULL")
    # The other way round, `5 = TRUE`, is allowed and false.
    if len(kinds) == 2 and kinds[0] is ValueKind.BOOLEAN and kinds[1] is not ValueKind.BOOLEAN:
        raise BadSql(position, "TRUE and FALSE cannot be compared with another constant")
    return Equal(left, right)


def _relation(order: Order, left: Node, right: Node, position: int) -> Relation:
    for operand in (left, right):
        if isinstance(operand, Condition) or (
            isinstance(operand, Literal) and not operand.is_number
        ):
            raise BadSql(position, f"{order.value} compares numbers only")
    return Relation(order, left, right)


def _between(value: Node, low: Node, high: Node, position: int) -> And:
    bounds = (
        _relation(Order.GREATER_OR_EQUAL, value, low, position),
        _relation(Order.LESS_OR_EQUAL, value, high, position),
    )
    constants = _constants(low, high)
    if len(constants) == 2 and _is_reversed(*constants):
        raise BadSql(position, "the bounds of BETWEEN are reversed")
    return And(bounds)


def _not_between(value: Node, low: Node, high: Node, position: int) -> Or:
    return Or(
        (
            _relation(Order.LESS, value, low, position),
            _relation(Order.GREATER, value, high, position),
        )
    )


def _is_reversed(low: Literal, high: Literal) -> bool:
    convert_low, convert_high = meeting_of(low.kind, high.kind)
    return bool(convert_high(high.value) < convert_low(low.value))


def _in(value: Node, choices: frozenset[str], position: int) -> In:
    if not isinstance(value, PropertyRef):
        raise BadSql(position, "IN may only follow a property")
    return In(value.name, choices)


def _constants(*nodes: Node) -> list[Literal]:
    """Those that Apache sees as constants: a number after a minus is not one."""
    return [node for node in nodes if isinstance(node, Literal) and not node.is_signed]


def _unexpected(token: Token, wanted: str) -> BadSql:
    return BadSql(token.position, f"{wanted} is expected, not {token.text[:40]!r}")
