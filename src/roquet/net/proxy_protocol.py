"""The PROXY protocol: what a load balancer sends first, about the client whose bytes follow.

    version 1    PROXY TCP4 192.0.2.7 10.0.0.1 50000 8081 CR LF
    version 2    CR LF CR LF NUL CR LF QUIT LF
                 0x21 (0x20: of the balancer itself), 0x11 (TCP over IPv4) or 0x21 (IPv6),
                 size in two bytes, source and destination address, two ports of two bytes, anything

Any peer can send it. So it decides where a message was born and which address lists show; rights
and limits go by the address of the connection.
"""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, final

from roquet.net.errors import BadProxyHeader
from roquet.protocol.host import Address

_TEXT_START: Final = b"PROXY "
_TEXT_SIZE_MAX: Final = 107
_TEXT_END: Final = b"\r\n"
# PROXY, protocol, source and destination, two ports.
_WORD_COUNT: Final = 6
_START: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_HEAD: Final = struct.Struct(">12sBBH")
_SIZE_MAX: Final = 4096
_LOCAL: Final = 0x20
_FORWARDED: Final = 0x21
_ADDRESSES: Final = {
    0x11: (struct.Struct(">4s4sHH"), IPv4Address),
    0x21: (struct.Struct(">16s16sHH"), IPv6Address),
}


@final
class ProxyHeader:
    """Of one connection, however its bytes arrive. `source` is the client, if that is named."""

    __slots__ = ("_data", "_is_over", "source")

    def __init__(self) -> None:
        self._data = b""
        self._is_over = False
        self.source: Address | None = None

    def take(self, data: bytes) -> bytes:
        """What follows the header; nothing until it is complete. Raises BadProxyHeader."""
        if self._is_over:
            return data
        self._data += data
        size = self._size()
        if size is None or len(self._data) < size:
            return b""
        self._is_over = True
        data, self._data = self._data, b""
        if size:
            self.source = _source(data[:size])
        return data[size:]

    def _size(self) -> int | None:
        """None until it is known."""
        data = self._data
        for start in (_TEXT_START, _START):
            if start.startswith(data) and data != start:
                return None
        if data.startswith(_TEXT_START):
            end = data.find(_TEXT_END, 0, _TEXT_SIZE_MAX)
            if end < 0 and len(data) >= _TEXT_SIZE_MAX:
                raise BadProxyHeader(f"its line is longer than {_TEXT_SIZE_MAX} bytes")
            return None if end < 0 else end + len(_TEXT_END)
        if not data.startswith(_START):
            return 0
        if len(data) < _HEAD.size:
            return None
        rest_size: int = _HEAD.unpack_from(data)[3]
        if rest_size > _SIZE_MAX:
            raise BadProxyHeader(f"it is longer than {_SIZE_MAX} bytes")
        return _HEAD.size + rest_size


def _source(header: bytes) -> Address | None:
    return _source_of_text(header) if header.startswith(_TEXT_START) else _source_of_bytes(header)


def _source_of_text(header: bytes) -> Address | None:
    words = header.decode("latin-1").split()
    if words[1:2] == ["UNKNOWN"]:
        return None
    try:
        if len(words) != _WORD_COUNT or words[1] not in ("TCP4", "TCP6"):
            raise ValueError  # noqa: TRY301
        return Address(str(ip_address(words[2])), int(words[4]))
    except ValueError:
        raise BadProxyHeader(f"{header[:_TEXT_SIZE_MAX]!r} names no client") from None


def _source_of_bytes(header: bytes) -> Address | None:
    _, command, family, size = _HEAD.unpack_from(header)
    if command not in (_LOCAL, _FORWARDED):
        raise BadProxyHeader(f"its version and command are {command:#x}")
    found = _ADDRESSES.get(family)
    if command == _LOCAL or found is None:
        return None
    layout, kind = found
    if size < layout.size:
        raise BadProxyHeader(f"its {size} bytes are too few for two addresses")
    ip, _, port, _ = layout.unpack_from(header, _HEAD.size)
    return Address(str(kind(ip)), port)
