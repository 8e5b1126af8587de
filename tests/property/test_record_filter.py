"""A filter over the bytes of a record and the closures of the same expression agree.

Properties are any bytes: no UTF-8, names without values and twice, numbers of every form.
"""

from hypothesis import given, strategies as st

from roquet.protocol.messages.properties import parse_properties
from roquet.protocol.messages.record_filter import RecordFilter
from roquet.protocol.sql_filter import compile_filter
from tests.support.records import PLAIN_DRAFT, changed, record_of

NAMES = ("a", "b", "$c_1", "TAGS")
WORDS = ("", "red", "blue", "re", "d", "5", "true", "it''s", "\u00e9", "\ufffd", "a\x01b")
NUMBERS = ("0", "5", "-5", "7.5", "-7.5", "2147483647", "-2147483648", "9223372036854775807", "1e3")
FRAGMENTS = (
    *(b"0", b"5", b"-5", b"+5", b"-", b"7.5", b"7.50", b".5", b"5.", b"-0", b"007", b"1e3", b" 5"),
    *(b"2147483647", b"2147483648", b"-2147483649", b"999999999999999999", b"9" * 19, b"9" * 40),
    *(b"0.1000000000000000055", b"123456789012345", b"1234567.89012345", b"NaN", b"5f", b"0x1p3"),
    *(b"red", b"blue", b"true", b"it's", b"", b"\xc3\xa9", b"\xc3", b"\xff", b"\xd9\xa5", b"\x01"),
)


def quoted(words: list[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


names = st.sampled_from(NAMES)
words = st.sampled_from(WORDS)
numbers = st.sampled_from(NUMBERS)
maybe_not = st.sampled_from(["", "NOT "])
conditions = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, names, st.sampled_from(["<", "<=", ">", ">="]), numbers),
        st.builds("{} {} {}".format, names, st.sampled_from(["=", "<>"]), numbers),
        st.builds("{} {} '{}'".format, names, st.sampled_from(["=", "<>"]), words),
        st.builds("{} {}IN ({})".format, names, maybe_not, st.lists(words, min_size=1).map(quoted)),
        st.builds(
            "{} {}{} '{}'".format,
            names,
            maybe_not,
            st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]),
            words,
        ),
        st.builds("{} IS {}NULL".format, names, maybe_not),
        st.builds("{} BETWEEN -9 AND {}".format, names, st.sampled_from(["5", "7.5", "b"])),
        st.sampled_from(
            ["TRUE", "FALSE", "NULL", "a", "a = b", "5 < a", "a = TRUE", "- a IS NULL"]
        ),
    ),
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=8,
)
values = st.sampled_from(FRAGMENTS) | st.binary(max_size=20)
pairs = st.builds(
    b"%b\x01%b".__mod__, st.tuples(st.sampled_from([*NAMES, "x"]).map(str.encode), values)
)
property_bytes = st.lists(pairs | values, max_size=8).map(b"\x02".join)


@given(conditions, property_bytes, st.booleans())
def test_both_decide_alike(condition: str, properties: bytes, has_checksum: bool) -> None:
    compiled = compile_filter(condition)
    expected = compiled.matches(parse_properties(properties.decode(errors="replace")))
    record = record_of(changed(PLAIN_DRAFT, properties=properties, has_checksum=has_checksum))
    assert RecordFilter(compiled.program, lambda _: expected)(record) is expected


@given(conditions.filter(lambda text: compile_filter(text).program is None), property_bytes)
def test_without_a_program_the_closures_decide(condition: str, properties: bytes) -> None:
    record = record_of(changed(PLAIN_DRAFT, properties=properties))
    assert RecordFilter(compile_filter(condition).program, lambda each: each == record)(record)
