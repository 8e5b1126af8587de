"""An address as records and message ids hold it: the IP, then the port.

IPv4 makes 4 + 4 bytes, IPv6 makes 16 + 4. The packed form is called a host, the
readable pair an address. Names are not looked up here; only literal IPs can be packed.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from roquet.protocol.errors import BadMessage

HOST_SIZE_V4: Final = 8
HOST_SIZE_V6: Final = 20
_PORT_SIZE: Final = 4


class Address(NamedTuple):
    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


def pack_host(ip: str, port: int) -> bytes:
    """8 or 20 bytes. Raises BadMessage when `ip` is no literal IP or the port no int32."""
    try:
        # A link-local IPv6 address may name its interface after a percent sign.
        return ip_address(ip.partition("%")[0]).packed + port.to_bytes(_PORT_SIZE, signed=True)
    except (ValueError, OverflowError):
        raise BadMessage(f"{ip!r} with port {port} is not an address") from None


def unpack_host(host: bytes) -> Address:
    """Raises BadMessage for any size but 8 and 20."""
    ip = host[:-_PORT_SIZE]
    port = int.from_bytes(host[-_PORT_SIZE:], signed=True)
    if len(host) == HOST_SIZE_V4:
        return Address(".".join(map(str, ip)), port)
    if len(host) == HOST_SIZE_V6:
        return Address(str(IPv6Address(ip)), port)
    raise BadMessage(f"a host of {len(host)} bytes is neither IPv4 nor IPv6")
