"""Hosts in their packed form."""

import pytest

from roquet.protocol.errors import BadMessage
from roquet.protocol.host import Address, pack_host, unpack_host


@pytest.mark.parametrize(
    ("ip", "port", "packed", "shown"),
    [
        ("127.0.0.1", 10911, "7f00000100002a9f", "127.0.0.1:10911"),
        ("0.0.0.0", 0, "0000000000000000", "0.0.0.0:0"),  # noqa: S104
        ("::1", 10911, "00" * 15 + "0100002a9f", "[::1]:10911"),
        ("fd00::2", 65535, "fd00" + "00" * 13 + "020000ffff", "[fd00::2]:65535"),
    ],
)
def test_a_host_is_the_ip_and_the_port(ip: str, port: int, packed: str, shown: str) -> None:
    assert pack_host(ip, port).hex() == packed
    address = unpack_host(bytes.fromhex(packed))
    assert address == Address(ip, port)
    assert str(address) == shown


def test_the_interface_of_a_local_address_is_left_out() -> None:
    assert pack_host("fe80::1%eth0", 1) == pack_host("fe80::1", 1)


@pytest.mark.parametrize(
    ("ip", "port"), [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", 2**31)]
)
def test_what_is_no_address_is_not_packed(ip: str, port: int) -> None:
    with pytest.raises(BadMessage):
        pack_host(ip, port)


@pytest.mark.parametrize("size", [0, 3, 4, 7, 9, 16, 19, 21])
def test_a_host_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(BadMessage):
        unpack_host(bytes(size))
