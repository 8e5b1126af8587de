"""Addresses in all forms of Apache's file."""

import pytest

from roquet.access.addresses import read_addresses
from roquet.access.errors import BadRules


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
        (" 10.1.2.3 , 10.1.2.9 ", "10.1.2.9", "10.1.2.4"),
        ("10.1.2.{3,9}", "10.1.2.9", "10.1.2.4"),
        ("10.1.*.*", "10.1.255.0", "10.2.0.0"),
        ("10.1.*", "10.1.7.9", "10.2.7.9"),
        ("10.1.2.3-20", "10.1.2.20", "10.1.2.21"),
        ("10.1.2-3.*", "10.1.3.9", "10.1.4.9"),
        ("*", "203.0.113.7", "no address"),
        ("*.*.*.*", "203.0.113.7", "no address"),
        ("*", "2001:db8::1", ""),
        ("fe80::7", "fe80:0:0:0:0:0:0:7", "fe80::8"),
        ("fe80::{7,a}", "fe80::a", "fe80::8"),
        ("1050::5:600:300c:*", "1050::5:600:300c:326b", "1050::5:600:300d:1"),
        ("1050::5:600:300c:1-fff", "1050::5:600:300c:fff", "1050::5:600:300c:1000"),
        ("fe80::7", "fe80::7%eth0", "fe80::8%eth0"),
        ("10.1.2.3", "::ffff:10.1.2.3", "::ffff:10.1.2.4"),
    ],
)
def test_an_address_is_inside_or_outside(text: str, inside: str, outside: str) -> None:
    addresses = read_addresses(text)
    assert addresses.include(inside)
    assert not addresses.include(outside)


@pytest.mark.parametrize("text", ["", "   "])
def test_a_blank_names_no_account(text: str) -> None:
    assert not read_addresses(text).include("127.0.0.1")
    assert read_addresses(text).patterns == ()


@pytest.mark.parametrize(
    "text",
    [
        "localhost",
        "10.1.2",
        "10.1.2.3.4",
        "10.1.2.256",
        "10.1.2.-3",
        "10.1.2.9-3",
        "10.1.2.+3",
        "10.1.2.{}",
        "{10.1.2.3}",
        "10.1.2.3}",
        "fe80::1::2",
        "1:2:3:4:5:6:7:8:9",
        "fe80::12345",
        "10.1.2.3;10.1.2.4",
        "1" * 2000,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadRules, match="address"):
        read_addresses(text)
