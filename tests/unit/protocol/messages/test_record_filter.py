"""That all values are decided as by closures is tested in tests/property/test_record_filter.py."""

import pytest

from roquet.protocol.messages.record_filter import SLOT_COUNT, Program, RecordFilter, Step
from roquet.protocol.sql_filter import compile_filter
from tests.support.records import PLAIN_DRAFT, changed, record_of

ORDER = b"amount\x0125\x02price\x017.25\x02region\x01eu\x02empty\x01\x02region\x01us"


class NotLeft(Exception):
    """The closures were asked."""


def left(_record: bytes) -> bool:
    raise NotLeft


def matches(expression: str, properties: bytes = ORDER) -> bool:
    compiled = compile_filter(expression)
    assert compiled.program is not None
    return RecordFilter(compiled.program, left)(
        record_of(changed(PLAIN_DRAFT, properties=properties))
    )


@pytest.mark.parametrize(
    ("expression", "is_wanted"),
    [
        ("amount BETWEEN 10 AND 30 AND region IN ('eu', 'us')", True),
        ("amount > 25 OR price <= 7.25", True),
        ("amount = 26", False),
        ("amount <> -25", True),
        ("region = 'eu'", False),
        ("empty IS NULL AND NOT (missing IS NOT NULL)", True),
        ("missing > 5", False),
        ("NOT (missing > 5)", False),
        ("region STARTSWITH 'u' AND region NOT CONTAINS 'e' AND region ENDSWITH 's'", True),
        ("missing NOT CONTAINS 'e'", False),
    ],
)
def test_common_values_are_decided_over_the_bytes(
    expression: str,
    is_wanted: bool,
) -> None:
    assert matches(expression) is is_wanted


@pytest.mark.parametrize("value", [b"2147483648", b"+1", b"many", b"1" * 19, b"\xd9\xa5"])
def test_uncommon_numbers_are_left_to_the_closures(value: bytes) -> None:
    with pytest.raises(NotLeft):
        matches("amount > 5", b"amount\x01" + value)


def test_bytes_that_are_no_record_are_left_to_the_closures() -> None:
    with pytest.raises(NotLeft):
        RecordFilter(compile_filter("TRUE").program, left)(b"no record")


@pytest.mark.parametrize(
    "expression",
    [
        *("a = b", "5 < a", "a = TRUE", "a = '\N{REPLACEMENT CHARACTER}'", "a = '\ud800'"),
        " AND ".join(f"p{number} = 1" for number in range(SLOT_COUNT + 1)),
    ],
)
def test_what_only_closures_can_decide_has_no_program(expression: str) -> None:
    assert compile_filter(expression).program is None


@pytest.mark.parametrize(
    "program",
    [
        Program([], [Step(0)], [0]),
        Program([], [Step(0)], [2]),
        Program([b"a"], [Step(0, slot=1)], [1]),
        Program([b"a"] * (SLOT_COUNT + 1), [Step(0)], [1]),
    ],
)
def test_a_program_that_does_not_fit_is_refused(program: Program) -> None:
    with pytest.raises(ValueError, match=r"slots|fit"):
        RecordFilter(program, left)
