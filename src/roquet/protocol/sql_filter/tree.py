"""The tree of an expression: values made by the parser, read by the compiler."""

from enum import Enum

import msgspec

from roquet.protocol.sql_filter.values import NUMBERS, ValueKind


class PropertyRef(msgspec.Struct, frozen=True):
    name: str


class Literal(msgspec.Struct, frozen=True):
    value: str | int | float | bool | None
    kind: ValueKind
    is_signed: bool = False  # a number after a minus

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS


class Negated(msgspec.Struct, frozen=True):
    """A minus before anything but a number: null, whatever the operand yields."""

    operand: "Node"


class Truth(msgspec.Struct, frozen=True):
    """A property where a condition is expected."""

    name: str


class Not(msgspec.Struct, frozen=True):
    operand: "Node"


class And(msgspec.Struct, frozen=True):
    terms: tuple["Node", ...]


class Or(msgspec.Struct, frozen=True):
    terms: tuple["Node", ...]


class Equal(msgspec.Struct, frozen=True):
    left: "Node"
    right: "Node"


class IsNull(msgspec.Struct, frozen=True):
    operand: "Node"


class Order(Enum):
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Relation(msgspec.Struct, frozen=True):
    order: Order
    left: "Node"
    right: "Node"


class In(msgspec.Struct, frozen=True):
    name: str
    choices: frozenset[str]


class Search(Enum):
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


class TextSearch(msgspec.Struct, frozen=True):
    """A text has `part` in it or, with `is_wanted` false, does not."""

    search: Search
    operand: "Node"
    part: str
    is_wanted: bool


Condition = Truth | Not | And | Or | Equal | IsNull | Relation | In | TextSearch
Node = PropertyRef | Literal | Negated | Condition


def is_condition(node: Node) -> bool:
    """Whether `node` yields true, false or null by itself; NULL, TRUE and FALSE do."""
    if isinstance(node, Literal):
        return node.kind in (ValueKind.NULL, ValueKind.BOOLEAN)
    return isinstance(node, Condition)


def kind_of(node: Node) -> ValueKind:
    match node:
        case PropertyRef():
            return ValueKind.TEXT
        case Literal(kind=kind):
            return kind
        case Negated():
            return ValueKind.NULL
        case _:
            return ValueKind.BOOLEAN
