"""The tree of an expression: plain values, made by the parser, read by the compiler."""

from dataclasses import dataclass
from enum import Enum

from roquet.protocol.sql_filter.values import NUMBERS, ValueKind


@dataclass(frozen=True, slots=True)
class PropertyRef:
    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None
    kind: ValueKind
    is_signed: bool = False  # a number after a minus

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS


@dataclass(frozen=True, slots=True)
class Negated:
    """A minus before anything but a number: null, whatever the operand yields."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Truth:
    """A property where a condition is expected."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class And:
    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Equal:
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: "Node"


class Order(Enum):
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Relation:
    order: Order
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class In:
    name: str
    choices: frozenset[str]


class Search(Enum):
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class TextSearch:
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
