"""Compiled filters against a second, naive reading of the same rules.

Expressions are generated together with what they mean. The meaning works with values that
carry their Java type and decides everything when a message is there, in the most literal way.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from roquet.protocol.errors import ProtocolError
from roquet.protocol.sql_filter import compile_filter

Properties = Mapping[str, str]
Comparison = Callable[[Any, Any], bool]


class Int(int):
    """A Java int."""


class Long(int):
    """A Java long."""


class Failure(Exception):
    """Java throws: the message is not delivered."""


class Expression(NamedTuple):
    text: str
    meaning: Callable[[Properties], object]


# --- the naive reading ---


def convert(text: str, like: object) -> object:
    """The text as the type of the other side. Only plain numbers are generated, so that Python's
    own conversions do."""
    if isinstance(like, bool):
        return text.lower() == "true"
    try:
        if isinstance(like, float):
            return float(text)
        value = int(text)
    except ValueError:
        raise Failure from None
    bits = 31 if isinstance(like, Int) else 63
    if not -(2**bits) <= value < 2**bits:
        raise Failure
    return value


def made_alike(left: object, right: object) -> tuple[object, object]:
    if isinstance(left, str) and not isinstance(right, str):
        return convert(left, right), right
    if isinstance(right, str) and not isinstance(left, str):
        if isinstance(left, bool):
            raise Failure
        return left, convert(right, left)
    if isinstance(left, float) or isinstance(right, float):
        return as_double(left), as_double(right)
    return left, right


def as_double(value: object) -> object:
    # A boolean stays itself, so that it equals no number.
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def equal(left: object, right: object) -> bool | None:
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    left, right = made_alike(left, right)
    return isinstance(left, bool) is isinstance(right, bool) and left == right


def ordered(compare: Comparison, left: object, right: object) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return compare(convert(left, 0.5), convert(right, 0.5))
    return compare(*made_alike(left, right))


def both(left: object, right: Callable[[], object]) -> object:
    if left is False:
        return False
    second = right()
    return False if second is False else None if None in (left, second) else True


def inverted(value: object) -> object:
    return None if value is None else not value


def either(left: object, right: Callable[[], object]) -> object:
    return inverted(both(inverted(left), lambda: inverted(right())))


# --- expressions with their meaning ---

NAMES = ("a", "b", "$c_1", "missing")
WORDS = ("", "red", "blue", "true", "it's", "x5")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def constant(text: str, value: object) -> Expression:
    return Expression(text, lambda _: value)


def of_int(value: int) -> Expression:
    return constant(str(value), Int(value) if abs(value) < 2**31 else Long(value))


def of_float(value: float) -> Expression:
    return constant(repr(value), value)


names = st.sampled_from(NAMES)
properties_read = names.map(lambda name: Expression(name, lambda properties: properties.get(name)))
numbers = st.one_of(
    st.integers(-9, 9).map(of_int),
    st.integers(-(2**63) + 1, 2**63 - 1).map(of_int),
    st.floats(-1e6, 1e6).filter(bool).map(of_float),
)
texts = st.sampled_from(WORDS).map(lambda word: constant(quoted(word), word))
booleans = st.sampled_from([constant("TRUE", True), constant("false", False)])

ORDERS: dict[str, Comparison] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def relation(left: Expression, sign: str, right: Expression) -> Expression:
    return Expression(
        f"{left.text} {sign} {right.text}",
        lambda properties: ordered(
            ORDERS[sign], left.meaning(properties), right.meaning(properties)
        ),
    )


def equality(left: Expression, sign: str, right: Expression) -> Expression:
    def meaning(properties: Properties) -> object:
        result = equal(left.meaning(properties), right.meaning(properties))
        return result if sign == "=" else inverted(result)

    return Expression(f"{left.text}{sign}{right.text}", meaning)


def between(value: Expression, word: str, low: Expression, high: Expression) -> Expression:
    def meaning(properties: Properties) -> object:
        seen = value.meaning(properties)
        if word == "BETWEEN":
            return both(
                ordered(operator.ge, seen, low.meaning(properties)),
                lambda: ordered(operator.le, seen, high.meaning(properties)),
            )
        return either(
            ordered(operator.lt, seen, low.meaning(properties)),
            lambda: ordered(operator.gt, seen, high.meaning(properties)),
        )

    return Expression(f"{value.text} {word} {low.text} AND {high.text}", meaning)


def membership(name: str, word: str, choices: list[str]) -> Expression:
    def meaning(properties: Properties) -> object:
        if name not in properties:
            return None
        return (properties[name] in choices) is (word == "IN")

    return Expression(f"{name} {word} ({', '.join(map(quoted, choices))})", meaning)


def search(name: str, word: str, part: str) -> Expression:
    def meaning(properties: Properties) -> object:
        text = properties.get(name)
        if text is None or part == "":
            return False
        found = {
            "CONTAINS": part in text,
            "STARTSWITH": text.startswith(part),
            "ENDSWITH": text.endswith(part),
        }[word.removeprefix("NOT ")]
        return found is not word.startswith("NOT")

    return Expression(f"{name} {word} {quoted(part)}", meaning)


def null_test(operand: Expression, word: str) -> Expression:
    return Expression(
        f"{operand.text} {word}",
        lambda properties: (operand.meaning(properties) is None) is (word == "IS NULL"),
    )


def negation(condition: Expression) -> Expression:
    return Expression(
        f"NOT ({condition.text})", lambda properties: inverted(condition.meaning(properties))
    )


def combination(left: Expression, word: str, right: Expression) -> Expression:
    combine = both if word == "AND" else either
    return Expression(
        f"({left.text}) {word} ({right.text})",
        lambda properties: combine(left.meaning(properties), lambda: right.meaning(properties)),
    )


def in_parentheses(condition: Expression) -> Expression:
    return Expression(f"({condition.text})", condition.meaning)


order_signs = st.sampled_from(sorted(ORDERS))
equal_signs = st.sampled_from(["=", "<>"])
null_words = st.sampled_from(["IS NULL", "IS NOT NULL"])
search_words = st.sampled_from(
    [f"{no}{word}" for no in ("", "NOT ") for word in ("CONTAINS", "STARTSWITH", "ENDSWITH")]
)
simple_conditions = st.one_of(
    st.builds(relation, properties_read, order_signs, properties_read | numbers),
    st.builds(relation, numbers, order_signs, properties_read | numbers),
    st.builds(equality, properties_read, equal_signs, properties_read | numbers | texts | booleans),
    st.builds(equality, numbers | texts, equal_signs, properties_read | numbers | texts | booleans),
    # Apache refuses constant bounds in the wrong order, so one of them is always a property.
    st.builds(
        between,
        properties_read | numbers,
        st.sampled_from(["BETWEEN", "NOT BETWEEN"]),
        properties_read,
        properties_read | numbers,
    ),
    st.builds(
        membership,
        names,
        st.sampled_from(["IN", "NOT IN"]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
    ),
    st.builds(search, names, search_words, st.sampled_from(["", "e", "re", "d", "5"])),
    st.builds(null_test, properties_read | numbers, null_words),
    booleans,
)
conditions = st.recursive(
    simple_conditions,
    lambda inner: st.one_of(
        st.builds(negation, inner),
        st.builds(combination, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds(
            equality, properties_read | inner.map(in_parentheses), equal_signs, properties_read
        ),
        st.builds(equality, properties_read, equal_signs, inner.map(in_parentheses)),
        st.builds(null_test, inner.map(in_parentheses), null_words),
    ),
    max_leaves=8,
)
property_texts = st.one_of(
    st.sampled_from(WORDS),
    st.integers(-9, 9).map(str),
    st.integers(-(2**64), 2**64).map(str),
    # Adding zero makes 0.0 out of -0.0, which Java keeps apart; a table elsewhere tests that.
    st.floats(-1e6, 1e6).map(lambda value: repr(value + 0.0)),
)
property_maps = st.dictionaries(st.sampled_from(NAMES[:-1]), property_texts)


@given(conditions, property_maps)
def test_a_compiled_filter_agrees_with_the_naive_reading(
    condition: Expression, properties: dict[str, str]
) -> None:
    try:
        expected = condition.meaning(properties) is True
    except Failure:
        expected = False
    assert compile_filter(condition.text).matches(properties) is expected


@given(conditions, property_maps, st.sampled_from(["  ", "\n", "/* OR TRUE */", "-- OR TRUE\r"]))
def test_blanks_and_comments_never_change_a_result(
    condition: Expression, properties: dict[str, str], blank: str
) -> None:
    spaced = compile_filter(condition.text.replace(" ", blank))
    assert spaced.matches(properties) is compile_filter(condition.text).matches(properties)


FRAGMENTS = (
    *("a", "b", "1", "1.5", "0", "9" * 20, "'x'", "'", "''", "=", "<>", "<", ">=", "(", ")", ","),
    *("+", "-", "--", "\n", "/*", "*/", "AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "BETWEEN"),
    *("CONTAINS", "ENDSWITH", "LIKE", ".", "E5", "L", "#", "\x00", "\u00e9", "\ud800", " "),
)
hostile_expressions = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(FRAGMENTS), max_size=60).map(" ".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join),
    # One fragment over and over is how stacks overflow.
    st.builds(operator.mul, st.sampled_from([f"{text} " for text in FRAGMENTS]), st.just(3000)),
)


@given(hostile_expressions, st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20)))
def test_any_text_is_a_filter_or_a_protocol_error(
    expression: str, properties: dict[str, str]
) -> None:
    try:
        compiled = compile_filter(expression)
    except ProtocolError:
        return
    assert compiled.matches(properties) in (True, False)


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_no_fragment_repeated_between_operands_overflows_the_stack(fragment: str) -> None:
    for text in (f"a {fragment} " * 1500, f"{fragment} a " * 1500, f"({fragment} a = 1 " * 1000):
        try:
            compiled = compile_filter(text)
        except ProtocolError:
            continue
        assert compiled.matches({"a": "1"}) in (True, False)
