"""SQL92 filters, rule by rule.

Every verdict is that of Apache's own filter, 4.9.7 and 5.5.0 alike unless a test says otherwise.
"""

import time
from collections.abc import Callable

import pytest

from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.sql_filter import EXPRESSION_SIZE_MAX, compile_filter
from roquet.protocol.sql_filter.compiler import DEPTH_MAX, NODE_COUNT_MAX
from roquet.protocol.sql_filter.parser import NESTING_MAX, BadSql


def matches(expression: str, **properties: str) -> bool:
    return compile_filter(expression).matches(properties)


def verdict(expression: str, **properties: str) -> bool | None:
    """The three-valued result; a failed conversion also comes out as None here."""
    if matches(expression, **properties):
        return True
    return False if matches(f"NOT ({expression})", **properties) else None


def test_the_expression_is_kept_as_it_was_written() -> None:
    assert compile_filter(" a = 1 ").expression == " a = 1 "


# --- comparing a property, which is a text, with a literal ---


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("a = 5", "5", True),
        ("a = 5", "6", False),
        ("a = 5", "+5", True),
        ("a = -5", "-5", True),
        ("a = 5", "0000005", True),
        ("a = 5", "\uff15", True),  # a full-width digit
        ("a <> 5", "6", True),
        ("a <> 5", "5", False),
        ("a > 3", "4", True),
        ("a > 3", "3", False),
        ("a >= 3", "3", True),
        ("a >= 3", "2", False),
        ("a < 3", "2", True),
        ("a < 3", "3", False),
        ("a < 3", "-2147483648", True),
        ("a <= 3", "3", True),
        ("a <= 3", "4", False),
        ("3 < a", "4", True),
        ("3 < a", "3", False),
        ("5 = a", "5", True),
        ("a > 3.5", "4", True),
        ("a > 3.5", "3.25", False),
        ("a = 5.0", "5", True),
        ("a = .5", "0.5", True),
        ("a = 5.", "5", True),
        ("a = 5e1", "50", True),
        ("a = 5.5E+1", "55", True),
        ("a = 1.5E-1", "0.15", True),
        ("a < 5000000000", "4999999999", True),
        ("a = 9223372036854775807", "9223372036854775807", True),
        ("a = 'red'", "red", True),
        ("a = 'red'", "Red", False),
        ("a = ''", "", True),
        ("a = 'it''s'", "it's", True),
        ("a = ''''''", "''", True),
        ("a = '5'", "5.0", False),
        ("a = 'x\ny'", "x\ny", True),
        ("a = TRUE", "true", True),
        ("a = TRUE", "tRUE", True),
        ("a = TRUE", "yes", False),
        ("a = false", "yes", True),
    ],
)
def test_a_property_is_read_as_the_type_of_the_literal(
    expression: str, text: str, expected: bool
) -> None:
    assert verdict(expression, a=text) is expected


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a < 3", "1.5"),
        ("a = 5", "red"),
        ("a <> 5", "red"),
        ("a = 5", ""),
        ("a = 5", " 5"),
        ("a = 5", "5 "),
        ("a = 10", "1_0"),
        ("a = 5", "5L"),
        ("a > 3", "2147483648"),
        ("a > -3", "-2147483649"),
        ("a < 5000000000", "9223372036854775808"),
        ("a < 5000000000", "1.5"),
        ("a > 3", "1" * 5000),
        ("a > 1.5", "red"),
        ("a > 1.5", "nan"),
        ("a > 1.5", "inf"),
        ("a > 1.5", "1_0"),
        ("a > 1.5", "\uff15"),
        ("a > 1.5", "0x10"),
        ("a > 1.5", "\xa05"),
        ("TRUE = a", "true"),
        ("(b = '1') = a", "true"),
    ],
)
def test_a_text_that_cannot_be_read_so_fails_the_whole_expression(
    expression: str, text: str
) -> None:
    assert not matches(expression, a=text, b="1")
    assert not matches(f"NOT ({expression})", a=text, b="1")
    assert not matches(f"{expression} OR b = '1'", a=text, b="1")


@pytest.mark.parametrize(
    "text",
    [
        *("5f", "5D", " 5\t", "\x005", "0x5p0", "0X.Ap3", "0x5.p0d", "+5e0"),
        *("Infinity", "1e999", "0x1p99999", "NaN", "-NaN"),
    ],
)
def test_a_double_is_read_in_every_form_of_java(text: str) -> None:
    assert matches("a > 4.5", a=text)


def test_negative_hexadecimal_overflow_is_minus_infinity() -> None:
    assert matches("a < -1.5E300", a="-0x1p99999")


def test_a_long_literal_is_made_by_its_size_not_by_its_suffix() -> None:
    assert not matches("a > 5L", a="2147483648")
    assert matches("a > 2147483648", a="2147483649")
    # Apache negates the long 2147483648, so this one reads 64 bits although it fits 32.
    assert matches("a > -2147483648", a="2147483648")


@pytest.mark.parametrize(
    ("a", "b", "is_less"),
    [
        ("9", "10", True),
        ("1.5", "1.25", False),
        ("-0.0", "0.0", True),
        ("0.0", "-0.0", False),
        ("5", "NaN", True),
        ("Infinity", "NaN", True),
        ("NaN", "NaN", False),
    ],
)
def test_two_properties_are_ordered_as_java_orders_doubles(a: str, b: str, is_less: bool) -> None:
    assert verdict("a < b", a=a, b=b) is is_less
    assert verdict("a >= b", a=a, b=b) is not is_less


def test_two_properties_that_are_no_numbers_have_no_order() -> None:
    assert not matches("a < b OR TRUE", a="x", b="y")


def test_two_properties_are_equal_as_texts() -> None:
    assert verdict("a = b", a="x", b="x") is True
    assert verdict("a = b", a="5", b="5.0") is False


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 < 2", True),
        ("2 <= 1.5", False),
        ("9007199254740993 = 9007199254740992.0", True),  # compared as doubles
        ("2147483648 > 5", True),
        ("'x' = 'x'", True),
        ("'true' = TRUE", True),
        ("5 = TRUE", False),
        ("TRUE = FALSE", False),
        ("TRUE = -5", False),
        ("(a = 1) = 5", False),
    ],
)
def test_constants_can_be_compared_with_each_other(expression: str, expected: bool) -> None:
    assert verdict(expression, a="1") is expected


# --- null ---


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("missing = 1", None),
        ("missing <> 1", None),
        ("missing > 1", None),
        ("missing = 'x'", None),
        ("missing IN ('x')", None),
        ("missing NOT IN ('x')", None),
        ("missing BETWEEN 1 AND 2", None),
        ("missing NOT BETWEEN 1 AND 2", None),
        ("missing < gone", None),
        ("text < missing", None),  # "x" is not even read as a number
        ("missing", None),
        ("text", False),
        ("yes", False),
        ("-one > 1", None),
        ("-text = 1", None),
        ("-text = -missing", True),
        # Lopsided: a null on the right is a plain "no".
        ("1 = missing", False),
        ("text = missing", False),
        ("missing = gone", True),
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("text IS NULL", False),
        ("text IS NOT NULL", True),
        ("5 IS NULL", False),
        ("NULL IS NULL", True),
        ("(missing = 1) IS NULL", True),
        ("-text IS NULL", True),
        ("NULL", None),
        ("TRUE", True),
        ("FALSE", False),
    ],
)
def test_what_is_missing_is_unknown(expression: str, expected: bool | None) -> None:
    assert verdict(expression, text="x", one="1", yes="true") is expected


_TRUTHS = {True: "TRUE", False: "FALSE", None: "NULL"}


@pytest.mark.parametrize("left", _TRUTHS)
@pytest.mark.parametrize("right", _TRUTHS)
def test_logic_has_three_values(left: bool | None, right: bool | None) -> None:
    values = {left, right}
    expected_and = False if False in values else None if None in values else True
    expected_or = True if True in values else None if None in values else False
    assert verdict(f"{_TRUTHS[left]} AND {_TRUTHS[right]}") is expected_and
    assert verdict(f"{_TRUTHS[left]} OR {_TRUTHS[right]}") is expected_or


@pytest.mark.parametrize(
    ("value", "expected"), [("TRUE", False), ("FALSE", True), ("NULL", None), ("text", True)]
)
def test_not_keeps_null(value: str, expected: bool | None) -> None:
    assert verdict(f"NOT {value}", text="x") is expected


def test_a_decided_term_spares_the_failing_one_behind_it() -> None:
    assert matches("b = '1' OR a = 5", a="red", b="1")
    assert matches("NOT (b = '2' AND a = 5)", a="red", b="1")


def test_a_failure_behind_a_minus_still_fails_the_expression() -> None:
    assert matches("-(a = 5) > 1 OR TRUE", a="6")
    assert not matches("-(a = 5) > 1 OR TRUE", a="red")


# --- BETWEEN and IN; CONTAINS and its like, which 4.9.7 does not know ---


@pytest.mark.parametrize(
    ("text", "expected"), [("1", False), ("2", True), ("5", True), ("10", True), ("11", False)]
)
def test_between_includes_both_bounds(text: str, expected: bool) -> None:
    assert verdict("a BETWEEN 2 AND 10", a=text) is expected
    assert verdict("a NOT BETWEEN 2 AND 10", a=text) is not expected


def test_between_binds_its_own_and() -> None:
    assert matches("a BETWEEN 1 AND 3 AND b = 'x'", a="2", b="x")
    assert not matches("a BETWEEN 1 AND 3 AND b = 'x'", a="2", b="y")


def test_bounds_may_be_properties_and_one_may_decide_alone() -> None:
    assert matches("a BETWEEN low AND high", a="3.14", low="3", high="4")
    assert verdict("a BETWEEN low AND high", a="2", low="3") is False
    assert verdict("a BETWEEN low AND high", a="4", low="3") is None


def test_reversed_bounds_are_let_pass_behind_not_or_a_sign() -> None:
    assert matches("a NOT BETWEEN 10 AND 2", a="5")
    assert verdict("a BETWEEN -2 AND -10", a="5") is False


@pytest.mark.parametrize("name", ["a", "(a)", "+a"])
def test_in_compares_texts(name: str) -> None:
    assert verdict(f"{name} IN ('3', 'it''s')", a="3") is True
    assert verdict(f"{name} IN ('3', 'it''s')", a="it's") is True
    assert verdict(f"{name} IN ('3', 'it''s')", a="3.0") is False
    assert verdict(f"{name} NOT IN ('3')", a="4") is True
    assert verdict(f"{name} NOT IN ('3')", a="3") is False


@pytest.mark.parametrize(
    ("operator", "part", "expected"),
    [
        ("CONTAINS", "d b", True),
        ("CONTAINS", "x", False),
        ("STARTSWITH", "red", True),
        ("STARTSWITH", "blue", False),
        ("ENDSWITH", "blue", True),
        ("ENDSWITH", "red", False),
        ("contains", "RED", False),
    ],
)
def test_a_text_is_searched(operator: str, part: str, expected: bool) -> None:
    assert verdict(f"a {operator} '{part}'", a="red blue") is expected
    assert verdict(f"a NOT {operator} '{part}'", a="red blue") is not expected


@pytest.mark.parametrize("operator", ["CONTAINS", "STARTSWITH", "ENDSWITH"])
@pytest.mark.parametrize("negation", ["", "NOT"])
@pytest.mark.parametrize(
    ("operand", "part"), [("a", ""), ("missing", "x"), ("5", "5"), ("-a", "x")]
)
def test_a_search_for_nothing_or_in_no_text_is_false_with_and_without_not(
    operator: str, negation: str, operand: str, part: str
) -> None:
    assert verdict(f"{operand} {negation} {operator} '{part}'", a="red") is False


def test_the_search_words_stay_usable_as_property_names() -> None:
    """4.9.7 does not know them, 5.5.0 reserves them; both kinds of filters keep working here."""
    assert matches("contains = 'x' AND StartsWith ENDSWITH 'y'", contains="x", StartsWith="xy")


# --- grammar ---


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("TRUE OR FALSE AND FALSE", True),
        ("(TRUE OR FALSE) AND FALSE", False),
        ("NOT FALSE OR TRUE", True),
        ("NOT (FALSE OR TRUE)", False),
        ("NOT a = 1", False),  # (NOT a) = 1: NOT binds tighter than =
        ("a = 1 = TRUE", True),
        ("a = 1 = FALSE", False),
        ("NOT NOT TRUE", True),
        ("- -1 < 2", True),
        ("+ + 1 < 2", True),
        ("-(1) < 0", True),
        ("a = (1)", True),
    ],
)
def test_operators_bind_as_in_apaches_grammar(expression: str, expected: bool) -> None:
    assert matches(expression, a="1") is expected


@pytest.mark.parametrize(
    "expression",
    [
        "a=1and b='x'",
        " \t\n\r\fa = 1 And b = 'x'",
        "-- all of\na = 1 -- and\r\nAND b = 'x'",
        "/* all of */a/**/=/***/1/* * / */AND/*\n*/b='x'",
        "a Is nOT nuLL AND b iN ('x') aND a bETWEEN 1 and 1",
    ],
)
def test_blanks_comments_and_the_case_of_keywords_mean_nothing(expression: str) -> None:
    assert matches(expression, a="1", b="x")


def test_property_names_keep_their_case_and_take_dollars_and_underscores() -> None:
    assert compile_filter("$a_1 = 1 AND _B = 2").matches({"$a_1": "1", "_B": "2"})
    assert not matches("A = 1", a="1")


@pytest.mark.parametrize(
    ("expression", "same_as"),
    [
        ("a = 1 b", "a = 1"),
        ("a = 1 b #", "a = 1"),
        ("a = 1 'OR' TRUE", "a = 1"),
        ("a = 1)", "a = 1"),
        ("a = 1 -- b = 'it", "a = 1"),
        ("a = 1 + 1", "a = 1"),
        ("a = 007", "a = 0"),
        ("a = 0L AND b = 'x'", "a = 0"),
        ("a = 1.5f", "a = 1.5"),
        ("a = -- 1", "a = 1"),  # without its line end this is no comment but two signs
    ],
)
def test_what_follows_a_complete_expression_is_ignored(expression: str, same_as: str) -> None:
    for text in ("0", "1", "1.5", "2"):
        assert matches(expression, a=text) is matches(same_as, a=text)


def test_like_is_accepted_and_matches_nothing() -> None:
    assert not matches("a LIKE 'r%'", a="red")
    assert not matches("a LIKE 'red' OR a = 'red'", a="red")


@pytest.mark.parametrize(
    ("expression", "position"),
    [
        ("", 0),
        ("  ", 2),
        ("a >", 3),
        ("a > ", 4),
        ("a =", 3),
        ("a = = 1", 4),
        ("= 1", 0),
        ("(a = 1", 6),
        ("()", 1),
        ("a AND", 5),
        ("a and between 2 and 10", 6),
        ("a BETWEEN 1", 11),
        ("a BETWEEN 1 OR 2", 12),
        ("a IN 'x'", 5),
        ("a IN ()", 6),
        ("a IN (1)", 6),
        ("a IN ('x' 'y')", 10),
        ("a IN ('x',", 10),
        ("a NOT", 5),
        ("a NOT b", 6),
        ("a IS", 4),
        ("a IS 1", 5),
        ("a IS NOT 1", 9),
        ("a CONTAINS b", 11),
        ("a NOT LIKE 'x'", 6),
        ("(a LIKE 'x')", 3),
        ("a = 1 #", 6),
        ("a != 1", 2),
        ('a = "x"', 4),
        ("a = 'x", 4),
        ("a = 'it''s", 8),
        ("a = 1 /* b", 6),
        ("a\x0b= 1", 1),
        ("\u00e4 = 1", 0),
        ("\u017f = 1", 0),  # lower-cases to an ASCII letter
    ],
)
def test_what_is_no_expression_is_refused_where_it_breaks(expression: str, position: int) -> None:
    with pytest.raises(BadSql) as caught:
        compile_filter(expression)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "expression",
    [
        "n > 'x'",
        "'x' > n",
        "n >= TRUE",
        "n < NULL",
        "n < (m = 1)",
        "1 < n < 3",
        "n = NULL",
        "NULL = n",
        "n <> NULL",
        "TRUE = 5",
        "FALSE <> 'x'",
        "'x' IN ('x')",
        "5 IN ('5')",
        "-n IN ('5')",
        "(n = 1) IN ('x')",
        "n BETWEEN 10 AND 2",
        "n BETWEEN 2.5 AND 2",
        "n BETWEEN NULL AND 2",
        "n BETWEEN m AND NULL",
        "n BETWEEN 'a' AND 'b'",
        "n NOT BETWEEN 'a' AND 5",
        "TRUE BETWEEN 1 AND 2",
        "5",
        "'x'",
        "-n",
        "-5",
        "NOT 5",
        "NOT -n",
        "n = 1 AND 5",
        "'x' OR n = 1",
        "n > 9223372036854775808",
        "n > -9223372036854775808",
        "n > 0.0",
        "n > 1e999",
        "n > 1e-999",
        "n > " + "9" * 5000,
    ],
)
def test_what_makes_no_sense_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        compile_filter(expression)


def test_an_error_says_where_and_what() -> None:
    with pytest.raises(BadExpression, match=r"^at character 2: > compares numbers only$"):
        compile_filter("n > 'x'")


def test_an_error_never_repeats_a_long_text() -> None:
    with pytest.raises(BadExpression) as caught:
        compile_filter("n IN '" + "x" * 5000 + "'")
    assert len(str(caught.value)) < 100


# --- limits ---


def test_an_expression_may_be_as_long_as_the_limit_and_no_longer() -> None:
    expression = "a = 1".ljust(EXPRESSION_SIZE_MAX)
    assert matches(expression, a="1")
    with pytest.raises(TooLarge):
        compile_filter(expression + " ")


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "(" * depth + "a = 1" + ")" * depth,
        lambda depth: "NOT " * depth + "FALSE",
        lambda depth: "- " * depth + "1 < 2",
        lambda depth: "+" * depth + "1 < 2",
        lambda depth: "NOT (" * depth + "FALSE" + ")" * depth,
        lambda depth: "a = 1" + " = TRUE" * depth,
        lambda depth: "a" + " IS NULL" * depth,
    ],
)
def test_nesting_is_bounded_far_below_the_stack(nested: Callable[[int], str]) -> None:
    assert compile_filter(nested(NESTING_MAX // 2 - 1)).matches({"a": "1"}) in (True, False)
    for depth in (max(NESTING_MAX, DEPTH_MAX) + 1, 1000):
        with pytest.raises(TooLarge):
            compile_filter(nested(depth))


def test_a_long_list_of_alternatives_is_one_level_deep() -> None:
    alternatives = " OR ".join(f"a={number}" for number in range(300))
    assert matches(alternatives, a="299")
    with pytest.raises(TooLarge):
        compile_filter(" OR ".join(["a=1"] * NODE_COUNT_MAX))


def test_nested_between_cannot_double_the_work_at_every_level() -> None:
    value = "a"
    for _ in range(NESTING_MAX // 2 - 2):
        value = f"-({value} BETWEEN 1 AND 2)"
    with pytest.raises(TooLarge):
        compile_filter(f"{value} IS NULL")


@pytest.mark.parametrize(
    "text", ["1" * 32_000 + "x", "1" * 16_000 + "." + "1" * 16_000 + "e", " " * 32_000 + "x"]
)
def test_a_hostile_property_costs_linear_time(text: str) -> None:
    started = time.process_time()
    assert not matches("a > 1.5 OR a > 1", a=text)
    # Quadratic backtracking over this text would take many seconds.
    assert time.process_time() - started < 3.0
