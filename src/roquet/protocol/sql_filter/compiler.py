"""A tree to one function of the properties, out of closures; nothing is ever eval'ed.

The logic has three values: True, False and None for unknown. Whatever can be
decided before a message is there (kinds, conversions, constants) is decided
here, so that the common `property against constant` costs one look-up, one
conversion and one comparison.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from roquet.protocol.errors import TooLarge
from roquet.protocol.sql_filter.tree import (
    And,
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
    kind_of,
)
from roquet.protocol.sql_filter.values import Conversion, Meeting, meeting_of, ordering_of

# BETWEEN looks at its value twice, so a short text could nest into 2^n evaluations. Nodes
# are therefore counted as often as they are evaluated.
NODE_COUNT_MAX: Final = 1024
# Chains like `a = b = c` grow deep without any nesting in the text.
DEPTH_MAX: Final = 64

Properties = Mapping[str, str]
Evaluator = Callable[[Properties], Any]
Comparison = Callable[[Any, Any], bool]

_COMPARISONS: Final[dict[Order, Comparison]] = {
    Order.LESS: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
    Order.GREATER: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
}
_SEARCHES: Final[dict[Search, Callable[[str, str], bool]]] = {
    Search.CONTAINS: operator.contains,
    Search.STARTSWITH: str.startswith,
    Search.ENDSWITH: str.endswith,
}


def compile_tree(tree: Node) -> Evaluator:
    """Raises TooLarge."""
    return _Compiler().compile(tree, 1)


@final
class _Compiler:
    def __init__(self) -> None:
        self._node_count = 0

    def compile(self, node: Node, depth: int) -> Evaluator:
        self._count(depth)
        below = depth + 1
        match node:
            case PropertyRef(name):
                return lambda properties: properties.get(name)
            case Literal(value):
                return lambda _: value
            case Negated(operand):
                return _negated(self.compile(operand, below))
            case Truth(name):
                return _truth(name)
            case Not(operand):
                return _not(self.compile(operand, below))
            case And(terms):
                return _and(tuple(self.compile(term, below) for term in terms))
            case Or(terms):
                return _or(tuple(self.compile(term, below) for term in terms))
            case IsNull(operand):
                return _is_null(self.compile(operand, below))
            case In(name, choices):
                return _in(name, choices)
            case TextSearch():
                return _found(node, self.compile(node.operand, below))
            case Equal():
                return self._equal(node, below)
            case Relation():
                return self._relation(node, below)

    def _equal(self, node: Equal, depth: int) -> Evaluator:
        left, right = self.compile(node.left, depth), self.compile(node.right, depth)
        meeting = meeting_of(kind_of(node.left), kind_of(node.right))
        match node.left, node.right:
            case PropertyRef(name), Literal(str() as text):
                return _property_is(name, text)
            case PropertyRef(name), Literal(value):
                constant = meeting.convert_right(value)
                return _property_against(constant, operator.eq, name, meeting.convert_left)
        return _equal(left, right, meeting)

    def _relation(self, node: Relation, depth: int) -> Evaluator:
        left, right = self.compile(node.left, depth), self.compile(node.right, depth)
        meeting = ordering_of(kind_of(node.left), kind_of(node.right))
        comparison = _COMPARISONS[node.order]
        match node.left, node.right:
            case PropertyRef(name), Literal(value):
                constant = meeting.convert_right(value)
                return _property_against(constant, comparison, name, meeting.convert_left)
        return _relation(left, right, comparison, meeting)

    def _count(self, depth: int) -> None:
        self._node_count += 1
        if self._node_count > NODE_COUNT_MAX:
            raise TooLarge("node count of a filter", self._node_count, NODE_COUNT_MAX)
        if depth > DEPTH_MAX:
            raise TooLarge("depth of a filter", depth, DEPTH_MAX)


def _property_is(name: str, text: str) -> Evaluator:
    def evaluate(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else value == text

    return evaluate


def _property_against(
    constant: object, comparison: Comparison, name: str, convert: Conversion
) -> Evaluator:
    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else comparison(convert(text), constant)

    return evaluate


def _equal(left: Evaluator, right: Evaluator, meeting: Meeting) -> Evaluator:
    convert_left, convert_right = meeting

    def evaluate(properties: Properties) -> bool | None:
        left_value = left(properties)
        right_value = right(properties)
        # Lopsided, but like Apache: only a null on the left makes the result unknown.
        if left_value is None:
            return True if right_value is None else None
        if right_value is None:
            return False
        return bool(convert_left(left_value) == convert_right(right_value))

    return evaluate


def _relation(
    left: Evaluator, right: Evaluator, comparison: Comparison, meeting: Meeting
) -> Evaluator:
    convert_left, convert_right = meeting

    def evaluate(properties: Properties) -> bool | None:
        left_value = left(properties)
        if left_value is None:
            return None
        right_value = right(properties)
        if right_value is None:
            return None
        return comparison(convert_left(left_value), convert_right(right_value))

    return evaluate


def _truth(name: str) -> Evaluator:
    # All properties are texts, and no text is true, not even "true".
    return lambda properties: None if properties.get(name) is None else False


def _negated(operand: Evaluator) -> Evaluator:
    def evaluate(properties: Properties) -> None:
        # The value does not matter, but a failure inside fails the whole expression.
        operand(properties)

    return evaluate


def _not(operand: Evaluator) -> Evaluator:
    def evaluate(properties: Properties) -> bool | None:
        value = operand(properties)
        return None if value is None else not value

    return evaluate


def _and(terms: tuple[Evaluator, ...]) -> Evaluator:
    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = True
        for term in terms:
            value = term(properties)
            if value is None:
                result = None
            elif not value:
                return False
        return result

    return evaluate


def _or(terms: tuple[Evaluator, ...]) -> Evaluator:
    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = False
        for term in terms:
            value = term(properties)
            if value is None:
                result = None
            elif value:
                return True
        return result

    return evaluate


def _is_null(operand: Evaluator) -> Evaluator:
    return lambda properties: operand(properties) is None


def _in(name: str, choices: frozenset[str]) -> Evaluator:
    def evaluate(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else value in choices

    return evaluate


def _found(node: TextSearch, operand: Evaluator) -> Evaluator:
    if not node.part:
        return lambda _: False  # with and without NOT; the operand is not even looked at
    search, part, is_wanted = _SEARCHES[node.search], node.part, node.is_wanted

    def evaluate(properties: Properties) -> bool:
        value = operand(properties)
        return isinstance(value, str) and search(value, part) is is_wanted

    return evaluate
