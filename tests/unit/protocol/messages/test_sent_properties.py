import pytest
from hypothesis import given, strategies as st

from roquet.protocol.messages.properties import parse_properties, with_property, without_property
from roquet.protocol.messages.sent_properties import stored_properties

ADDED = b"CLUSTER\x01c"


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("", b"CLUSTER\x01c"),
        ("A\x01b", b"A\x01b\x02CLUSTER\x01c"),
        ("A\x01b\x02", b"A\x01b\x02CLUSTER\x01c"),
        ("WAIT\x01true", b"CLUSTER\x01c"),
        ("A\x01b\x02WAIT\x01true", b"A\x01b\x02CLUSTER\x01c"),
        ("WAIT\x01false\x02A\x01b", b"A\x01b\x02CLUSTER\x01c"),
        ("A\x01b\x02WAIT\x01true\x02C\x01d\x02", b"A\x01b\x02C\x01d\x02CLUSTER\x01c"),
        ("AWAIT\x01b\x02WAITING\x01c", b"AWAIT\x01b\x02WAITING\x01c\x02CLUSTER\x01c"),
        ("A\x01DELAY\x01TRAN_MSG\x01", b"A\x01DELAY\x01TRAN_MSG\x01\x02CLUSTER\x01c"),
        ("ä\x01€", "ä\x01€\x02CLUSTER\x01c".encode()),
    ],
)
def test_waiting_goes_and_a_property_comes(sent: str, stored: bytes) -> None:
    assert stored_properties(sent, ADDED) == stored


@pytest.mark.parametrize(
    "name", ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TRAN_MSG"]
)
@pytest.mark.parametrize("before", ["", "A\x01b\x02", "WAIT\x01true\x02"])
def test_a_send_that_asks_for_more_than_storing_is_not_fast(name: str, before: str) -> None:
    assert stored_properties(f"{before}{name}\x011\x02C\x01d", ADDED) is None


@given(
    st.lists(
        st.sampled_from(("A\x01b", "\x02", "WAIT\x01", "WAIT\x01true", "\x01", "W", "DEL", "é")),
        max_size=8,
    ).map("".join)
)
@pytest.mark.slow
def test_it_says_what_the_general_functions_say(sent: str) -> None:
    expected = with_property(without_property(sent, "WAIT"), "CLUSTER", "c")
    stored = stored_properties(sent, ADDED)
    assert stored is not None
    assert parse_properties(stored.decode()) == parse_properties(expected)
