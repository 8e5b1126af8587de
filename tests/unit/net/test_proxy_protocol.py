"""Headers of the PROXY protocol, whole and in pieces."""

import struct

import pytest

from roquet.net.errors import BadProxyHeader
from roquet.net.proxy_protocol import ProxyHeader
from roquet.protocol.host import Address

START = b"\r\n\r\n\x00\r\nQUIT\n"
IPV4 = b"\xc0\x00\x02\x07\x0a\x00\x00\x01" + struct.pack(">HH", 50000, 8081)
IPV6 = bytes(15) + b"\x01" + bytes(16) + struct.pack(">HH", 50000, 8081)
CLIENT = Address("192.0.2.7", 50000)


def binary(command: int, family: int, rest: bytes) -> bytes:
    return START + struct.pack(">BBH", command, family, len(rest)) + rest


HEADERS = [
    (b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 8081\r\n", CLIENT),
    (b"PROXY TCP6 ::1 ::2 50000 8081\r\n", Address("::1", 50000)),
    (b"PROXY UNKNOWN\r\n", None),
    (binary(0x21, 0x11, IPV4), CLIENT),
    (binary(0x21, 0x11, IPV4 + b"more"), CLIENT),
    (binary(0x21, 0x21, IPV6), Address("::1", 50000)),
    (binary(0x20, 0x00, b""), None),
    (binary(0x21, 0x31, b"a path"), None),
    (b"", None),
]


@pytest.mark.parametrize(("header", "source"), HEADERS)
@pytest.mark.parametrize("follows", [b"PRI * HTTP/2.0", b"\x16\x03\x01"])
@pytest.mark.parametrize("step", [1, 1000])
def test_a_header_is_cut_off(
    header: bytes, source: Address | None, follows: bytes, step: int
) -> None:
    proxy = ProxyHeader()
    data = header + follows
    taken = b"".join(proxy.take(data[begin : begin + step]) for begin in range(0, len(data), step))
    assert (taken, proxy.source) == (follows, source)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 192.0.2.7\r\n",
        b"PROXY UDP4 192.0.2.7 10.0.0.1 50000 8081\r\n",
        b"PROXY TCP4 nowhere 10.0.0.1 50000 8081\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 port 8081\r\n",
        b"PROXY TCP4 " + bytes(100),
        binary(0x31, 0x11, IPV4),
        binary(0x21, 0x11, IPV4[:8]),
        START + b"\x21\x11\xff\xff",
    ],
)
def test_a_broken_header_is_refused(header: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        ProxyHeader().take(header)
