"""A tree to the program that `messages/record_filter` runs over the bytes of a record.

Taken are conditions on properties and constants, which nearly all expressions consist of. A tree
with anything else has no program, and is evaluated by the closures of `compiler.py` alone.
"""

from typing import Final, final

from roquet.protocol.messages.record_filter import (
    ALL,
    ANY,
    CONSTANT,
    DOUBLE,
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    INT,
    IS_NULL,
    LESS,
    LESS_OR_EQUAL,
    LONG,
    NOT,
    SLOT_COUNT,
    TEXT_CONTAINS,
    TEXT_ENDS,
    TEXT_IS,
    TEXT_STARTS,
    Program,
    Step,
)
from roquet.protocol.sql_filter.tree import (
    And,
    Equal,
    In,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    Order,
    PropertyRef,
    Relation,
    Search,
    TextSearch,
)
from roquet.protocol.sql_filter.values import ValueKind

_ORDERS: Final = {
    Order.LESS: LESS,
    Order.LESS_OR_EQUAL: LESS_OR_EQUAL,
    Order.GREATER: GREATER,
    Order.GREATER_OR_EQUAL: GREATER_OR_EQUAL,
}
_SEARCHES: Final = {
    Search.CONTAINS: TEXT_CONTAINS,
    Search.STARTSWITH: TEXT_STARTS,
    Search.ENDSWITH: TEXT_ENDS,
}
_TRUTHS: Final = {False: 0, True: 1, None: 2}
# Stands for bytes that are no UTF-8, and so is no text of its own.
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def program_of(tree: Node) -> Program | None:
    """None for a tree that only closures can evaluate."""
    writer = _Writer()
    try:
        writer.add(tree)
    except _NotCommon:
        return None
    return Program(writer.names, writer.steps, writer.ends)


class _NotCommon(Exception):
    """A part of the tree has no step."""


@final
class _Writer:
    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.steps: list[Step] = []
        self.ends: list[int] = []

    def add(self, node: Node) -> None:
        match node:
            case And(terms):
                self._put_around(ALL, terms)
            case Or(terms):
                self._put_around(ANY, terms)
            case Not(operand):
                self._put_around(NOT, (operand,))
            case In(name, choices):
                # A property that is missing makes each of them unknown, and so the whole.
                terms = tuple(
                    Equal(PropertyRef(name), Literal(each, ValueKind.TEXT))
                    for each in sorted(choices)
                )
                self._put_around(ANY, terms)
            case Literal(None | True | False as value):
                self._put(Step(CONSTANT, integer=_TRUTHS[value]))
            case IsNull(PropertyRef(name)):
                self._put(Step(IS_NULL, self._slot(name)))
            case TextSearch(search, PropertyRef(name), part, is_wanted) if part:
                slot = self._slot(name)
                self._put(Step(_SEARCHES[search], slot, 0, int(is_wanted), text=_encoded(part)))
            case Equal(PropertyRef(name), Literal() as literal):
                self._put(_comparison(EQUAL, self._slot(name), literal))
            case Relation(order, PropertyRef(name), Literal() as literal):
                self._put(_comparison(_ORDERS[order], self._slot(name), literal))
            case _:
                raise _NotCommon

    def _put(self, step: Step) -> None:
        self.steps.append(step)
        self.ends.append(len(self.steps))

    def _put_around(self, kind: int, terms: tuple[Node, ...]) -> None:
        index = len(self.steps)
        self._put(Step(kind))
        for term in terms:
            self.add(term)
        self.ends[index] = len(self.steps)

    def _slot(self, name: str) -> int:
        encoded = _encoded(name)
        if encoded not in self.names:
            if len(self.names) == SLOT_COUNT:
                raise _NotCommon
            self.names.append(encoded)
        return self.names.index(encoded)


def _comparison(order: int, slot: int, literal: Literal) -> Step:
    match literal.kind, literal.value:
        case ValueKind.TEXT, str() as text:
            return Step(TEXT_IS, slot, text=_encoded(text))
        case ValueKind.INT, int() as value:
            return Step(INT, slot, order, value)
        case ValueKind.LONG, int() as value:
            return Step(LONG, slot, order, value)
        case ValueKind.DOUBLE, float() as value:
            return Step(DOUBLE, slot, order, real=value)
    raise _NotCommon


def _encoded(text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise _NotCommon from None
    if _REPLACEMENT in text:
        raise _NotCommon
    return encoded
