"""Property texts: what is read, what is refused, and one property at a time."""

import pytest

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.properties import (
    is_property,
    parse_properties,
    properties_text,
    property_of,
    property_of_bytes,
    with_property,
    without_property,
    without_property_bytes,
)


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("\x02", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("a\x01b\x02\x02c\x01d\x02", {"a": "b", "c": "d"}),
        # No name, no value, neither.
        ("\x01b", {}),
        ("a\x01", {}),
        ("\x01", {}),
        ("a", {}),
        ("abc\x02d\x01e", {"d": "e"}),
        # The first 0x01 ends the name, the rest is value.
        ("a\x01b\x01c", {"a": "b\x01c"}),
        ("a\x01\x01", {"a": "\x01"}),
        # The last of equal names counts, unless it is empty.
        ("a\x011\x02a\x012", {"a": "2"}),
        ("a\x011\x02a\x01", {"a": "1"}),
        ("naïve\x01schön 😀", {"naïve": "schön 😀"}),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_map_is_written_without_a_separator_at_the_end() -> None:
    assert properties_text({"TAGS": "TagA", "KEYS": "k1 k2"}) == "TAGS\x01TagA\x02KEYS\x01k1 k2"
    assert properties_text({}) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "v"), ("n", ""), ("n\x01", "v"), ("n\x02", "v"), ("n", "v\x02DELAY\x0118")],
)
def test_a_property_that_would_read_differently_is_not_written(name: str, value: str) -> None:
    assert not is_property(name, value)
    with pytest.raises(BadMessage, match="name and value have to be there, without the characters"):
        properties_text({name: value})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("TAGS\x01a", "a"),
        ("TAGS\x01a\x02", "a"),
        ("x\x01y\x02TAGS\x01a\x02z\x01", "a"),
        ("XTAGS\x01a", None),
        ("TAGSX\x01a", None),
        ("x\x01TAGS\x01a", None),  # a value that looks like a property
        ("TAGS\x011\x02TAGS\x012", "2"),
        ("TAGS\x011\x02TAGS\x01\x02TAGS\x01", "1"),
        ("TAGS\x01", None),
    ],
)
def test_one_property_is_found_as_parsing_finds_it(text: str, value: str | None) -> None:
    assert parse_properties(text).get("TAGS") == value
    assert property_of(text, "TAGS") == value
    assert property_of_bytes(text.encode(), b"TAGS") == (value.encode() if value else None)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("", ""),
        ("a\x01b", "a\x01b"),
        ("WAIT\x01true", ""),
        ("WAIT\x01true\x02", ""),
        ("WAIT\x01true\x02a\x01b", "a\x01b"),
        ("a\x01b\x02WAIT\x01true", "a\x01b"),
        ("a\x01b\x02WAIT\x01true\x02", "a\x01b\x02"),
        ("a\x01b\x02WAIT\x01true\x02c\x01d\x02", "a\x01b\x02c\x01d\x02"),
        ("WAIT\x01true\x02a\x01b\x02WAIT\x01false", "a\x01b"),
        ("AWAIT\x01true", "AWAIT\x01true"),
        ("a\x01WAIT\x01true", "a\x01WAIT\x01true"),
    ],
)
def test_one_property_is_dropped_and_all_else_kept(text: str, rest: str) -> None:
    assert without_property(text, "WAIT") == rest
    assert without_property_bytes(text.encode(), b"WAIT") == rest.encode()


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("", "CLUSTER\x01c"),
        ("a\x01b", "a\x01b\x02CLUSTER\x01c"),
        ("a\x01b\x02", "a\x01b\x02CLUSTER\x01c"),
        ("CLUSTER\x01x", "CLUSTER\x01x\x02CLUSTER\x01c"),
    ],
)
def test_one_property_is_added_and_counts(text: str, longer: str) -> None:
    assert with_property(text, "CLUSTER", "c") == longer
    assert property_of(longer, "CLUSTER") == "c"
